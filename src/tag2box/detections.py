"""One result type for everything that finds objects."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import Boxes


@dataclass(frozen=True, slots=True)
class Detections:
    """Boxes found in a set of images, as flat arrays over detections. Checked when made, so that nobody need check again."""

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

    def __len__(self) -> int:
        return len(self.scores)


def _require_index(name: str, index: NDArray[np.int64], into: Sequence[str]) -> None:
    if len(index) and not (index.min() >= 0 and index.max() < len(into)):
        raise ValueError(f"{name}: expected indices below {len(into)}, found {index.min()} to {index.max()}")
