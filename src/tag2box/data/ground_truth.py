"""The boxes of a data set, for evaluation only. Training code does not import this module (a test holds it to that)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import Boxes


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

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, ids: Iterable[str]) -> "GroundTruth":
        """The objects of some images; the order of images stays that of the data set."""
        wanted = set(ids)
        keep = np.array([i in wanted for i in self.ids], dtype=bool)  # [images]
        renumber = np.cumsum(keep) - 1
        objects = keep[self.images]
        return replace(
            self,
            ids=tuple(i for i, kept in zip(self.ids, keep, strict=True) if kept),
            images=renumber[self.images[objects]],
            labels=self.labels[objects],
            boxes=self.boxes[objects],
            difficult=self.difficult[objects],
            crowd=self.crowd[objects],
            sizes=None if self.sizes is None else self.sizes[keep],
        )
