"""The paper's figure 2: both nets' boxes on one picture, a column per stage, the samples laid over each other."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image, ImageDraw

from tag2box.boxes import Box
from tag2box.data.images import read_image
from tag2box.files import atomic_path, make_folder
from tag2box.report.colours import colours_of
from tag2box.report.fonts import font_for, readable, written
from tag2box.report.results import stage_name
from tag2box.report.sample_panels import draw_predicted, draw_sampled, fade
from tag2box.report.samples import SampleView, picture_name
from tag2box.report.words import shorten

AREA, LONGEST, LEAST = 256 * 192, 360, 150  # a picture's pixels, its longest side, its panel's shortest
MARGIN, GUTTER, TITLE, CAPTION, SIDE = 20, 12, 40, 34, 36  # pixels
WIDEST_TITLE = 4096
INK, GROUND = "#777d89", (119, 125, 137, 0)
"""Grey on nothing: it is read on a light page and on a dark one."""

Panel = tuple[str, Image.Image]
"""A picture and what is written above it."""
Line = tuple[str, list[Panel | None]]
"""A row of the grid: which net, and its panel for each stage that has one."""


def draw_all_samples(views: Iterable[SampleView], folder: Path, *, classes: Sequence[str] = ()) -> list[Path]:
    """A picture per image in `folder`, from the views of all stages; their paths."""
    by_image: dict[str, list[SampleView]] = {}
    for view in views:
        by_image.setdefault(view.image_id, []).append(view)
    make_folder(folder)
    paths = [folder / picture_name(image_id) for image_id in by_image]
    for path, own in zip(paths, by_image.values(), strict=True):
        draw_samples(own, path, classes=classes)
    return paths


def draw_samples(
    views_of_one_image: Sequence[SampleView], out: Path, *, classes: Sequence[str] = (), min_score: float = 0.2
) -> None:
    """Write the grid: samples of the conditional net above, detections of the prediction net below.

    With the data set's `classes` a class has the same colour in every picture. Of the detections those of at least
    `min_score` are shown, and of each tagged class the best one whatever its score: WSDDN's scores are small.
    """
    photo = Image.fromarray(read_image(views_of_one_image[0].image_path))
    place = _Place.of(photo)
    views = [_moved(_shown(view, min_score), place) for view in views_of_one_image]
    colours = class_colours(views, classes)
    names = written(classes or tuple(colours))
    title = _title(views[0], [(name, names.get(name, readable(name)), colour) for name, colour in colours.items()])
    sheet = _grid(_lines(views, place.put(photo), colours), title)
    with atomic_path(out) as temporary:
        sheet.save(temporary)


def class_colours(views: Iterable[SampleView], classes: Sequence[str] = ()) -> dict[str, str]:
    """The colour that each class on these views has in the whole run, the tags first."""
    views = list(views)
    found = [name for view in views for name, _, _ in view.prediction]
    found += [name for view in views for sample in view.samples for name, _ in sample]
    here = dict.fromkeys([tag for view in views for tag in view.tags] + found)
    colours = colours_of(tuple(dict.fromkeys((*classes, *here))))
    return {name: colours[name] for name in here}


def _shown(view: SampleView, min_score: float) -> SampleView:
    """Without the detections that would only clutter."""
    tagged = [found for found in view.prediction if found[0] in view.tags]
    best = {name: max(score for other, score, _ in tagged if other == name) for name, *_ in tagged}
    kept = [found for found in view.prediction if found[1] >= min(min_score, best.get(found[0], min_score))]
    return replace(view, prediction=kept)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the picture lies in its panel. A very narrow one has white beside it, so that labels find room."""

    scale: float
    size: tuple[int, int]
    room: tuple[int, int]

    @classmethod
    def of(cls, photo: Image.Image) -> "_Place":
        scale = min(math.sqrt(AREA / (photo.width * photo.height)), LONGEST / max(photo.size))
        size = max(1, round(photo.width * scale)), max(1, round(photo.height * scale))
        return cls(scale, size, (max(size[0], LEAST), max(size[1], LEAST)))

    @property
    def corner(self) -> tuple[int, int]:
        return (self.room[0] - self.size[0]) // 2, (self.room[1] - self.size[1]) // 2

    def put(self, photo: Image.Image) -> Image.Image:
        panel = Image.new("RGB", self.room, "white")
        panel.paste(photo.resize(self.size, Image.Resampling.LANCZOS), self.corner)
        return panel

    def move(self, box: Box) -> Box:
        """A box in pixels of the picture → of the panel, cut where the picture ends."""
        ends = (self.size[0] - 1, self.size[1] - 1) * 2
        sides = (min(max(side * self.scale, 0.0), end) for side, end in zip(box, ends, strict=True))
        x0, y0, x1, y1 = (side + start for side, start in zip(sides, self.corner * 2, strict=True))
        return x0, y0, x1, y1


