"""Boxes that a person has given or confirmed: boxes.json, what `review` writes and `train` and `label` take.

    {"format": "tag2box boxes 1", "images": {"000012": {"car": [[8, 10, 120, 96]], "dog": []}}}

For each image and class that somebody has decided on, all boxes of that class in the image, (x0, y0, x1, y1) in its own
pixels; an empty list says that the tag is wrong, the class is not there. What is not listed is not known.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tag2box.boxes import Box
from tag2box.data.records import Dataset
from tag2box.errors import InputError, did_you_mean, name_some
from tag2box.files import write_atomically

Known = Mapping[str, Mapping[str, Sequence[Box]]]
"""By image id and class."""

FORMAT = "tag2box boxes 1"


def read_known(path: Path, dataset: Dataset) -> Known:
    """The boxes in a file, checked against the data set they are for."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}") from None
    except ValueError:
        raise InputError(f"{path}: expected boxes.json or review.sqlite of `tag2box review`, found neither") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT or not isinstance(content.get("images"), dict):
        raise InputError(f'{path}: expected {{"format": "{FORMAT}", "images": …}}, found something else')
    images = {image.id: image for image in dataset}
    unknown = [id for id in content["images"] if id not in images]
    if unknown:
        like = f"; its names are like {dataset[0].id}" if len(dataset) else ""
        raise InputError(f"{path}: expected images of the data set, found {name_some(unknown)}{like}")
    return {
        id: _of_image(entry, images[id].size, dataset.classes, f"{path}, image {id}")
        for id, entry in content["images"].items()
    }


def write_known(path: Path, known: Known) -> None:
    """Write such a file."""
    images = {id: {name: [list(box) for box in boxes] for name, boxes in entry.items()} for id, entry in known.items()}
    write_atomically(path, json.dumps({"format": FORMAT, "images": images}, ensure_ascii=False, indent=1) + "\n")


def _of_image(entry: Any, size: tuple[int, int], classes: Sequence[str], where: str) -> dict[str, list[Box]]:
    if not isinstance(entry, dict):
        raise InputError(f"{where}: expected classes with lists of boxes, found {type(entry).__name__}")
    for name in entry:
        if name not in classes:
            raise InputError(f"{where}: expected a class of the data set, found '{name}'{did_you_mean(name, classes)}")
    return {name: [_box(box, size, f"{where}, {name}") for box in _list(boxes, where)] for name, boxes in entry.items()}


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list of boxes, found {type(value).__name__}")
    return value


def _box(value: Any, size: tuple[int, int], where: str) -> Box:
    if not (isinstance(value, list) and len(value) == 4 and all(type(one) in (int, float) for one in value)):
        raise InputError(f"{where}: expected a box [x0, y0, x1, y1], found {value!r}")
    x0, y0, x1, y1 = map(float, value)
    if not (0 <= x0 < x1 <= size[0] and 0 <= y0 < y1 <= size[1]):
        raise InputError(f"{where}: expected a box within the picture's {size[0]} × {size[1]} pixels, found {value!r}")
    return x0, y0, x1, y1
