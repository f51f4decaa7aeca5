"""A contact sheet: pictures in even rows, boxes on them, a caption below each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from tag2box.files import atomic_path

WIDTH, TALLEST, GUTTER, CAPTION = 1680, 240, 8, 24  # pixels
INK = "#3a3d4d"


@dataclass(frozen=True, slots=True)
class Photo:
    """A picture and what is to be shown of it."""

    image: Image.Image
    boxes: Sequence[tuple[Sequence[float], str]]
    """Box and colour of each."""
    caption: Sequence[tuple[str, str]]
    """Words and the colour of the dot before them."""


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
    band = Image.new("RGB", (WIDTH, round(height) + CAPTION + GUTTER), "white")
    x = float(GUTTER)
    for photo in photos:
        scale = height / photo.image.height
        left, right = round(x), round(x + photo.image.width * scale)
        picture = photo.image.resize((max(1, right - left), round(height)), Image.Resampling.LANCZOS)
        _draw_boxes(picture, photo, scale)
        band.paste(picture, (left, 0))
        _draw_caption(ImageDraw.Draw(band), left, right, round(height), photo.caption)
        x += photo.image.width * scale + GUTTER
    return band


def _draw_boxes(picture: Image.Image, photo: Photo, scale: float) -> None:
    pen = ImageDraw.Draw(picture)
    for box, colour in photo.boxes:
        x0, y0, x1, y1 = (round(side * scale) for side in box)
        # Around the object, not over it, and on a white line, so that it stands out on any ground.
        for out, width, ink in ((3, 4, "white"), (2, 2, colour)):
            pen.rounded_rectangle((x0 - out, y0 - out, x1 - 1 + out, y1 - 1 + out), 3 + out, None, ink, width)


def _draw_caption(pen: ImageDraw.ImageDraw, left: int, right: int, y: int, caption: Sequence[tuple[str, str]]) -> None:
    """As much of the caption as there is room for below the picture, the first words in any case."""
    font = ImageFont.load_default(15)
    at = left + 2.0
    for place, (words, colour) in enumerate(caption):
        if place and at + 14 + pen.textlength(words, font=font) > right:
            break
        pen.ellipse((at, y + 9, at + 9, y + 18), fill=colour)
        pen.text((at + 14, y + 13), words, fill=INK, font=font, anchor="lm")
        at += 14 + pen.textlength(words, font=font) + 14
