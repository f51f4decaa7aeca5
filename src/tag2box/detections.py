"""One result type for everything that finds objects."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import Boxes
from tag2box.errors import InputError, how_to_install

if TYPE_CHECKING:
    import supervision


@dataclass(frozen=True, slots=True)
class Detections:
    """Boxes found in a set of images, as flat arrays over detections. Checked when made, so nobody need check again."""

    classes: tuple[str, ...]
    ids: tuple[str, ...]
    """The images that were looked at, also those where nothing was found."""
    images: NDArray[np.int64]
    """Index into `ids` of each detection [N]."""
    labels: NDArray[np.int64]
    """Index into `classes` [N]."""
    scores: NDArray[np.float64]
    boxes: Boxes
    """[N, 4]"""

    def __post_init__(self) -> None:
        count = len(self.scores)
        shapes = {"images": self.images.shape, "labels": self.labels.shape, "scores": self.scores.shape}
        for name, shape in shapes.items():
            if shape != (count,):
                raise ValueError(f"{name}: expected shape ({count},), found {shape}")
        if self.boxes.shape != (count, 4):
            raise ValueError(f"boxes: expected shape ({count}, 4), found {self.boxes.shape}")
        _require_index("images", self.images, self.ids)
        _require_index("labels", self.labels, self.classes)
        if not np.isfinite(self.scores).all() or not np.isfinite(self.boxes).all():
            raise ValueError("scores and boxes: expected finite numbers, found NaN or infinity")
        if (self.boxes[:, 2:] < self.boxes[:, :2]).any():
            raise ValueError("boxes: expected x0 ≤ x1 and y0 ≤ y1, found a negative width or height")

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> "Detections":
        """Some of the detections, by index (also to reorder them) or by mask. Classes and ids stay."""
        return replace(
            self,
            images=self.images[which],
            labels=self.labels[which],
            scores=self.scores[which],
            boxes=self.boxes[which],
        )

    def numbered_as(self, classes: Sequence[str], ids: Sequence[str]) -> "Detections":
        """The same detections, with classes and images counted in another order; each that occurs must be there."""
        if tuple(classes) == self.classes and tuple(ids) == self.ids:
            return self
        return replace(
            self,
            classes=tuple(classes),
            ids=tuple(ids),
            images=_renumber("image", self.images, self.ids, ids),
            labels=_renumber("class", self.labels, self.classes, classes),
        )

    def to_supervision(self) -> "list[supervision.Detections]":
        """For each image of `ids` a `supervision.Detections`: trackers, zones and annotators take it from there.

        The class's name is in its `data["class_name"]`.
        """
        try:
            import supervision
        except ImportError:
            how = how_to_install("supervision")
            raise InputError(f"expected the package supervision, found it not installed: {how}") from None
        names = np.array(self.classes, dtype=np.str_)
        return [
            supervision.Detections(
                xyxy=self.boxes[rows].astype(np.float32),
                confidence=self.scores[rows].astype(np.float32),
                class_id=self.labels[rows],
                data={"class_name": names[self.labels[rows]]},
            )
            for rows in (np.flatnonzero(self.images == place) for place in range(len(self.ids)))
        ]


def _require_index(name: str, index: NDArray[np.int64], into: Sequence[str]) -> None:
    if len(index) and not (index.min() >= 0 and index.max() < len(into)):
        raise ValueError(f"{name}: expected indices below {len(into)}, found {index.min()} to {index.max()}")


def _renumber(kind: str, index: NDArray[np.int64], old: Sequence[str], new: Sequence[str]) -> NDArray[np.int64]:
    place = {name: i for i, name in enumerate(new)}
    table = np.array([place.get(name, -1) for name in old], dtype=np.int64)
    renumbered = table[index]
    if (renumbered < 0).any():
        raise ValueError(f"expected detections of known {kind} names only, found '{old[index[renumbered.argmin()]]}'")
    return renumbered
