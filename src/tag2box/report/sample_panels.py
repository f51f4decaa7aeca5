"""One picture with boxes of one net on it: samples laid over each other, or detections with their scores.

Boxes are in pixels of the picture that is drawn on.
"""

from collections.abc import Iterable, Mapping, Sequence

from PIL import Image, ImageColor, ImageDraw, ImageEnhance

from tag2box.boxes import Box
from tag2box.report.colours import ink_on
from tag2box.report.fonts import font_for

BOLD, TINT = 0.95, 0.34
"""Opacity of outline and inside where all samples agree, however many there are."""
FAINTER = 0.85
"""By how much fainter the inside of a box is that takes up the whole picture, which is to be seen through it."""
FADED = 0.45
"""Opacity of a detection of score 0; one of score 1 is opaque."""
LINE, ROUND, TEXT = 4, 4, 17  # pixels

Corners = tuple[int, int, int, int]


def fade(picture: Image.Image) -> Image.Image:
    """Paler and less colourful, so that the boxes have the strongest colours on it."""
    dull = ImageEnhance.Color(picture).enhance(0.55)
    return Image.blend(dull, Image.new("RGB", picture.size, "white"), 0.18).convert("RGBA")


def draw_sampled(
    picture: Image.Image, samples: Sequence[Sequence[tuple[str, Box]]], colours: Mapping[str, str]
) -> Image.Image:
    """All samples over each other, each so translucent that only what all agree on is bold and scatter is a haze."""
    line = layer_opacity(BOLD, len(samples))
    for sample in samples:
        for name, box in sample:
            corners = _corners(box)
            inside = layer_opacity(tint(corners, picture.size), len(samples))
            layer = _rectangle(picture.size, corners, colours[name], line, inside)
            picture = Image.alpha_composite(picture, layer)
    return picture


def draw_predicted(
    picture: Image.Image, detections: Iterable[tuple[str, float, Box]], colours: Mapping[str, str]
) -> Image.Image:
    """Detections with their scores, the surest on top, the unsure paler; the colour tells the class."""
    rising = sorted(detections, key=lambda detection: detection[1])
    for name, score, box in rising:
        corners, opacity = _corners(box), FADED + (1 - FADED) * min(max(score, 0.0), 1.0)
        for colour, width in (("white", LINE + 3), (colours[name], LINE)):  # the white line: seen on any ground
            picture = Image.alpha_composite(
                picture, _rectangle(picture.size, corners, colour, opacity, 0.0, width, (width - LINE + 1) // 2)
            )
    _label(picture, [(colours[name], score, _corners(box)) for name, score, box in reversed(rising)])
    return picture


def tint(corners: Corners, room: tuple[int, int]) -> float:
    """The opacity of a box's inside: the larger its share of the picture, the fainter.

    >>> round(tint((0, 0, 10, 10), (100, 100)), 2), round(tint((0, 0, 100, 100), (100, 100)), 2)
    (0.34, 0.05)
    """
    x0, y0, x1, y1 = corners
    share = (x1 - x0) * (y1 - y0) / max(room[0] * room[1], 1)
    return TINT * (1 - FAINTER * min(max(share, 0.0), 1.0))


def layer_opacity(together: float, layers: int) -> float:
    """The opacity of each of so many layers that have the opacity `together` when they lie over each other.

    >>> round(layer_opacity(0.75, 2), 3)
    0.5
    """
    return float(1 - (1 - together) ** (1 / max(layers, 1)))


def _label(picture: Image.Image, detections: Sequence[tuple[str, float, Corners]]) -> None:
    """The score of each detection on its colour where there is room, the surest first; without room, none.

    No names: panels are small, and the dots above the grid say which class has which colour.
    """
    pen, taken, face = ImageDraw.Draw(picture), list[Corners](), font_for("0", TEXT)
    for colour, score, corners in detections:
        words = f"{score:.2f}"
        width, height = round(pen.textlength(words, font=face)) + 10, TEXT + 5
        place = free_place(corners, (width, height), picture.size, taken)
        if place is None:
            continue
        x, y = place
        taken.append((x, y, x + width, y + height))
        pen.rounded_rectangle(taken[-1], ROUND, colour)
        pen.text((x + 5, y + height / 2), words, fill=ink_on(colour), font=face, anchor="lm")


def free_place(
    corners: Corners, size: tuple[int, int], room: tuple[int, int], taken: Sequence[Corners]
) -> tuple[int, int] | None:
    """Above the box, inside it or below it, left or right; moved into the picture; clear of other labels."""
    (x0, y0, x1, y1), (width, height) = corners, size
    for y in (y0 - height, y0, y1 - height, y1):
        for x in (x0, x1 - width):
            at = max(0, min(x, room[0] - width)), max(0, min(y, room[1] - height))
            if not any(_touch((*at, at[0] + width, at[1] + height), other) for other in taken):
                return at
    return None


def _touch(one: Corners, other: Corners) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _rectangle(
    size: tuple[int, int], corners: Corners, colour: str, line: float, inside: float, width: int = LINE, out: int = 0
) -> Image.Image:
    """A layer with one rectangle on it."""
    layer = Image.new("RGBA", size, (*ImageColor.getrgb(colour)[:3], 0))
    ink, tint = ((*ImageColor.getrgb(colour)[:3], round(255 * opacity)) for opacity in (line, inside))
    x0, y0, x1, y1 = corners
    ImageDraw.Draw(layer).rounded_rectangle((x0 - out, y0 - out, x1 + out, y1 + out), ROUND + out, tint, ink, width)
    return layer


def _corners(box: Box) -> Corners:
    """Whole pixels, whichever way round the box was given."""
    (x0, x1), (y0, y1) = (sorted(round(side) for side in sides) for sides in (box[0::2], box[1::2]))
    return x0, y0, x1, y1
