"""What is wrong with a detection, in the kinds that detectors learnt from tags are known for.

Nobody has told them where an object ends: they take the most telling part for the whole, or several that stand together
for one. Both count as false at IoU 0.5 and are mended in different ways, so they are told apart here.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import Boxes, area, intersection, iou
from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.evaluation.confusion import by_image, match

INSIDE = 0.7
"""Share of its area from which one box is said to lie in another."""
NEAR = 0.1
"""IoU below which a box has nothing to do with an object (TIDE's, Bolya et al. 2020)."""


class Kind(StrEnum):
    """In the order in which they are tried."""

    RIGHT = "right"
    UNCOUNTED = "uncounted"
    """On a difficult object or a crowd: neither right nor wrong."""
    AGAIN = "again"
    """On an object that a better box has found."""
    MISTAKEN = "mistaken"
    """On an object of another class."""
    GROUP = "group"
    """Around several objects of its class."""
    PART = "part"
    """Within an object of its class."""
    LARGE = "large"
    """Around one object of its class and much else."""
    BESIDE = "beside"
    """Over the edge of an object of its class."""
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Judged:
    """Each detection's kind, and the object that the kind speaks of."""

    kinds: tuple[Kind, ...]
    objects: NDArray[np.int64]
    """Index into the ground truth [N], −1 for none."""
    iou: NDArray[np.float64]
    """With that object [N]."""


def judge(truth: GroundTruth, detections: Detections, threshold: float = 0.5) -> Judged:
    """Say of every detection what it is; right are those that found an object of their class (see `confusion.py`)."""
    detections = detections.numbered_as(truth.classes, truth.ids)
    matches = match(truth, detections, threshold)
    kinds, objects = [Kind.NOTHING] * len(detections), np.full(len(detections), -1)
    for found, there in by_image(truth, detections):
        there = there[~truth.crowd[there]]
        for d in found:
            own = there[truth.labels[there] == detections.labels[d]]
            others = there[truth.labels[there] != detections.labels[d]]
            on = int(matches.objects[d])
            if on >= 0 and truth.labels[on] == detections.labels[d]:
                kinds[d], objects[d] = Kind.RIGHT, on
            elif not matches.counts[d]:
                kinds[d] = Kind.UNCOUNTED
            else:
                box = detections.boxes[d]
                kinds[d], place = _wrong(box, truth.boxes[own], truth.boxes[others], threshold)
                objects[d] = (*own, *others, -1)[place]
    return Judged(tuple(kinds), objects, _overlaps(truth, detections, objects))


def _wrong(box: Boxes, own: Boxes, others: Boxes, threshold: float) -> tuple[Kind, int]:
    """The kind of a box [4] that found nothing, and which object it speaks of: those of its class, then the others."""
    overlap, other = iou(box[None], own)[0], iou(box[None], others)[0]
    if (overlap >= threshold).any():
        return Kind.AGAIN, int(overlap.argmax())
    if (other >= threshold).any():
        return Kind.MISTAKEN, len(own) + int(other.argmax())
    shared = intersection(box, own)
    of_box, of_object = shared / max(float(area(box)), 1e-9), shared / np.maximum(area(own), 1e-9)
    if (of_object >= INSIDE).sum() > 1:
        return Kind.GROUP, int(overlap.argmax())
    if (of_box >= INSIDE).any():
        return Kind.PART, int(of_box.argmax())
    if (of_object >= INSIDE).any():
        return Kind.LARGE, int(of_object.argmax())
    if (overlap >= NEAR).any():
        return Kind.BESIDE, int(overlap.argmax())
    return Kind.NOTHING, -1


def _overlaps(truth: GroundTruth, detections: Detections, objects: NDArray[np.int64]) -> NDArray[np.float64]:
    values = np.zeros(len(detections))
    on = np.flatnonzero(objects >= 0)
    a, b = detections.boxes[on], truth.boxes[objects[on]]
    shared = intersection(a, b)
    values[on] = shared / np.maximum(area(a) + area(b) - shared, 1e-9)
    return values
