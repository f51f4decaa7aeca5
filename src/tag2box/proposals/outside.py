"""Proposals that others have computed: `.mat` of the Fast R-CNN era, `.pkl` of PCL and wetectron.

Both hold one array per image. In the `.mat` files a row is (y1, x1, y2, x2), 1-based and inclusive; in the `.pkl` files
(x1, y1, x2, y2), 0-based and inclusive. Reading a `.pkl` runs no code: only numpy arrays and plain values come of it.
"""

import io
import pickle  # only through _ArraysOnly below
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.data.records import Dataset
from tag2box.errors import InputError, did_you_mean, name_some
from tag2box.proposals.store import ProposalBoxes, ProposalStore, open_store, write_store

Outside = dict[str | int, NDArray[Any]]


def import_proposals(source: Path, dataset: Dataset, path: Path) -> ProposalStore:
    """Turn an outside file into a store for the data set; every image of the data set must be in it."""
    readers: dict[str, Callable[[Path, Dataset], Outside]] = {
        ".mat": _read_mat,
        ".pkl": _read_pkl,
        ".pickle": _read_pkl,
    }
    reader = readers.get(source.suffix.lower())
    if reader is None:
        raise InputError(f"expected proposals in a .mat or .pkl file, found {source.name}")
    if not source.is_file():
        raise InputError(f"{source} does not exist")
    found = _by_id(reader(source, dataset), dataset, source)
    boxes = [_checked(found[image.id], image.size, f"{source}, image {image.id}") for image in dataset]
    sizes = [image.size for image in dataset]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_store(path, dataset.ids, sizes, {"source": source.name}, [len(rows) for rows in boxes], boxes)
    return open_store(path, dataset)


def _by_id(found: Outside, dataset: Dataset, source: Path) -> dict[str, NDArray[Any]]:
    """The arrays by image id. Numbers match the digits of a name: 5 is 000005, 2008000002 is 2008_000002."""
    numbers = {int(digits): i for i in dataset.ids if (digits := i.replace("_", "")).isdigit() and digits.isascii()}
    known = set(dataset.ids)
    by_id = {}
    for key, boxes in found.items():
        name = str(key)
        by_id[name if name in known or not name.isdigit() else numbers.get(int(name), name)] = boxes
    missing = [image_id for image_id in dataset.ids if image_id not in by_id]
    if missing:
        hint = did_you_mean(missing[0], by_id)
        raise InputError(
            f"{source}: expected proposals for all {len(dataset)} images, found none for {len(missing)} "
            f"({name_some(missing, 3)}){hint}"
        )
    return by_id


def _checked(boxes: NDArray[Any], size: tuple[int, int], where: str) -> ProposalBoxes:
    """Half-open boxes as int16, or an error when they cannot be boxes of this image."""
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise InputError(f"{where}: expected an array of 4 columns, found shape {boxes.shape}")
    width, height = size
    outside = boxes[(boxes < 0).any(axis=1) | (boxes[:, 2:] > [width, height]).any(axis=1)]
    if len(outside):
        raise InputError(f"{where}: expected boxes inside {width}×{height} pixels, found {outside[0].tolist()}")
    if (boxes[:, 2:] <= boxes[:, :2]).any():
        raise InputError(f"{where}: expected boxes with a positive width and height, found an empty one")
    checked: ProposalBoxes = np.rint(boxes).astype("<i2")
    return checked


def _read_mat(path: Path, dataset: Dataset) -> Outside:
    from scipy.io import loadmat

    try:
        content = loadmat(path)
    except (NotImplementedError, ValueError, TypeError, OSError) as error:
        raise InputError(f"cannot read {path} as a MATLAB file up to version 7: {error}") from None
    if "boxes" not in content:
        raise InputError(f"{path}: expected the variable 'boxes', found {name_some(k for k in content if k[0] != '_')}")
    arrays = [np.asarray(rows, dtype=np.float64).reshape(-1, 4) for rows in content["boxes"].ravel()]
    names = [str(np.asarray(name).ravel()[0]) for name in content["images"].ravel()] if "images" in content else None
    boxes = [np.stack([x1 - 1, y1 - 1, x2, y2], axis=1) for y1, x1, y2, x2 in (rows.T for rows in arrays)]
    return _pair(names, boxes, dataset, path)


def _read_pkl(path: Path, dataset: Dataset) -> Outside:
    content = _unpickle(path)
    if not isinstance(content, Mapping) or "boxes" not in content:
        raise InputError(f"{path}: expected a dictionary with 'boxes' and 'indexes', found {type(content).__name__}")
    names = next((content[key] for key in ("indexes", "ids", "image_ids") if key in content), None)
    half_open = np.array([0.0, 0, 1, 1])
    arrays = [np.asarray(rows, dtype=np.float64).reshape(-1, 4) + half_open for rows in content["boxes"]]
    scores = content.get("scores")
    if scores is not None and len(scores) == len(arrays):
        arrays = [_best_first(rows, np.ravel(score)) for rows, score in zip(arrays, scores, strict=True)]
    return _pair(names, arrays, dataset, path)


def _best_first(boxes: NDArray[Any], scores: NDArray[Any]) -> NDArray[Any]:
    return boxes[np.argsort(-scores, kind="stable")] if len(scores) == len(boxes) else boxes


def _pair(names: Sequence[Any] | None, boxes: Sequence[NDArray[Any]], dataset: Dataset, path: Path) -> Outside:
    """Arrays by name; a file without names goes by the order of the data set, if only the count fits."""
    if names is None:
        names = dataset.ids
    if len(names) != len(boxes):
        raise InputError(f"{path}: expected an array of boxes for each of {len(names)} images, found {len(boxes)}")
    return {_name(name): rows for name, rows in zip(names, boxes, strict=True)}


def _name(name: Any) -> str | int:
    name = name.decode() if isinstance(name, bytes) else name
    return Path(name).stem if isinstance(name, str) else int(name)


def _latin1(text: str, encoding: str = "latin1") -> bytes:
    """What Python 3 writes into old pickle protocols in place of bytes; `_codecs.encode` itself knows other codecs."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"_codecs.encode with {encoding}")
    return text.encode("latin1")


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that makes numpy arrays and scalars of what it reads and refuses any other class or function."""

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy._core", "numpy.core")  # its name from numpy 2 on
        if (module, name) == ("_codecs", "encode"):
            return _latin1
        if (module, name) in {("numpy", "ndarray"), ("numpy", "dtype")}:
            return getattr(np, name)
        if (module, name) in {("numpy.core.multiarray", "_reconstruct"), ("numpy.core.multiarray", "scalar")}:
            return getattr(np._core.multiarray, name)  # type: ignore[attr-defined]
        if (module, name) == ("numpy.core.numeric", "_frombuffer"):
            return np._core.numeric._frombuffer  # type: ignore[attr-defined]
        raise pickle.UnpicklingError(f"{module}.{name}")


def _unpickle(path: Path) -> Any:
    try:
        # latin1: arrays pickled by Python 2 hold their bytes as text
        return _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    except pickle.UnpicklingError as error:
        raise InputError(f"{path}: expected a pickle of numpy arrays alone, found {error}; not loaded") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # a damaged pickle raises nearly anything
        raise InputError(f"cannot read {path} as a pickle: {type(error).__name__}: {error}") from None
