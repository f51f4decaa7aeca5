"""Correct localisation: is the best guess of a class on one of its objects, in the images known to hold it?"""

import numpy as np
from numpy.typing import NDArray

from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.evaluation.matching import best_overlaps, ranking


def corloc(truth: GroundTruth, detections: Detections, threshold: float = 0.5) -> NDArray[np.float64]:
    """The share of each class's images whose top-scoring box of it has IoU ≥ threshold with any of its objects [C].

    Difficult objects count as any other, as the field does (a tag does not say how hard a thing is to see); crowds do
    not: a box around many is no place of one. An image that holds the class but has no box of it is wrong. NaN for a
    class in no image.
    """
    truth = truth.objects_where(~truth.crowd)
    detections = detections.numbered_as(truth.classes, truth.ids)
    holds = np.zeros((len(truth.ids), len(truth.classes)), dtype=bool)
    holds[truth.images, truth.labels] = True
    detections = detections.take(holds[detections.images, detections.labels])
    top = detections.take(_top_of_each_image(detections))
    right = best_overlaps(truth, top).iou >= threshold
    hits, images = np.bincount(top.labels[right], minlength=len(truth.classes)), holds.sum(axis=0)  # [C]
    return hits / np.where(images, images, np.nan)


def _top_of_each_image(detections: Detections) -> NDArray[np.int64]:
    """The first detection, in the ranking, of each class in each image."""
    order = ranking(detections)
    group = detections.images[order] * len(detections.classes) + detections.labels[order]
    _, first = np.unique(group, return_index=True)
    return order[first]
