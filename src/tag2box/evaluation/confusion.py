"""Which class is taken for which: detections matched with objects of any class, one to one, image by image.

First each detection, the highest score first, takes the free object of its own class that it overlaps most. Of what is
left over, detections and objects of any class are paired, the largest overlap first. An object that nothing is left for
is missed; a detection that is left without one is a false alarm, unless it is on an object that is difficult (VOC) or a
crowd (COCO): those take no part and excuse what is on them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou
from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.evaluation.matching import ranking
from tag2box.evaluation.voc_ap import PrecisionRecall


@dataclass(frozen=True, slots=True)
class Matches:
    """What each detection is on."""

    objects: NDArray[np.int64]
    """Index into the ground truth [N], −1 for none."""
    counts: NDArray[np.bool_]
    """False where it is on nothing but a difficult object or a crowd [N]."""


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A score to ask of detections, and what comes of it over all classes together."""

    score: float
    precision: float
    recall: float


def match(truth: GroundTruth, detections: Detections, threshold: float = 0.5) -> Matches:
    """Pair detections with objects of IoU ≥ threshold, their own class before any other."""
    detections = detections.numbered_as(truth.classes, truth.ids)
    objects, counts = np.full(len(detections), -1), np.ones(len(detections), dtype=bool)
    optional = truth.difficult | truth.crowd
    for found, there in by_image(truth, detections):
        overlaps = iou(detections.boxes[found], truth.boxes[there])  # [n, m]
        near = overlaps >= threshold
        counts[found] = ~(near & optional[there]).any(axis=1)
        d, o = np.nonzero(near & ~optional[there])
        own = detections.labels[found[d]] == truth.labels[there[o]]
        first, second = np.lexsort((o, -overlaps[d, o], d)), np.lexsort((o, d, -overlaps[d, o]))
        pairs = [(int(d[i]), int(o[i])) for i in [*first[own[first]], *second[~own[second]]]]
        for one, other in _one_to_one(pairs):
            objects[found[one]], counts[found[one]] = there[other], True
    return Matches(objects, counts)


def confusion(truth: GroundTruth, detections: Detections, threshold: float = 0.5) -> NDArray[np.int64]:
    """How often an object of class i was found as class j [C + 1, C + 1].

    The last column counts the missed objects, the last row the false alarms; the corner is 0.
    """
    detections = detections.numbered_as(truth.classes, truth.ids)
    matches, nothing = match(truth, detections, threshold), len(truth.classes)
    on = np.append(truth.labels, nothing)[matches.objects]  # −1, no object, reads the appended one [N]
    missed = ~(truth.difficult | truth.crowd)
    missed[matches.objects[matches.objects >= 0]] = False
    table = np.zeros((nothing + 1, nothing + 1), dtype=np.int64)
    np.add.at(table, (on[matches.counts], detections.labels[matches.counts]), 1)
    table[:-1, nothing] = np.bincount(truth.labels[missed], minlength=nothing)
    return table


def operating_point(curves: Sequence[PrecisionRecall]) -> OperatingPoint | None:
    """The score at which precision and recall, over all classes together, have the highest harmonic mean (F1).

    None where nothing was right. Of equals the lowest score, which finds most.
    """
    scores = np.concatenate([np.zeros(0), *(curve.scores for curve in curves)])
    right = np.concatenate([np.zeros(0, dtype=np.int64), *(np.diff(curve.found, prepend=0) for curve in curves)])
    positives = sum(curve.positives for curve in curves)
    order = np.argsort(-scores, kind="stable")
    scores, right = scores[order], np.cumsum(right[order])
    if not positives or not right.any():
        return None
    ends = np.flatnonzero(np.diff(scores, append=-np.inf))  # all of one score come in together
    taken = ends + 1
    f1 = 2 * right[ends] / (taken + positives)
    best = len(f1) - 1 - int(f1[::-1].argmax())
    found = int(right[ends[best]])
    return OperatingPoint(float(scores[ends[best]]), found / int(taken[best]), found / positives)


def by_image(truth: GroundTruth, detections: Detections) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The detections, in their ranking, and the objects of each image that has both."""
    order = ranking(detections)
    order = order[np.argsort(detections.images[order], kind="stable")]
    places = np.arange(len(truth.ids) + 1)
    starts, begins = np.searchsorted(detections.images[order], places), np.searchsorted(truth.images, places)
    for image in np.intersect1d(detections.images, truth.images):
        yield order[starts[image] : starts[image + 1]], np.arange(begins[image], begins[image + 1])


def _one_to_one(pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Those pairs of which neither side was in an earlier one."""
    left: set[int] = set()
    right: set[int] = set()
    for one, other in pairs:
        if one not in left and other not in right:
            left.add(one)
            right.add(other)
            yield one, other
