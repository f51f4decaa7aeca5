"""YOLO as Ultralytics reads it: `data.yaml`, pictures for training and validation, a text file of boxes for each."""

from collections.abc import Sequence
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from tag2box.boxes import Box
from tag2box.data.splits import in_validation, require_fraction
from tag2box.errors import InputError
from tag2box.labels.naming import flat_names
from tag2box.labels.placing import picture_format, place_all
from tag2box.labels.records import LabelledImage, LabelledSet

DIGITS = 6
"""Of the edges, so that even on the largest pictures they are right to a thirtieth of a pixel."""
_READ = {"JPEG", "MPO", "PNG", "BMP", "TIFF", "WEBP"}
_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp"}


def split_by_hash(ids: Sequence[str], fraction: float, seed: int) -> list[str]:
    """`train` or `val` for each image. A fraction of 0 is meant to have no validation part."""
    if fraction == 0:
        return ["train"] * len(ids)
    require_fraction(fraction)
    parts = ["val" if in_validation(id, fraction, seed) else "train" for id in ids]
    for part in ("train", "val"):
        if part not in parts:
            hint = "another --seed may help, and --val-fraction 0 does without"
            raise InputError(
                f"expected images for {part}, found none: {fraction} of {len(ids)} leaves it empty; {hint}"
            )
    return parts


def write_yolo(
    labelled: LabelledSet, out: Path, *, images_as: str = "link", val_fraction: float = 0.2, seed: int = 0
) -> tuple[Path, int]:
    """`data.yaml`, `images/train`, `images/val`, and `labels/` with the same folders.

    Returns the first, and how many linked pictures their EXIF tag turns.
    """
    ids = [image.id for image in labelled.images]
    parts = split_by_hash(ids, val_fraction, seed)
    for part in dict.fromkeys(parts):
        for folder in ("images", "labels"):
            (out / folder / part).mkdir(parents=True)
    number = {name: c for c, name in enumerate(labelled.classes)}
    pairs = []
    for image, name, part in zip(labelled.images, flat_names(ids), parts, strict=True):
        lines = [_line(number[label.name], label.box, image.size) for label in image.labels]
        (out / "labels" / part / f"{name}.txt").write_text("".join(lines), encoding="ascii")
        if images_as != "none":
            pairs.append((image.path, out / "images" / part / f"{name}{_suffix(image)}"))
    # No `path`: Ultralytics then takes the folder that this file is in, wherever it is moved.
    content = {"train": "images/train", "val": "images/val" if val_fraction else "images/train"}
    text = yaml.safe_dump({**content, "names": dict(enumerate(labelled.classes))}, sort_keys=False, allow_unicode=True)
    (out / "data.yaml").write_text(text, encoding="utf-8")
    return Path("data.yaml"), place_all(pairs, images_as)


def _suffix(image: LabelledImage) -> str:
    """The picture's own extension, or that of the PNG that is made of what Ultralytics does not read."""
    own = image.path.suffix
    return own if own.lower() in _SUFFIXES and picture_format(image.path) in _READ else ".png"


def _line(number: int, box: Box, size: tuple[int, int]) -> str:
    """Class, centre and size in shares of the picture. Edges are rounded first, so that the box stays inside it."""
    x0, y0, x1, y1 = (round(10**DIGITS * side / whole) for side, whole in zip(box, (*size, *size), strict=True))
    centre = (f"{(a + b) / (2 * 10**DIGITS):.{DIGITS + 1}f}" for a, b in ((x0, x1), (y0, y1)))
    extent = (f"{(b - a) / 10**DIGITS:.{DIGITS}f}" for a, b in ((x0, x1), (y0, y1)))
    return " ".join([str(number), *centre, *extent]) + "\n"
