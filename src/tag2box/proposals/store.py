"""Proposals of a whole data set in one file, memory-mapped: opened in milliseconds whatever its size.

The file is in the safetensors layout (a JSON header, then plain arrays), so any safetensors reader opens it too:

    offsets     int64 [N + 1]   boxes of image i are rows offsets[i] to offsets[i + 1]
    id_offsets  int64 [N + 1]   the id of image i is bytes id_offsets[i] to id_offsets[i + 1], UTF-8
    sizes       int32 [N, 2]    width and height of the images the boxes were made for
    boxes       int16 [M, 4]    x0, y0, x1, y1: 0-based, half-open, pixels of the original image
    ids         uint8 [...]
"""

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.data.records import Dataset, TaggedImage
from tag2box.errors import InputError, name_some
from tag2box.files import atomic_path

FORMAT = "tag2box proposals 1"
OURS = ".tag2box"
"""The folder in a data set's own where what is worked out of it is kept."""
_ANEW = "make it anew with `tag2box proposals … --overwrite`"
_ELSEWHERE = f"{_ANEW}, or another beside it with `tag2box proposals … --out`"
_UPDATE = "bring it up to date with `tag2box proposals …`"
ProposalBoxes = NDArray[np.int16]
_DTYPES: dict[str, np.dtype[Any]] = {
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "U8": np.dtype("u1"),
}


class ProposalStore:
    """The proposals in a file, by image id."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings, self.images_digest, arrays = _map_file(path)
        self._offsets, self._id_offsets, self._sizes = arrays["offsets"], arrays["id_offsets"], arrays["sizes"]
        self._boxes, self._ids = arrays["boxes"], arrays["ids"]

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def count(self) -> int:
        """The number of boxes over all images."""
        return len(self._boxes)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The images' ids in stored order."""
        text, ends = self._ids.tobytes(), self._id_offsets.tolist()
        return tuple(text[a:b].decode() for a, b in pairwise(ends))

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {image_id: row for row, image_id in enumerate(self.ids)}

    def __contains__(self, image_id: str) -> bool:
        return image_id in self._rows

    def __getitem__(self, image_id: str) -> ProposalBoxes:
        """The boxes of one image, int16 [B, 4], a view into the file; the likelier objects come first."""
        row = self._rows[image_id]
        return self._boxes[self._offsets[row] : self._offsets[row + 1]]

    def size(self, image_id: str) -> tuple[int, int]:
        """Width and height of the image that the boxes were made for."""
        width, height = self._sizes[self._rows[image_id]].tolist()
        return width, height

    def lacks(self, image: TaggedImage) -> bool:
        """Whether the image is not there, or in another size."""
        return image.id not in self or self.size(image.id) != image.size

    def serves(self, dataset: Dataset) -> bool:
        """Whether there are proposals for every image of the data set."""
        same = self.images_digest == digest_images(dataset.ids, [image.size for image in dataset])
        return same or not any(map(self.lacks, dataset))

    def made_with(self, settings: Mapping[str, Any]) -> bool:
        """Whether these are the settings of the proposals."""
        return self.settings == _as_stored(settings)

    def can_grow(self, dataset: Dataset) -> bool:
        """Whether it can be brought up to date: computed, not taken over from elsewhere, for some of these images."""
        return "source" not in self.settings and any(image.id in self for image in dataset)


def open_store(path: Path, dataset: Dataset, settings: Mapping[str, Any] | None = None) -> ProposalStore:
    """A store that holds proposals for every image of the data set, made with these settings; anything else is refused.

    It may hold more images than asked for: proposals of all of `trainval` serve a part of it as well.
    """
    store = ProposalStore(path)
    if settings is not None:
        require_settings(store, settings)
    if not store.serves(dataset):
        require_images(store, dataset)
    return store


def require_settings(store: ProposalStore, settings: Mapping[str, Any]) -> None:
    """Refuse a store that was made with others."""
    if not store.made_with(settings):
        differing = _differing(store.settings, _as_stored(settings))
        raise InputError(f"{store.path} was made with other settings: {differing}; {_ELSEWHERE}")


def require_images(store: ProposalStore, dataset: Dataset) -> None:
    """Refuse a store that lacks any of them."""
    remedy = _UPDATE if store.can_grow(dataset) else _ELSEWHERE
    missing = [image.id for image in dataset if image.id not in store]
    if missing:
        raise InputError(
            f"{store.path} was made for other images: {len(missing)} of {len(dataset)} are not in it "
            f"({name_some(missing, 3)}); {remedy}"
        )
    for image in dataset:
        if store.lacks(image):
            (width, height), (w, h) = store.size(image.id), image.size
            raise InputError(
                f"{store.path} was made for other images: {image.id} was {width}×{height} and is {w}×{h} pixels now; "
                + remedy
            )


