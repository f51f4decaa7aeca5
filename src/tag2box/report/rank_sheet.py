"""A contact sheet of the pictures that the two nets are least sure of, with the boxes of both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tag2box.boxes import Box
from tag2box.data.images import read_image
from tag2box.report.fonts import readable, written
from tag2box.report.sample_panels import draw_sampled, fade
from tag2box.report.sheet import Photo, draw_sheet

COLUMNS, HEIGHT, WIDEST = 5, 240, 480  # a picture's pixels on the sheet


@dataclass(frozen=True, slots=True)
class Shown:
    """What the sheet has of a picture."""

    path: Path
    predicted: Sequence[tuple[str, Box]]
    """The prediction net's best box of each tag."""
    samples: Sequence[Sequence[tuple[str, Box]]]
    """The conditional net's samples."""
    caption: Sequence[tuple[str, str | None]]
    """Words, each about a class, the most doubtful first, or about none: of these and the name is the title."""


def draw_ranking(shown: Sequence[Shown], out: Path, colours: Mapping[str, str]) -> None:
    """Lines are the prediction net's boxes, the haze under them all samples of the conditional net over each other."""
    draw_sheet([_photo(one, colours) for one in shown], out, columns=COLUMNS)


def _photo(one: Shown, colours: Mapping[str, str]) -> Photo:
    picture = Image.fromarray(read_image(one.path))
    scale = min(HEIGHT / picture.height, WIDEST / picture.width)
    size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
    small = fade(picture.resize(size, Image.Resampling.LANCZOS))
    samples = [[(name, _scaled(box, scale)) for name, box in sample] for sample in one.samples]
    names = written(colours)
    tags = [(words.replace(name, names[name], 1), colours[name]) for words, name in one.caption if name is not None]
    return Photo(
        draw_sampled(small, samples, colours).convert("RGB"),
        [(_scaled(box, scale), colours[name]) for name, box in one.predicted],
        tags,
        title=": ".join([*(words for words, name in one.caption if name is None), readable(one.path.stem)]),
        stressed=True,
    )


def _scaled(box: Box, scale: float) -> Box:
    x0, y0, x1, y1 = (side * scale for side in box)
    return x0, y0, x1, y1
