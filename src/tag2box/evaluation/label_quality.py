"""How good labels are: which share of them is right, and which share of the objects has one."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tag2box.boxes import Boxes, iou
from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.evaluation.matching import ranking


@dataclass(frozen=True, slots=True)
class LabelQuality:
    """Labels against annotated objects, those difficult and crowds aside."""

    labels: int
    """Those that count: one on a difficult object is neither right nor wrong."""
    right: int
    """Labels on an object that no better label is on."""
    objects: int

    @property
    def precision(self) -> float:
        """Share of labels that are right; NaN without labels."""
        return self.right / self.labels if self.labels else float("nan")

    @property
    def recall(self) -> float:
        """Share of objects that have a label; NaN without objects."""
        return self.right / self.objects if self.objects else float("nan")


def label_quality(truth: GroundTruth, labels: Detections, threshold: float = 0.5) -> dict[str, LabelQuality]:
    """The quality of each class's labels, in the order of the truth's classes.

    The best label first, each takes the object of its class in its image that it overlaps most, of those not taken, at
    an IoU of `threshold` or more. One that finds none counts as wrong, unless it is so near to a difficult object or a
    crowd. The detector's score is not judged, only what is there: with average precision a second label on an object
    that is already found costs little, here it is a box that somebody has to delete.
    """
    labels = labels.numbered_as(truth.classes, truth.ids)
    optional = truth.difficult | truth.crowd
    objects, spared = (_groups(truth, rows) for rows in (np.flatnonzero(~optional), np.flatnonzero(optional)))
    right, counted = np.zeros(len(truth.classes), dtype=np.int64), np.zeros(len(truth.classes), dtype=np.int64)
    for (image, label), rows in _groups(labels, ranking(labels)).items():
        boxes = labels.boxes[rows]
        hits = _take(boxes, truth.boxes[objects.get((image, label), [])], threshold)
        near = iou(boxes, truth.boxes[spared.get((image, label), [])]).max(axis=1, initial=0.0) >= threshold
        right[label] += hits.sum()
        counted[label] += (hits | ~near).sum()
    wanted = np.bincount(truth.labels[~optional], minlength=len(truth.classes))
    return {name: LabelQuality(int(counted[c]), int(right[c]), int(wanted[c])) for c, name in enumerate(truth.classes)}


def in_all(qualities: Iterable[LabelQuality]) -> LabelQuality:
    """Several classes as one: every label and every object counts alike."""
    each = list(qualities)
    return LabelQuality(sum(q.labels for q in each), sum(q.right for q in each), sum(q.objects for q in each))


def _groups(of: GroundTruth | Detections, rows: np.ndarray) -> dict[tuple[int, int], list[int]]:
    """Rows by image and class, in the order given."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in rows.tolist():
        groups[int(of.images[row]), int(of.labels[row])].append(row)
    return groups


def _take(labels: Boxes, objects: Boxes, threshold: float) -> np.ndarray:
    """Which of the labels [N, 4], the best first, get one of the objects [M, 4], each of which goes only once."""
    overlap = iou(labels, objects)  # [N, M]
    hits = np.zeros(len(labels), dtype=bool)
    for row in range(len(labels) if len(objects) else 0):
        best = overlap[row].argmax()
        if overlap[row, best] >= threshold:
            hits[row] = True
            overlap[:, best] = -1
    return hits
