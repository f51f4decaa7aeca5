"""A data set with boxes, as all writers of this package take it."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import Box, Boxes
from tag2box.detections import Detections


class Label(NamedTuple):
    """One box."""

    name: str
    """Of the class."""
    box: Box
    """Inside the picture, at least a pixel wide and high."""
    score: float
    """In 0–1; 1 where a person has given the box."""


@dataclass(frozen=True, slots=True)
class LabelledImage:
    """One picture and its boxes."""

    id: str
    path: Path
    size: tuple[int, int]
    """Width and height as seen, EXIF orientation applied. Boxes are in this frame."""
    labels: tuple[Label, ...]
    """Class by class in the data set's order, the best first."""
    reviewed: bool = False
    """A person has decided on every class that it has or was tagged with."""


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """Labelled images in the data set's order."""

    classes: tuple[str, ...]
    images: tuple[LabelledImage, ...]
    split: str
    """The name of the part that was labelled."""

    def detections(self) -> Detections:
        """The same boxes as flat arrays, to be scored."""
        number = {name: c for c, name in enumerate(self.classes)}
        rows = [(i, label) for i, image in enumerate(self.images) for label in image.labels]
        return Detections(
            classes=self.classes,
            ids=tuple(image.id for image in self.images),
            images=np.array([i for i, _ in rows], dtype=np.int64),
            labels=np.array([number[label.name] for _, label in rows], dtype=np.int64),
            scores=np.array([label.score for _, label in rows], dtype=np.float64),
            boxes=np.array([label.box for _, label in rows], dtype=np.float64).reshape(-1, 4),
        )


def inside(boxes: Boxes, size: NDArray[np.int64] | tuple[int, int]) -> Boxes:
    """Boxes [N, 4] cut at the picture's edge, and those thinner than a pixel widened to one.

    >>> inside(np.array([[-3.0, 5.0, 40.0, 5.2], [99.8, 0.0, 120.0, 50.0]]), (100, 50)).tolist()
    [[0.0, 5.0, 40.0, 6.0], [99.0, 0.0, 100.0, 50.0]]
    """
    limits = np.asarray(size, dtype=np.float64)
    low = np.clip(boxes[:, :2], 0, limits - 1)
    high = np.clip(boxes[:, 2:], low + 1, limits)
    return np.concatenate([low, high], axis=1)
