"""The boxes of a data set, for evaluation only. Training code does not import this module (a test holds it to that)."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import Boxes
from tag2box.errors import InputError

_ROUNDING = 2.0
"""Pixels by which a box may stick out: annotation tools round, and some count from 0 where VOC counts from 1."""


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """Every annotated object of a split, as flat arrays over objects."""

    classes: tuple[str, ...]
    ids: tuple[str, ...]
    """All images of the split in the order of the data set, also those without an object."""
    images: NDArray[np.int64]
    """Index into `ids` of each object [N], ascending."""
    labels: NDArray[np.int64]
    """Index into `classes` [N]."""
    boxes: Boxes
    """[N, 4]"""
    difficult: NDArray[np.bool_]
    """VOC's flag [N]: neither a positive nor a false alarm when found."""
    crowd: NDArray[np.bool_]
    """COCO's flag [N]: one box around many."""
    sizes: NDArray[np.int64] | None = None
    """Width and height of each image [len(ids), 2] where the annotation tells them."""
    image_numbers: dict[int, str] | None = None
    """COCO: the file's own image numbers, which detection files use, to ids."""
    category_numbers: dict[int, int] | None = None
    """COCO: the file's own category numbers to indices into `classes`."""

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, ids: Iterable[str]) -> "GroundTruth":
        """The objects of some images; the order of images stays that of the data set."""
        wanted = set(ids)
        numbers = self.image_numbers
        keep = np.array([i in wanted for i in self.ids], dtype=bool)  # [images]
        renumber = np.cumsum(keep) - 1
        some = self.objects_where(keep[self.images])
        return replace(
            some,
            ids=tuple(i for i, kept in zip(self.ids, keep, strict=True) if kept),
            images=renumber[some.images],
            sizes=None if self.sizes is None else self.sizes[keep],
            image_numbers=None if numbers is None else {n: i for n, i in numbers.items() if i in wanted},
        )

    def of_tags(self, tags: Mapping[str, Collection[str]]) -> "GroundTruth":
        """The objects whose class their image is tagged with, by its id.

        VOC has no tag for a class of which an image shows difficult objects alone.
        """
        own = ((self.ids[image], self.classes[label]) for image, label in zip(self.images, self.labels, strict=True))
        return self.objects_where(np.array([name in tags.get(id, ()) for id, name in own], dtype=bool))

    def objects_where(self, keep: NDArray[np.bool_]) -> "GroundTruth":
        """Those objects [N] of the same images."""
        return replace(
            self,
            images=self.images[keep],
            labels=self.labels[keep],
            boxes=self.boxes[keep],
            difficult=self.difficult[keep],
            crowd=self.crowd[keep],
        )


def require_inside(boxes: Boxes, sizes: NDArray[np.int64], where: Callable[[int], str]) -> None:
    """Each box [N, 4] has to lie in its image, of size [N, 2], corners in order; `where` names the source of a row.

    A size with a zero is one that the annotation does not tell. Boxes stay unclipped: the devkit scores them so.
    """
    known = sizes.min(axis=1) > 0  # [N]
    limits = np.where(known[:, None], sizes + _ROUNDING, np.inf)  # [N, 2]
    inside = (boxes[:, :2] >= -_ROUNDING).all(axis=1) & (boxes[:, 2:] <= limits).all(axis=1)
    wrong = np.flatnonzero(~(inside & (boxes[:, :2] <= boxes[:, 2:]).all(axis=1)))  # so written, NaN is wrong as well
    if len(wrong):
        row = int(wrong[0])
        box = ", ".join(f"{value:g}" for value in boxes[row])
        image = f"an image of {sizes[row, 0]} × {sizes[row, 1]}" if known[row] else "the image"
        more = f" (and {len(wrong) - 1} more like it)" if len(wrong) > 1 else ""
        raise InputError(f"{where(row)}: expected a box inside {image}, found (x0, y0, x1, y1) = ({box}){more}")