def _moved(view: SampleView, place: _Place) -> SampleView:
    """With its boxes in pixels of the panels."""
    return replace(
        view,
        prediction=[(name, score, place.move(box)) for name, score, box in view.prediction],
        samples=[[(name, place.move(box)) for name, box in sample] for sample in view.samples],
    )


def _lines(views: Sequence[SampleView], picture: Image.Image, colours: Mapping[str, str]) -> list[Line]:
    """The rows that have anything in them. A stage is named above its first panel."""
    faded, number = fade(picture), max(len(view.samples) for view in views)
    sampled = [(stage_name(v.stage), draw_sampled(faded, v.samples, colours)) if v.samples else None for v in views]
    predicted: list[Panel | None] = [
        ("" if above else stage_name(view.stage), draw_predicted(faded, view.prediction, colours))
        for view, above in zip(views, sampled, strict=True)
    ]
    if not number:
        return [("prediction net", predicted)]
    if sampled[0] is None:  # before the first round there is no conditional net: room for the picture as it is
        sampled[0] = "the picture", picture
    return [(f"conditional net, {number} sample{'s' * (number > 1)}", sampled), ("prediction net", predicted)]


def _grid(lines: Sequence[Line], title: Image.Image) -> Image.Image:
    """The title, the panels, their names above them and the nets' names beside the rows."""
    width, height = next(panel[1].size for panel in lines[-1][1] if panel)  # they all have one size
    left, y, columns = MARGIN + SIDE, MARGIN + TITLE, len(lines[0][1])
    heads = [CAPTION if any(panel and panel[0] for panel in panels) else GUTTER for _, panels in lines]
    across, down = max(columns * (width + GUTTER) - GUTTER, title.width), sum(heads) + len(lines) * height
    sheet = Image.new("RGBA", (left + across + MARGIN, y + down + MARGIN), GROUND)
    sheet.paste(title, (left, MARGIN))
    for head, (label, panels) in zip(heads, lines, strict=True):
        y += head
        _write_upwards(sheet, (MARGIN + SIDE // 3, y + height // 2), label)
        for i, (words, picture) in ((i, panel) for i, panel in enumerate(panels) if panel):
            x = left + i * (width + GUTTER)
            _write(sheet, (x + width // 2, y - CAPTION // 2), words)
            sheet.paste(picture.convert("RGBA"), (x, y))
        y += height
    return sheet


def _title(view: SampleView, classes: Iterable[tuple[str, str, str]]) -> Image.Image:
    """The picture's name, and before each class (its name, what is written for it, its colour) a dot of its colour."""
    strip, y = Image.new("RGBA", (WIDEST_TITLE, TITLE), GROUND), TITLE // 3
    pen = ImageDraw.Draw(strip)
    x = _write(strip, (0, y), shorten(readable(view.image_id)), size=22, anchor="lm")
    for name, words, colour in classes:
        pen.ellipse((x + 26, y - 6, x + 39, y + 7), fill=colour)
        x += 46 + _write(strip, (x + 46, y), shorten(words), anchor="lm")
        if name not in view.tags:  # apart: the name's font may have the letters of its alphabet alone
            x += _write(strip, (x, y), " (not tagged)", anchor="lm")
    return strip.crop((0, 0, min(x, WIDEST_TITLE), TITLE))


def _write(sheet: Image.Image, at: tuple[int, int], words: str, *, size: int = 18, anchor: str = "mm") -> int:
    """Write words on one line; their width."""
    pen, face = ImageDraw.Draw(sheet), font_for(words, size)
    pen.text(at, words, fill=INK, font=face, anchor=anchor)
    return round(pen.textlength(words, font=face))


def _write_upwards(sheet: Image.Image, middle: tuple[int, int], words: str) -> None:
    """Words that are read from below, as on the spine of a book."""
    face = font_for(words, 18)
    strip = Image.new("RGBA", (round(ImageDraw.Draw(sheet).textlength(words, font=face)) + 4, 26), GROUND)
    _write(strip, (strip.width // 2, strip.height // 2), words)
    turned = strip.transpose(Image.Transpose.ROTATE_90)
    sheet.paste(turned, (middle[0] - turned.width // 2, middle[1] - turned.height // 2))
