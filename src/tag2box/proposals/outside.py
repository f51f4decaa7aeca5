"""Proposals that others have computed: `.mat` of the Fast R-CNN era, `.pkl` of PCL and wetectron.

Both hold one array per image. In the `.mat` files a row is (y1, x1, y2, x2), 1-based and inclusive; in the `.pkl` files
(x1, y1, x2, y2), 0-based and inclusive. Reading a `.pkl` runs no code: only numpy arrays and plain values come of it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.data.records import Dataset
from tag2box.errors import InputError, did_you_mean, name_some
from tag2box.files import make_folder
from tag2box.proposals.pickles import in_one_line, load_arrays
from tag2box.proposals.store import ProposalBoxes, ProposalStore, open_store, write_store

Outside = dict[str | int, NDArray[Any]]
_LISTS = (list, tuple, np.ndarray)


class Convention(NamedTuple):
    """What the four columns of a file are."""

    columns: str
    order: list[int]
    """Which columns x0, y0, x1, y1 are."""
    shift: list[int]
    """What makes these 0-based and half-open."""


_MAT = Convention("y1, x1, y2, x2, counted from 1", order=[1, 0, 3, 2], shift=[-1, -1, 0, 0])
_PKL = Convention("x1, y1, x2, y2, counted from 0", order=[0, 1, 2, 3], shift=[0, 0, 1, 1])


def import_proposals(source: Path, dataset: Dataset, path: Path) -> ProposalStore:
    """Turn an outside file into a store for the data set; every image of the data set must be in it."""
    readers: dict[str, tuple[Callable[[Path, Dataset], Outside], Convention]] = {
        ".mat": (_read_mat, _MAT),
        ".pkl": (_read_pkl, _PKL),
        ".pickle": (_read_pkl, _PKL),
    }
    if source.suffix.lower() not in readers:
        raise InputError(f"expected proposals in a .mat or .pkl file, found {source.name}")
    reader, convention = readers[source.suffix.lower()]
    if not source.is_file():
        raise InputError(f"{source} does not exist")
    found = _by_id(reader(source, dataset), dataset, source)
    boxes = [_checked(found[image.id], convention, image.size, f"{source}, image {image.id}") for image in dataset]
    sizes = [image.size for image in dataset]
    make_folder(path.parent)
    write_store(path, dataset.ids, sizes, {"source": source.name}, [len(rows) for rows in boxes], boxes)
    return open_store(path, dataset)


def _by_id(found: Outside, dataset: Dataset, source: Path) -> dict[str, NDArray[Any]]:
    """The arrays by image id: a name as it is, or without folder and ending, or the number that its digits make.

    So 5 is 000005, and 2008000002 is 2008_000002.
    """
    numbers = {int(digits): i for i in dataset.ids if _is_number(digits := i.replace("_", ""))}
    known = set(dataset.ids)

    def id_of(name: str) -> str:
        stem = name if name in known else Path(name).stem
        return numbers.get(int(stem), stem) if stem not in known and _is_number(stem) else stem

    by_id = {id_of(str(key)): boxes for key, boxes in found.items()}
    missing = [image_id for image_id in dataset.ids if image_id not in by_id]
    if missing:
        hint = did_you_mean(missing[0], by_id)
        raise InputError(
            f"{source}: expected proposals for all {len(dataset)} images, found none for {len(missing)} "
            f"({name_some(missing, 3)}){hint}"
        )
    return by_id


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 1000  # Python refuses to convert much longer ones


def _checked(rows: NDArray[Any], convention: Convention, size: tuple[int, int], where: str) -> ProposalBoxes:
    """Half-open boxes as int16, or an error, with the box as the file has it, when they cannot be of this image."""
    width, height = size
    boxes = np.rint(rows[:, convention.order] + np.array(convention.shift))
    inside = (boxes[:, :2] >= 0).all(axis=1) & (boxes[:, 2:] <= [width, height]).all(axis=1)  # NaN is not
    if not inside.all():
        found = _shown(rows[~inside][0], convention)
        raise InputError(f"{where}: expected boxes inside {width}×{height} pixels, found {found}")
    empty = (boxes[:, 2:] <= boxes[:, :2]).any(axis=1)
    if empty.any():
        found = _shown(rows[empty][0], convention)
        raise InputError(f"{where}: expected boxes with a positive width and height, found {found}")
    checked: ProposalBoxes = boxes.astype("<i2")
    return checked


def _shown(row: NDArray[Any], convention: Convention) -> str:
    return f"[{', '.join(f'{value:g}' for value in row)}] ({convention.columns})"


def _read_mat(path: Path, dataset: Dataset) -> Outside:
    from scipy.io import loadmat

    try:
        content = loadmat(path)
    except Exception as error:  # a damaged file raises nearly anything
        raise InputError(f"cannot read {path} as a MATLAB file up to version 7: {in_one_line(error)}") from None
    if "boxes" not in content:
        raise InputError(f"{path}: expected the variable 'boxes', found {name_some(k for k in content if k[0] != '_')}")
    arrays = _arrays(content["boxes"].ravel(), path)
    images = content["images"].ravel() if "images" in content else None
    names = None if images is None else [str(np.ravel(name)[0]) for name in images if np.size(name)]
    return _pair(names, arrays, dataset, path)


def _read_pkl(path: Path, dataset: Dataset) -> Outside:
    content = load_arrays(path)
    if not isinstance(content, dict) or "boxes" not in content:
        found = f"only {name_some(map(str, content))}" if isinstance(content, dict) else type(content).__name__
        raise InputError(f"{path}: expected a dictionary with 'boxes' and 'indexes', found {found}")
    names = next((content[key] for key in ("indexes", "ids", "image_ids") if key in content), None)
    arrays = _arrays(content["boxes"], path)
    scores = content.get("scores")
    if isinstance(scores, _LISTS) and len(scores) == len(arrays):
        arrays = [_best_first(rows, score) for rows, score in zip(arrays, scores, strict=True)]
    return _pair(names, arrays, dataset, path)


def _arrays(boxes: Any, path: Path) -> list[NDArray[np.float64]]:
    """One array of 4 columns per image; what has none may come in any shape."""
    if not isinstance(boxes, _LISTS):
        raise InputError(f"{path}: expected 'boxes' to be a list of arrays, found {type(boxes).__name__}")
    arrays = []
    for number, rows in enumerate(boxes, start=1):
        try:
            array = np.asarray(rows, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"{path}: expected numbers in array {number} of 'boxes', found something else") from None
        if array.size and (array.ndim != 2 or array.shape[1] != 4):
            raise InputError(f"{path}: expected 4 columns in array {number} of 'boxes', found shape {array.shape}")
        arrays.append(array.reshape(-1, 4))
    return arrays


def _best_first(boxes: NDArray[Any], scores: Any) -> NDArray[Any]:
    scores = np.ravel(scores)
    if len(scores) != len(boxes) or not np.issubdtype(scores.dtype, np.number):
        return boxes
    return boxes[np.argsort(-scores.astype(np.float64), kind="stable")]


def _pair(names: Sequence[Any] | None, boxes: Sequence[NDArray[Any]], dataset: Dataset, path: Path) -> Outside:
    """Arrays by name; a file without names goes by the order of the data set, if only the count fits."""
    if names is None:
        names = dataset.ids
    if not isinstance(names, _LISTS):
        raise InputError(f"{path}: expected a list of image names, found {type(names).__name__}")
    if len(names) != len(boxes):
        raise InputError(f"{path}: expected an array of boxes for each of {len(names)} images, found {len(boxes)}")
    return {_name(name, path): rows for name, rows in zip(names, boxes, strict=True)}


def _name(name: Any, path: Path) -> str | int:
    if isinstance(name, bytes):
        return name.decode("utf-8", "replace")
    if isinstance(name, str):
        return str(name)
    try:
        return int(name)
    except (TypeError, ValueError, OverflowError):
        kind = type(name).__name__
        raise InputError(f"{path}: expected image names or numbers, found {kind} among them") from None
