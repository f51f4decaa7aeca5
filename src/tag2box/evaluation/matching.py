"""Which object each detection is on.

All images and classes go at once: detections and objects meet in groups (image, class), and the only loop is over the
first, second, … object of every group: as many rounds as the fullest group has objects, each with fewer detections.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import area, intersection
from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections


@dataclass(frozen=True, slots=True)
class BestOverlaps:
    """For each detection, the object of its class in its image that it overlaps most."""

    iou: NDArray[np.float64]
    """[N], 0 where it touches none."""
    objects: NDArray[np.int64]
    """Index into the ground truth [N], −1 where it touches none."""


def best_overlaps(truth: GroundTruth, detections: Detections) -> BestOverlaps:
    """The best object of each detection, difficult ones included; of equals the first annotated, as in the devkit."""
    groups = _group(truth, truth)  # [objects]
    order = np.argsort(groups, kind="stable")  # those of a group stay as annotated
    groups = groups[order]
    wanted = _group(truth, detections)  # [N]
    start = np.searchsorted(groups, wanted, side="left")
    count = np.searchsorted(groups, wanted, side="right") - start  # objects each detection could be on [N]
    iou = np.zeros(len(detections))
    objects = np.full(len(detections), -1)
    open_to_more = np.flatnonzero(count)  # detections, fewer with every round
    for k in range(count.max(initial=0)):
        open_to_more = open_to_more[count[open_to_more] > k]
        candidate = order[start[open_to_more] + k]
        overlap = _pairwise_iou(detections, open_to_more, truth, candidate)
        better = overlap > iou[open_to_more]  # strictly: the first of equals stays
        iou[open_to_more[better]] = overlap[better]
        objects[open_to_more[better]] = candidate[better]
    return BestOverlaps(iou, objects)


def ranking(detections: Detections) -> NDArray[np.int64]:
    """The order in which detections count [N]: class by class, the highest score first.

    Equal scores are broken by what was found and not by where a file lists it: by the order of images, then the lesser
    (x0, y0, x1, y1). What still ties is the same box twice, and its order cannot matter.
    """
    keys = (detections.images, -detections.scores, detections.labels)
    order = np.lexsort(keys)
    new = np.ones(len(order) + 1, dtype=bool)  # where another (class, score, image) begins, and the end [N + 1]
    new[1:-1] = np.logical_or.reduce([key[order[1:]] != key[order[:-1]] for key in keys])
    tied = ~(new[:-1] & new[1:])  # few: only these need sorting by box
    members, runs = order[tied], np.cumsum(new[:-1])[tied]
    order[tied] = members[np.lexsort((*detections.boxes[members].T[::-1], runs))]
    return order


def _group(truth: GroundTruth, of: GroundTruth | Detections) -> NDArray[np.int64]:
    """A number for each pair of image and class [N]."""
    return of.images * len(truth.classes) + of.labels


def _pairwise_iou(
    detections: Detections, found: NDArray[np.int64], truth: GroundTruth, objects: NDArray[np.int64]
) -> NDArray[np.float64]:
    """IoU of detection found[i] with objects[i] [P]."""
    a, b = detections.boxes[found], truth.boxes[objects]
    shared = intersection(a, b)
    union = area(a) + area(b) - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
