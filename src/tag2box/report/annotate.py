"""Detections drawn on a picture so that they are read at any size: lines and letters grow with the picture."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from tag2box.boxes import Box
from tag2box.report.colours import DARK, LIGHT, contrast, ink_on
from tag2box.report.fonts import font_for, written
from tag2box.report.sample_panels import Corners, free_place
from tag2box.report.words import shorten

LEAST, LONGEST = 360, 4096
"""A picture whose sides' geometric mean is shorter is enlarged, so that letters fit; no side beyond LONGEST by that."""
LINE, TEXT = 0.0065, 0.036  # of the geometric mean of the sides
WIDE, SHORT = 1 / 3, 8
"""A label may be as wide as its box, as this share of the picture or as so many times its letters' size is."""

Drawn = tuple[str, float, Box]
"""Class, score and box of a detection."""


def annotate(pixels: NDArray[np.uint8], found: Iterable[Drawn], colours: Mapping[str, str]) -> Image.Image:
    """An RGB picture [H, W, 3] with the detections on it, the surest on top; a very small one is enlarged."""
    picture = Image.fromarray(pixels)
    scale = enlargement(picture.size)
    if scale > 1:
        picture = picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.BICUBIC)
    side, pen = math.sqrt(picture.width * picture.height), ImageDraw.Draw(picture)
    line = max(2, round(side * LINE))
    rising = sorted(((name, score, _corners(box, scale)) for name, score, box in found), key=lambda one: one[1])
    for name, _, corners in rising:
        _outline(pen, corners, colours[name], line)
    _label(pen, rising[::-1], colours, picture.size, max(8, min(round(side * TEXT), min(picture.size) // 2)))
    return picture


def enlargement(size: tuple[int, int]) -> int:
    """How many times a picture is enlarged before anything is drawn on it.

    >>> [enlargement(size) for size in ((100, 75), (500, 375), (4000, 3000), (3000, 20))]
    [5, 1, 1, 1]
    """
    wanted = math.ceil(LEAST / math.sqrt(size[0] * size[1]))
    return max(1, min(wanted, LONGEST // max(size)))


def _corners(box: Box, scale: int) -> Corners:
    """The box in whole pixels of the enlarged picture, at least one wide and high."""
    x0, y0, x1, y1 = (round(side * scale) for side in box)
    return x0, y0, max(x0 + 1, x1), max(y0 + 1, y1)


def _outline(pen: ImageDraw.ImageDraw, corners: Corners, colour: str, line: int) -> None:
    """A line just inside the box, between two thin white ones, of pale colours dark ones: it is seen on any ground."""
    x0, y0, x1, y1 = corners
    rim, edge = max(1, round(line / 4)), LIGHT if contrast(LIGHT, colour) > 1.8 else DARK
    for out, ink, width in ((rim, edge, line + 2 * rim), (0, colour, line)):
        pen.rounded_rectangle((x0 - out, y0 - out, x1 - 1 + out, y1 - 1 + out), line + out, None, ink, width)


def _label(
    pen: ImageDraw.ImageDraw,
    falling: Sequence[tuple[str, float, Corners]],
    colours: Mapping[str, str],
    room: tuple[int, int],
    size: int,
) -> None:
    """Class and score of each detection where they hide no other's, the surest first; where there is no room, none."""
    taken: list[Corners] = []
    margin, height, names = round(size * 0.4), round(size * 1.45), written(colours)
    for name, score, corners in falling:
        most = min(max(corners[2] - corners[0], room[0] * WIDE, size * SHORT), room[0]) - 2 * margin
        words = _fitting(pen, names[name], score, most, size)
        width = math.ceil(pen.textlength(words, font=font_for(words, size))) + 2 * margin
        if width > room[0] or height > room[1]:
            continue
        place = free_place(corners, (width, height), room, taken)
        if place is None:
            continue
        x, y = place
        taken.append((x, y, x + width, y + height))
        pen.rounded_rectangle((x, y, x + width - 1, y + height - 1), round(size * 0.25), colours[name])
        at = x + margin, y + height / 2
        pen.text(at, words, fill=ink_on(colours[name]), font=font_for(words, size), anchor="lm")


def _fitting(pen: ImageDraw.ImageDraw, name: str, score: float, width: float, size: int) -> str:
    """Class and score in the width that there is; a name too long loses its middle, in the end all of it."""
    for most in range(min(max(len(name), 3), 80), 2, -1):
        words = f"{shorten(name, most)} {score:.2f}"
        if pen.textlength(words, font=font_for(words, size)) <= width:
            return words
    return f"{score:.2f}"