def _differing(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Which settings differ, by name: some of them are too long to print."""
    keys = [key for key in {**found, **wanted} if found.get(key) != wanted.get(key)]
    return f"{name_some(keys)} {'differs' if len(keys) == 1 else 'differ'}"


def _as_stored(settings: Mapping[str, Any]) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(json.dumps(settings))  # tuples come back from JSON as lists
    return stored


def digest_images(ids: Sequence[str], sizes: Sequence[tuple[int, int]]) -> str:
    """A fingerprint of which images these are, in which order."""
    lines = (f"{image_id}\t{width}\t{height}\n" for image_id, (width, height) in zip(ids, sizes, strict=True))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def write_store(
    path: Path,
    ids: Sequence[str],
    sizes: Sequence[tuple[int, int]],
    settings: Mapping[str, Any],
    counts: Sequence[int],
    boxes: Iterable[ProposalBoxes],
) -> None:
    """Write a store atomically. `boxes` is taken one image at a time, so a set larger than memory can be written.

    The same input gives the same bytes.
    """
    names = [image_id.encode() for image_id in ids]
    head: dict[str, NDArray[Any]] = {
        "offsets": _offsets(counts),
        "id_offsets": _offsets([len(name) for name in names]),
        "sizes": np.array(sizes, dtype="<i4").reshape(-1, 2),
    }
    tail = np.frombuffer(b"".join(names), dtype=np.uint8)
    shapes = {name: (array.dtype, array.shape) for name, array in head.items()}
    shapes |= {"boxes": (_DTYPES["I16"], (sum(counts), 4)), "ids": (tail.dtype, tail.shape)}
    metadata = {"format": FORMAT, "settings": json.dumps(settings), "images": digest_images(ids, sizes)}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(_header(shapes, metadata))
        for array in head.values():
            file.write(array.tobytes())
        for count, rows in zip(counts, boxes, strict=True):
            if rows.shape != (count, 4) or rows.dtype != _DTYPES["I16"]:
                raise ValueError(f"expected int16 boxes of shape ({count}, 4), found {rows.dtype} {rows.shape}")
            file.write(rows.tobytes())
        file.write(tail.tobytes())
        file.flush()
        os.fsync(file.fileno())


def _offsets(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts, dtype="<i8")]).astype("<i8")


def _header(shapes: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]], metadata: Mapping[str, str]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": dict(metadata)}
    names = {dtype: name for name, dtype in _DTYPES.items()}
    position = 0
    for name, (dtype, shape) in shapes.items():
        end = position + dtype.itemsize * int(np.prod(shape))
        entries[name] = {"dtype": names[dtype], "shape": list(shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)  # so that the arrays behind it are aligned
    return struct.pack("<Q", len(text)) + text


def _map_file(path: Path) -> tuple[dict[str, Any], str, dict[str, NDArray[Any]]]:
    """The settings, the digest of the images, and the arrays, mapped and not read."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length) if length < 1 << 24 else b"")
        metadata = header.pop("__metadata__")
        if metadata["format"] != FORMAT:
            raise ValueError(metadata["format"])
        raw = np.memmap(path, dtype=np.uint8, mode="r")[8 + length :]
        arrays = {name: _array(raw, entry) for name, entry in header.items()}
        _require_whole(arrays, len(raw))
        settings, images_digest = json.loads(metadata["settings"]), metadata["images"]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except (struct.error, ValueError, LookupError, TypeError, AttributeError):
        raise InputError(f"{path}: expected a whole tag2box proposal store, found something else; {_ANEW}") from None
    return settings, images_digest, arrays


def _require_whole(arrays: Mapping[str, NDArray[Any]], size: int) -> None:
    """The arrays fit each other and fill the file; what is cut off or pieced together does not."""
    offsets, id_offsets = arrays["offsets"], arrays["id_offsets"]
    images = len(offsets) - 1
    shapes = {"offsets": (images + 1,), "id_offsets": (images + 1,), "sizes": (images, 2)}
    shapes |= {"boxes": (int(offsets[-1]), 4), "ids": (int(id_offsets[-1]),)}
    if {name: array.shape for name, array in arrays.items()} != shapes or size != sum(
        a.nbytes for a in arrays.values()
    ):
        raise ValueError("the arrays do not fit")


def _array(raw: NDArray[np.uint8], entry: Mapping[str, Any]) -> NDArray[Any]:
    begin, end = entry["data_offsets"]
    array: NDArray[Any] = raw[begin:end].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return array
