"""A contact sheet of a VOC devkit: pictures in even rows, their tags below, their boxes in one colour per class."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from tag2box.data import GroundTruth, TaggedImage, open_dataset, open_ground_truth, read_image

WIDTH, TALLEST, GUTTER, CAPTION = 1680, 240, 8, 24  # pixels
INK = "#3a3d4d"
COLOURS = ("#e4002b", "#0072ce", "#ff8a00", "#00a651", "#8e24aa", "#00b8c4", "#f06292", "#7a5c00")


@dataclass(frozen=True, slots=True)
class _Photo:
    image: Image.Image
    tags: tuple[str, ...]
    objects: list[tuple[str, list[float]]]
    """Class and box of each."""


def contact_sheet(
    devkit: Path, out: Path, *, split: str = "trainval", rows: int = 4, columns: int = 6, boxes: bool = True
) -> None:
    """Write the first pictures of a split as one image; the ending of `out` (.png, .jpg) says in which format."""
    dataset, truth = open_dataset(devkit, split, check=False), open_ground_truth(devkit, split)
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(dataset.classes)}
    photos = [_photo(image, truth) for image in islice(dataset, rows * columns)]
    bands = [_band(photos[i : i + columns], colours, boxes) for i in range(0, len(photos), columns)]
    sheet = Image.new("RGB", (WIDTH, sum(band.height for band in bands) + GUTTER), "white")
    y = GUTTER
    for band in bands:
        sheet.paste(band, (0, y))
        y += band.height
    sheet.save(out, quality=92)


def _photo(image: TaggedImage, truth: GroundTruth | None) -> _Photo:
    objects = []
    if truth is not None:
        own = truth.subset([image.id])
        objects = [(truth.classes[c], box) for c, box in zip(own.labels, own.boxes.tolist(), strict=True)]
    return _Photo(Image.fromarray(read_image(image.path)), image.tags, objects)


def _band(photos: list[_Photo], colours: dict[str, str], boxes: bool) -> Image.Image:
    """One row: pictures of one height that together fill the width, and captions."""
    free = WIDTH - GUTTER * (len(photos) + 1)
    height = min(TALLEST, free / sum(photo.image.width / photo.image.height for photo in photos))
    band = Image.new("RGB", (WIDTH, round(height) + CAPTION + GUTTER), "white")
    x = float(GUTTER)
    for photo in photos:
        scale = height / photo.image.height
        left, right = round(x), round(x + photo.image.width * scale)
        picture = photo.image.resize((right - left, round(height)), Image.Resampling.LANCZOS)
        if boxes:
            _draw_boxes(picture, photo, scale, colours)
        band.paste(picture, (left, 0))
        _draw_tags(ImageDraw.Draw(band), left, round(height), photo.tags, colours)
        x += photo.image.width * scale + GUTTER
    return band


def _draw_boxes(picture: Image.Image, photo: _Photo, scale: float, colours: dict[str, str]) -> None:
    pen = ImageDraw.Draw(picture)
    for name, box in photo.objects:
        x0, y0, x1, y1 = (round(side * scale) for side in box)
        # Around the object, not over it, and on a white line, so that it stands out on any ground.
        for out, width, colour in ((3, 4, "white"), (2, 2, colours[name])):
            pen.rounded_rectangle((x0 - out, y0 - out, x1 - 1 + out, y1 - 1 + out), 3 + out, None, colour, width)


def _draw_tags(pen: ImageDraw.ImageDraw, x: int, y: int, tags: Iterable[str], colours: dict[str, str]) -> None:
    font = ImageFont.load_default(15)
    at = x + 2.0
    for tag in tags:
        pen.ellipse((at, y + 9, at + 9, y + 18), fill=colours[tag])
        pen.text((at + 14, y + 13), tag, fill=INK, font=font, anchor="lm")
        at += 14 + pen.textlength(tag, font=font) + 14
