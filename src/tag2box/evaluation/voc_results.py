"""VOC results: a file per class, `comp4_det_<split>_<class>.txt`, with lines `image score xmin ymin xmax ymax`.

Boxes there are 1-based and inclusive.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.errors import InputError, did_you_mean
from tag2box.evaluation.names import Names, look_up, require_sound

NAME = "<prefix>_det_<split>_<class>.txt"
LINE = "'image score xmin ymin xmax ymax'"

T = TypeVar("T")


def read_voc_results(path: Path, truth: GroundTruth) -> Detections:
    """Read one class's file or a folder of them. A class without a file, or an empty one there, was never found."""
    files = _by_class(_find_files(path), truth.classes)
    names = Names(truth)
    parts = [_read_file(file, label, truth, names) for label, file in files.items()]
    return Detections(
        truth.classes,
        truth.ids,
        images=np.concatenate([part.images for part in parts]),
        labels=np.concatenate([part.labels for part in parts]),
        scores=np.concatenate([part.scores for part in parts]),
        boxes=np.concatenate([part.boxes for part in parts]),
    )


def _find_files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(path.glob("*det_*.txt"))
        if not files:
            raise InputError(f"{path}: expected files named {NAME}, found none")
        return files
    if not path.read_bytes().strip():
        raise InputError(f"{path}: expected lines {LINE}, found an empty file")
    return [path]


def _by_class(files: list[Path], classes: tuple[str, ...]) -> dict[int, Path]:
    """The file of each class index. Of two that fit the longer wins: `test_hot_dog` is of hot_dog, not of dog."""
    chosen: dict[int, Path] = {}
    for file in files:
        fitting = [name for name in classes if file.stem.endswith(f"_{name}")]
        if not fitting:
            hint = did_you_mean(file.stem.rpartition("_")[2], classes)
            raise InputError(f"{file}: expected a name like {NAME} with a class of the data set{hint}")
        label = classes.index(max(fitting, key=len))
        if label in chosen:
            raise InputError(f"expected one file for class {classes[label]}, found {chosen[label]} and {file.name}")
        chosen[label] = file
    return chosen


def _read_file(file: Path, label: int, truth: GroundTruth, names: Names) -> Detections:
    rows = _rows(file)
    try:
        images = look_up([row[0] for row in rows], names.image)
        values = np.array([row[1:] for row in rows], dtype=np.float64).reshape(-1, 5)
    except (InputError, ValueError):  # find the line to name
        images = np.array([_at(file, index, names.image, row[0]) for index, row in enumerate(rows)])
        values = np.array([[_at(file, index, _number, v) for v in row[1:]] for index, row in enumerate(rows)])
    scores, boxes = values[:, 0], values[:, 1:] - [1, 1, 0, 0]  # 1-based and inclusive → 0-based and half-open
    require_sound(scores, boxes, lambda index: f"{file}, line {index + 1}")
    return Detections(truth.classes, truth.ids, images, np.full(len(rows), label), scores, boxes)


def _rows(file: Path) -> list[list[str]]:
    """The six fields of each line; there may be spaces in an image's name."""
    try:
        rows = [line.rsplit(maxsplit=5) for line in file.read_text(encoding="utf-8-sig").rstrip().split("\n")]
    except UnicodeDecodeError:
        raise InputError(f"{file}: expected lines of text, found something else") from None
    if rows == [[]]:
        return []
    for index, row in enumerate(rows):
        if len(row) != 6:
            raise InputError(f"{file}, line {index + 1}: expected {LINE}, found {len(row)} fields")
    return rows


def _at(file: Path, index: int, read: Callable[[str], T], field: str) -> T:
    """A field read, or an error that says where it stands."""
    try:
        return read(field)
    except InputError as error:
        raise InputError(f"{file}, line {index + 1}: {error}") from None


def _number(field: str) -> float:
    try:
        return float(field)
    except ValueError:
        raise InputError(f"expected a number, found {field!r}") from None
