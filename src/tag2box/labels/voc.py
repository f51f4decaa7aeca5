"""A VOC devkit: an XML file per picture, lists of images, pictures in one folder."""

import math
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tag2box.boxes import Box
from tag2box.data.records import WHOLE
from tag2box.labels.naming import flat_names, is_file_name
from tag2box.labels.placing import place_all
from tag2box.labels.records import LabelledImage, LabelledSet


def write_voc(labelled: LabelledSet, out: Path, *, images_as: str = "link") -> tuple[Path, int]:
    """`Annotations`, `ImageSets/Main` and `JPEGImages`. Objects have a score beside what VOC knows.

    Returns the folder of annotations, and how many linked pictures their EXIF tag turns.
    """
    split = "trainval" if labelled.split == WHOLE else labelled.split
    names = flat_names([image.id for image in labelled.images])
    annotations, lists = out / "Annotations", out / "ImageSets" / "Main"
    for folder in (annotations, lists, out / "JPEGImages"):
        folder.mkdir(parents=True)
    places = [
        out / "JPEGImages" / f"{name}{image.path.suffix}" for image, name in zip(labelled.images, names, strict=True)
    ]
    for image, name, place in zip(labelled.images, names, places, strict=True):
        file_name = image.path.name if images_as == "none" else place.name
        (annotations / f"{name}.xml").write_text(_annotation(image, file_name), encoding="utf-8")
    _write_lists(labelled, names, lists, split)
    _write_label_map(labelled.classes, out)
    pairs = ((image.path, place) for image, place in zip(labelled.images, places, strict=True))
    return Path("Annotations"), place_all(pairs, images_as)


def _write_lists(labelled: LabelledSet, names: list[str], lists: Path, split: str) -> None:
    """The images, and for each class which of them hold it: 1 or −1."""
    (lists / f"{split}.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    folded = {name.casefold() for name in labelled.classes}
    if len(folded) < len(labelled.classes) or not all(map(is_file_name, labelled.classes)):
        return  # readers take the classes from the annotations where there are no such lists
    held = [{label.name for label in image.labels} for image in labelled.images]
    for cls in labelled.classes:
        lines = [f"{name} {1 if cls in own else -1:2d}\n" for name, own in zip(names, held, strict=True)]
        (lists / f"{cls}_{split}.txt").write_text("".join(lines), encoding="utf-8")


def _write_label_map(classes: Sequence[str], out: Path) -> None:
    """Datumaro, and CVAT with it, takes the classes for those of VOC without this file."""
    if not any(":" in name for name in classes):
        lines = ["# label:color_rgb:parts:actions", *(f"{name}:::" for name in classes)]
        (out / "labelmap.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _annotation(image: LabelledImage, file_name: str) -> str:
    root = Element("annotation")
    _add(root, "folder", "JPEGImages")
    _add(root, "filename", file_name)
    source = SubElement(root, "source")
    _add(source, "database", "tag2box")
    _add(source, "image", image.id)
    size = SubElement(root, "size")
    for key, value in zip(("width", "height", "depth"), (*image.size, 3), strict=True):
        _add(size, key, value)
    _add(root, "segmented", 0)
    for label in image.labels:
        item = SubElement(root, "object")
        for key, text in (("name", label.name), ("pose", "Unspecified"), ("truncated", 0), ("difficult", 0)):
            _add(item, key, text)
        box = SubElement(item, "bndbox")
        for key, side in zip(("xmin", "ymin", "xmax", "ymax"), corners(label.box), strict=True):
            _add(box, key, side)
        _add(item, "score", round(label.score, 4))
    indent(root)
    return tostring(root, encoding="unicode") + "\n"


def _add(parent: Element, tag: str, value: object) -> None:
    SubElement(parent, tag).text = str(value)


def corners(box: Box) -> tuple[int, int, int, int]:
    """The nearest whole pixels, 1-based and inclusive; halves upwards, so that a pixel's width never becomes none.

    >>> corners((1.5, 0.0, 2.5, 9.6))
    (3, 1, 3, 10)
    """
    x0, y0, x1, y1 = (math.floor(side + 0.5) for side in box)
    return x0 + 1, y0 + 1, max(x1, x0 + 1), max(y1, y0 + 1)
