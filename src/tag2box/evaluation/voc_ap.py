"""Average precision as the PASCAL VOC devkit computes it (VOCevaldet.m, VOCap.m).

Going down the ranking, a detection is compared with the object of its class in its image that it overlaps most, whether
or not that object is taken already: there is no second choice. Over the threshold it is a true positive if it is the
first on that object, false if it is not, and does not count at all if the object is difficult (VOC) or a crowd (COCO).
Otherwise it is false.

The threshold itself: papers, and the `voc_eval.py` of py-faster-rcnn that most published numbers come from, ask for
IoU > 0.5; the devkit's code has `ovmax>=VOCopts.minoverlap`. We do as the papers say, with `touching_counts=True` as
the code does.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.evaluation.matching import best_overlaps, ranking


@dataclass(frozen=True, slots=True)
class PrecisionRecall:
    """The curve of one class: a point for each detection that counts, the highest score first."""

    positives: int
    """Objects to find."""
    found: NDArray[np.int64]
    """True positives up to and with this point [D]."""
    scores: NDArray[np.float64]
    """[D]"""

    @property
    def precision(self) -> NDArray[np.float64]:
        """Share of the detections so far that are right [D]."""
        return self.found / np.arange(1, len(self.found) + 1)

    @property
    def recall(self) -> NDArray[np.float64]:
        """Share of the objects found so far [D]; NaN where there are none to find."""
        return self.found / (self.positives or np.nan)


def precision_recall(
    truth: GroundTruth, detections: Detections, threshold: float = 0.5, touching_counts: bool = False
) -> tuple[PrecisionRecall, ...]:
    """The curve of every class, in the order of the classes."""
    detections = detections.numbered_as(truth.classes, truth.ids)
    detections = detections.take(ranking(detections))
    best = best_overlaps(truth, detections)
    on_object = best.iou >= threshold if touching_counts else best.iou > threshold  # [N]
    on_object &= best.objects >= 0
    optional = truth.difficult | truth.crowd  # [objects]
    counts = ~(on_object & np.append(optional, False)[best.objects])  # −1, no object, reads the appended one
    right = counts & _first_on_its_object(best.objects, on_object)

    labels, right, scores = detections.labels[counts], right[counts], detections.scores[counts]
    positives = np.bincount(truth.labels[~optional], minlength=len(truth.classes))
    edges = np.searchsorted(labels, np.arange(len(truth.classes) + 1))  # the ranking goes class by class
    return tuple(
        PrecisionRecall(int(positives[c]), np.cumsum(right[a:b]), scores[a:b])
        for c, (a, b) in enumerate(pairwise(edges))
    )


def average_precision_11_points(curve: PrecisionRecall) -> float:
    """AP of VOC 2007: the mean, over recalls 0, 0.1, … 1, of the best precision from there; NaN: no positives.

    Recall is compared in whole numbers, 10 · found ≥ t · positives. In floating point 3 · 0.1 > 0.3, so that a recall
    of exactly 0.3 would be missed: NumPy's arange does so at 0.3, 0.6 and 0.7, MATLAB's 0:0.1:1 at 0.3.
    """
    if not curve.positives:
        return float("nan")
    envelope = np.append(_envelope(curve.precision), 0.0)  # [D + 1], nothing beyond the last point
    first_there = np.searchsorted(10 * curve.found, np.arange(11) * curve.positives)  # [11]
    return float(envelope[first_there].mean())


def average_precision_area(curve: PrecisionRecall) -> float:
    """AP of VOC 2010 and later: the area under the curve, precision made to fall with recall; NaN if no positives."""
    if not curve.positives:
        return float("nan")
    gained = np.diff(curve.found, prepend=0)  # 1 at the true positives, where recall moves [D]
    return float((gained * _envelope(curve.precision)).sum() / curve.positives)


def _first_on_its_object(objects: NDArray[np.int64], on_object: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of the ranked detections is the first on its object [N]."""
    candidates = np.flatnonzero(on_object)
    _, first = np.unique(objects[candidates], return_index=True)
    flags = np.zeros(len(objects), dtype=bool)
    flags[candidates[first]] = True
    return flags


def _envelope(precision: NDArray[np.float64]) -> NDArray[np.float64]:
    """The best precision at each point or after it [D]."""
    return cast("NDArray[np.float64]", np.maximum.accumulate(precision[::-1])[::-1])
