"""A contact sheet: pictures in even rows, boxes on them, a caption below each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw

from tag2box.files import atomic_path
from tag2box.report.colours import ink_on
from tag2box.report.fonts import font_for
from tag2box.report.words import shorten

WIDTH, TALLEST, GUTTER, CAPTION = 1680, 240, 8, 24  # pixels; CAPTION is a line of it
TEXT, DOT, APART = 15, 9, 14  # a letter's size, a dot, between two pieces
MOST_LINES = 3
INK = "#3a3d4d"


@dataclass(frozen=True, slots=True)
class Photo:
    """A picture and what is to be shown of it."""

    image: Image.Image
    boxes: Sequence[tuple[Sequence[float], str]]
    """Box and colour of each."""
    caption: Sequence[tuple[str, str]]
    """Words and the colour of the dot before them."""
    title: str = ""
    """On a line of its own, above the rest of the caption."""
    stressed: bool = False
    """Whether the first words of the caption matter most: they stand on their colour then."""


Piece = tuple[float, str, str, bool]
"""Where in its line it begins, words, their colour, and whether they stand on it."""


def draw_sheet(photos: Sequence[Photo], out: Path, *, columns: int = 6) -> None:
    """Write the photos as one picture; the ending of `out` (.png, .jpg) says in which format."""
    bands = [_band(photos[i : i + columns]) for i in range(0, len(photos), columns)]
    sheet = Image.new("RGB", (WIDTH, sum(band.height for band in bands) + GUTTER), "white")
    y = GUTTER
    for band in bands:
        sheet.paste(band, (0, y))
        y += band.height
    with atomic_path(out) as temporary:
        sheet.save(temporary, quality=88)


def _band(photos: Sequence[Photo]) -> Image.Image:
    """One row: pictures of one height that together fill the width, and captions."""
    free = WIDTH - GUTTER * (len(photos) + 1)
    height = max(1, min(TALLEST, free / sum(photo.image.width / photo.image.height for photo in photos)))
    edges, x = list[tuple[int, int]](), float(GUTTER)
    for photo in photos:
        wide = photo.image.width * height / photo.image.height
        edges.append((round(x), round(x + wide)))
        x += wide + GUTTER
    captions = [_lines(photo, right - left) for photo, (left, right) in zip(photos, edges, strict=True)]
    most = max(1, *map(len, captions))
    below = CAPTION * most + (GUTTER if most > 1 else 0)
    band = Image.new("RGB", (WIDTH, round(height) + below + GUTTER), "white")
    for photo, (left, right), lines in zip(photos, edges, captions, strict=True):
        picture = photo.image.resize((max(1, right - left), round(height)), Image.Resampling.LANCZOS)
        _draw_boxes(picture, photo, height / photo.image.height)
        band.paste(picture, (left, 0))
        for number, line in enumerate(lines):
            _draw_line(ImageDraw.Draw(band), left + 2, round(height) + number * CAPTION, line)
    return band


def _draw_boxes(picture: Image.Image, photo: Photo, scale: float) -> None:
    pen = ImageDraw.Draw(picture)
    for box, colour in photo.boxes:
        x0, y0, x1, y1 = (round(side * scale) for side in box)
        # Around the object, not over it, and on a white line, so that it stands out on any ground.
        for out, width, ink in ((3, 4, "white"), (2, 2, colour)):
            pen.rounded_rectangle((x0 - out, y0 - out, x1 - 1 + out, y1 - 1 + out), 3 + out, None, ink, width)


def _lines(photo: Photo, room: int) -> list[list[Piece]]:
    """The caption in lines that fit below the picture; what is left out is counted at the end, so that it is missed."""
    lines: list[list[Piece]] = [[]]
    title = _fitting(photo.title, room - 4)
    if title:
        lines = [[(0.0, title, "", False)], []]
    at, before = 0.0, len(lines) - 1
    for place, (words, colour) in enumerate(photo.caption):
        stressed, left = photo.stressed and not place, len(photo.caption) - place
        words = _fitting(words, room - DOT - 9)
        width = DOT + 5 + _length(words)
        if lines[-1] and at + width > room:
            lines.append([])
            at = 0.0
        full = len(lines) - before == MOST_LINES and left > 1
        if full and at + width + APART + _length(f"+{left - 1}") > room:
            lines[-1].append((at, f"+{left}", "", False))
            break
        lines[-1].append((at, words, colour, stressed))
        at += width + APART
    return [line for line in lines if line]


def _fitting(words: str, room: float) -> str:
    """Words cut in the middle to the room there is, three letters in any case."""
    words = " ".join(words.split())
    for most in range(min(len(words), 80), 3, -1):
        if _length(shorten(words, most)) <= room:
            return shorten(words, most)
    return words[:3]


def _length(words: str) -> float:
    return float(font_for(words, TEXT).getlength(words))


def _draw_line(pen: ImageDraw.ImageDraw, left: int, y: int, pieces: Sequence[Piece]) -> None:
    """Words with a dot of their colour before them, or on it; those without a colour as they are."""
    middle = y + 13
    for start, words, colour, stressed in pieces:
        at, ink = left + start, INK
        if stressed:
            pen.rounded_rectangle((at - 1, middle - 10, at + DOT + 4 + _length(words), middle + 9), 4, colour)
            at, ink = at + 5, ink_on(colour)
        elif colour:
            pen.ellipse((at, middle - 4, at + DOT, middle - 4 + DOT), fill=colour)
            at += DOT + 5
        pen.text((at, middle), words, fill=ink, font=font_for(words, TEXT), anchor="lm")
