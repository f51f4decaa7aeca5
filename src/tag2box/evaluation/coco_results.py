"""COCO results: a JSON list of {image_id, category_id or category, bbox [x, y, width, height], score}.

Where every entry has a category, names decide: the numbers beside them are then the detector's own, as in the file of
`tag2box predict`, which knows nothing of the data set. Else numbers are the data set's, and names have to agree.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.errors import InputError
from tag2box.evaluation.names import Names, look_up, require_sound
from tag2box.garbage import no_garbage_collection

_Columns = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]


@no_garbage_collection()
def read_coco_results(path: Path, truth: GroundTruth) -> Detections:
    """Read a results file; an empty list is a detector that found nothing."""
    entries = _load(path)
    names = Names(truth)
    try:
        images, labels, scores, boxes = _by_column(entries, names)
    except (InputError, KeyError, TypeError, ValueError):  # find the entry to name, or allow what columns cannot hold
        images, labels, scores, boxes = _by_entry(entries, names, path)
    boxes = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)  # x, y, w, h → x0, y0, x1, y1
    require_sound(scores, boxes, lambda index: f"{path}, entry {index + 1}")
    return Detections(truth.classes, truth.ids, images, labels, scores, boxes)


def _load(path: Path) -> list[Any]:
    content = path.read_bytes()
    if not content.strip():
        raise InputError(f"{path}: expected a JSON list of detections, found an empty file")
    try:
        entries = json.loads(content)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{error.object[error.start]:02x} in line {line}"
        raise InputError(f"{path}: expected JSON in UTF-8, found {found}") from None
    except json.JSONDecodeError as error:
        found = f"{error.msg.lower()} in line {error.lineno}, column {error.colno}"
        raise InputError(f"{path}: expected JSON, found {found}") from None
    except (ValueError, RecursionError) as error:  # numbers too long, lists too deep
        raise InputError(f"{path}: expected JSON, found {error}") from None
    if isinstance(entries, dict) and "annotations" in entries:
        raise InputError(f"{path}: expected a JSON list of detections, found a COCO ground truth (it has annotations)")
    if not isinstance(entries, list):
        raise InputError(f"{path}: expected a JSON list of detections, found {_kind(entries)}")
    return entries


def _by_column(entries: list[Any], names: Names) -> _Columns:
    """The usual file, fast: each field of all entries at once. Raises anything at all where an entry is unusual."""
    images = look_up([entry["image_id"] for entry in entries], names.image)
    if any("category" in entry for entry in entries):
        labels = look_up([entry["category"] for entry in entries], names.label)
        pairs = {(entry["category_id"], entry["category"]) for entry in entries if "category_id" in entry}
        if len({number for number, _ in pairs}) < len(pairs):
            raise ValueError
    else:
        labels = look_up([entry["category_id"] for entry in entries], names.number)
    scores = np.array([entry["score"] for entry in entries])  # no dtype given, so that "0.5" stays text and is seen
    boxes = np.array([entry["bbox"] for entry in entries]).reshape(-1, 4)
    if entries and (boxes.shape != (len(entries), 4) or scores.dtype.kind not in "if" or boxes.dtype.kind not in "if"):
        raise ValueError
    return images, labels, scores.astype(np.float64), boxes.astype(np.float64)


def _by_entry(entries: list[Any], names: Names, path: Path) -> _Columns:
    """The same, one entry after another, and any mistake with its place."""
    own: dict[str, int] | None = {} if all(isinstance(one, dict) and "category" in one for one in entries) else None
    rows = []
    for index, entry in enumerate(entries):
        try:
            rows.append(_row(entry, names, own))
        except InputError as error:
            raise InputError(f"{path}, entry {index + 1}: {error}") from None
    images, labels, scores, boxes = zip(*rows, strict=True)
    return np.array(images), np.array(labels), np.array(scores), np.array(boxes)


def _row(entry: Any, names: Names, own: dict[str, int] | None) -> tuple[int, int, float, list[float]]:
    if not isinstance(entry, dict):
        raise InputError(f"expected an object with image_id, category_id, bbox and score, found {_kind(entry)}")
    fields = ("image_id", "category" if "category" in entry else "category_id", "bbox", "score")
    for field in fields:
        if field not in entry:
            raise InputError(f"expected the field {field}, found {', '.join(entry) or 'none'}")
    box = entry["bbox"]
    if not isinstance(box, list) or len(box) != 4:
        raise InputError(f"expected bbox [x, y, width, height], found {box!r}")
    score, corners = _number("score", entry["score"]), [_number("bbox", value) for value in box]
    return names.image(entry["image_id"]), _label(entry, names, own), score, corners


def _label(entry: Any, names: Names, own: dict[str, int] | None) -> int:
    """The class; `own` collects what each number stands for where the numbers are not the data set's."""
    if "category" not in entry:
        return names.number(entry["category_id"])
    label = names.label(entry["category"])
    if "category_id" in entry:
        number = entry["category_id"]
        other = names.number(number) if own is None else own.setdefault(repr(number), label)
        if other != label:
            found = f"category '{entry['category']}' and category_id {number}, which is '{names.classes[other]}'"
            raise InputError(f"expected one class, found {found}{'' if own is None else ' in an earlier entry'}")
    return label


def _number(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"expected a number in {field}, found {value!r}")
    try:
        return float(value)
    except OverflowError:  # JSON allows integers of any length
        return float("inf")


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", type(None): "null", bool: "true or false"}
    return names.get(type(value), "a number")
