"""What a detections file calls an image or a class, and which one of the ground truth that is."""

from collections.abc import Callable, Sequence
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from tag2box.data.ground_truth import GroundTruth
from tag2box.errors import InputError, did_you_mean


class Names:
    """Finds images and classes by any of the names the contract allows. Errors say what, the caller adds where."""

    def __init__(self, truth: GroundTruth) -> None:
        self.classes = truth.classes
        self._images = {name: i for i, name in enumerate(truth.ids)}
        self._labels = {name: c for c, name in enumerate(truth.classes)}
        self._images_by_number = self._number_images(truth)
        own_numbers = truth.category_numbers
        self._labels_by_number = {c + 1: c for c in range(len(truth.classes))} if own_numbers is None else own_numbers
        self._numbering = "1-based in the data set's class order" if own_numbers is None else "as in the COCO file"

    def image(self, value: object) -> int:
        """Index of an image given its name, with or without extension, or its number."""
        names = (value, value.rpartition(".")[0]) if isinstance(value, str) else ()
        for name in names:
            if name in self._images:
                return self._images[name]
        number = _number(value) if isinstance(value, str) else value
        if _is_whole(number) and number in self._images_by_number:
            return self._images_by_number[number]
        hint = did_you_mean(value, self._images) if isinstance(value, str) else ""
        raise InputError(f"expected one of the split's {len(self._images):,} images, found image_id {value!r}{hint}")

    def number(self, value: object) -> int:
        """Class index of a category_id."""
        if _is_whole(value) and value in self._labels_by_number:
            return self._labels_by_number[value]
        low, high = min(self._labels_by_number), max(self._labels_by_number)
        raise InputError(f"expected a category_id from {low} to {high}, {self._numbering}, found {value!r}")

    def label(self, value: object) -> int:
        """Class index of a name."""
        if isinstance(value, str) and value in self._labels:
            return self._labels[value]
        hint = did_you_mean(value, self._labels) if isinstance(value, str) else ""
        raise InputError(f"expected one of the data set's {len(self._labels)} classes, found {value!r}{hint}")

    def _number_images(self, truth: GroundTruth) -> dict[int, int]:
        """Numbers that stand for an image: those in a COCO file, then names that are numbers, zero-padded or not."""
        padded = {n: i for name, i in self._images.items() if (n := _number(name)) is not None}
        plain = {n: self._images[str(n)] for n in padded if str(n) in self._images}  # '12' before '0012'
        own = {n: self._images[name] for n, name in (truth.image_numbers or {}).items() if name in self._images}
        return padded | plain | own


def look_up(values: Sequence[object], find: Callable[[object], int]) -> NDArray[np.int64]:
    """Find each value [N], asking only once for those that repeat."""
    if bool in set(map(type, values)):
        raise TypeError("true would pass for 1")
    known = {value: find(value) for value in set(values)}
    return np.fromiter(map(known.__getitem__, values), dtype=np.int64, count=len(values))


def require_sound(scores: NDArray[np.float64], boxes: NDArray[np.float64], where: Callable[[int], str]) -> None:
    """Name the first detection whose score or box cannot be: `where` tells its place by its index."""
    finite = np.isfinite(scores) & np.isfinite(boxes).all(axis=1)
    if not finite.all():
        first = int(finite.argmin())
        found = f"score {scores[first]} and box {boxes[first].tolist()}"
        raise InputError(f"{where(first)}: expected finite numbers, found {found}")
    size = boxes[:, 2:] - boxes[:, :2]  # [N, 2]
    proper = (size >= 0).all(axis=1)
    if not proper.all():
        first = int(proper.argmin())
        width, height = size[first]
        raise InputError(f"{where(first)}: expected a box of some size, found width {width:g} and height {height:g}")


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(name: str) -> int | None:
    """A name of digits as a number; Python reads no more than 4,300 digits, and nobody names an image by twenty."""
    return int(name) if name.isdecimal() and len(name) < 20 else None
