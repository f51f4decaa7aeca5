"""The pictures of a data set in the order in which a human look pays most, with the best box of each tag.

Beside the measures of `uncertainty.py`, which are about the labels of proposals, there is one about boxes: how far the
conditional net's are from the detector's best one. It is DIV(p, c) of eq. 8 with 1 − IoU for a loss: the dissimilarity
of the nets plus γ times the self-diversity of the samples, since a single best box has no diversity of its own. Little
of it is new to the detector's confidence, and some is: the two together are the doubt that pictures are ordered by. In
log odds, since many confidences lie close to 1, where in a mean they would all be the same (docs/rank.md).
"""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from torchvision.ops import box_iou

from tag2box.boxes import Box
from tag2box.data.images import read_image
from tag2box.data.records import Dataset, TaggedImage
from tag2box.inference import select_detections
from tag2box.pair import Pair, Study
from tag2box.pipeline import run_ahead, worker_pool
from tag2box.proposals.store import ProposalStore
from tag2box.uncertainty import Uncertainty, class_uncertainty, image_uncertainty

_NUMBERS = ("doubt", "distance", "dissimilarity", "self_diversity", "confidence")
COLUMNS = ("rank", "image", "class", "box", *_NUMBERS, *(f"image_{name}" for name in _NUMBERS))
"""Of ranking.csv."""
AHEAD = 8
"""Pictures that are read before the nets get to them."""


class Doubts(NamedTuple):
    """About a picture, or one of its tags."""

    doubt: float
    """Of distance and confidence, `doubt_of`; of a picture, that of its most doubtful tag."""
    distance: float
    """Between the nets' boxes, 0 to 1; of a picture, that of the tag where it is greatest."""
    labels: Uncertainty

    def by(self, name: str) -> float:
        """One of them by name, such that more is more doubtful."""
        return {
            "doubt": self.doubt,
            "distance": self.distance,
            "total": self.labels.total,
            "dissimilarity": self.labels.dissimilarity,
            "self-diversity": self.labels.self_diversity,
            "confidence": 1 - self.labels.confidence,
        }[name]

    def numbers(self) -> tuple[float, ...]:
        """As they are written down: doubt, distance, dissimilarity, self-diversity, confidence."""
        return self.doubt, self.distance, *self.labels


BY = ("doubt", "distance", "total", "dissimilarity", "self-diversity", "confidence")
"""What pictures can be ordered by. The last one is every detector's."""


@dataclass(frozen=True, slots=True)
class DoubtedClass:
    """A tag of a picture."""

    name: str
    box: Box
    """The prediction net's best, in the picture's own pixels; all of the picture where it has none."""
    doubts: Doubts


@dataclass(frozen=True, slots=True)
class DoubtedImage:
    """A picture, and its tags, the most doubtful first."""

    image: TaggedImage
    doubts: Doubts | None
    """None: it has fewer proposals than tags, and the nets can say nothing of it."""
    classes: tuple[DoubtedClass, ...]


def studies(pair: Pair, dataset: Dataset, store: ProposalStore) -> Iterator[tuple[TaggedImage, Study | None]]:
    """Both nets on every picture; None where there are not proposals enough."""
    with worker_pool(2, processes=False) as pool:
        begun = run_ahead(lambda image: pool.submit(read_image, image.path), dataset, AHEAD)
        for image, pixels in begun:
            yield image, pair.study_image(image, store, pixels.result)


def doubts_of(
    pair: Pair, image: TaggedImage, study: Study | None, by: str = BY[0], only: Sequence[str] = ()
) -> DoubtedImage:
    """How unsure the nets are of a picture and of each of its tags; or of some of them, as if it had no others."""
    of_all = not only
    image = replace(image, tags=tuple(name for name in image.tags if of_all or name in only))
    if study is None:
        return DoubtedImage(image, None, ())
    gamma, best = pair.recipe.rounds.gamma, _best_boxes(pair, image, study)
    classes = []
    for name in image.tags:
        label = pair.classes.index(name) + 1
        box, score = best[label]
        labels, distance = class_uncertainty(study, label, score, gamma), box_distance(study, label, box)
        classes.append(DoubtedClass(name, box, Doubts(doubt_of(distance, score), distance, labels)))
    classes.sort(key=lambda one: -one.doubts.by(by))
    doubt = max((one.doubts.doubt for one in classes), default=0.0)
    distance = max((one.doubts.distance for one in classes), default=0.0)
    least = min((one.doubts.labels.confidence for one in classes), default=1.0)  # without a tag nothing is to be found
    labels = image_uncertainty(study, least, gamma) if of_all else _greatest([one.doubts.labels for one in classes])
    return DoubtedImage(image, Doubts(doubt, distance, labels), tuple(classes))


def _greatest(of_classes: Sequence[Uncertainty]) -> Uncertainty:
    """The most uncertain in each respect."""
    apart, diverse, sure = zip(*of_classes, strict=True)
    return Uncertainty(max(apart), max(diverse), min(sure))


def doubt_of(distance: float, confidence: float) -> float:
    """1 − confidence where all samples have the very box, and odds e times as high where none touches it.

    >>> round(doubt_of(0.0, 0.9), 3), round(doubt_of(1.0, 0.9), 3)  # odds of 1 : 9 and of 2.72 : 9
    (0.1, 0.232)
    """
    against = (1 - confidence) * math.exp(distance)
    return against / (against + confidence)


def box_distance(study: Study, label: int, box: Box) -> float:
    """How far the samples' boxes of a class, 1…C, are from a box: 1 − IoU with the nearest of each, in the mean."""
    here = study.proposals.new_tensor([box])
    nearest = [box_iou(here, boxes[labels == label].to(here)) for boxes, labels in study.truths]  # each [1, T]
    return 1 - sum(float(one.max()) if one.numel() else 0.0 for one in nearest) / max(len(nearest), 1)


def in_order(images: Sequence[DoubtedImage], by: str = BY[0]) -> list[DoubtedImage]:
    """The most doubtful first, before all of them those that the nets can say nothing of; of equals the less confident.

    Distances often tie: where no sample touches the detector's box they are all 1.
    """

    def key(one: DoubtedImage) -> tuple[float, float]:
        return (-np.inf, 0.0) if one.doubts is None else (-one.doubts.by(by), one.doubts.labels.confidence)

    return sorted(images, key=key)


def ranking_csv(ranked: Sequence[DoubtedImage]) -> str:
    """A line for each tag of each image, in order; one without a class for an image without a tag."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for rank, one in enumerate(ranked, 1):
        for tag in one.classes:
            box = " ".join(f"{side:.1f}" for side in tag.box)
            writer.writerow([rank, one.image.id, tag.name, box, *_written(tag.doubts), *_written(one.doubts)])
        for name in () if one.classes else one.image.tags or ("",):
            writer.writerow([rank, one.image.id, name, "", *_written(None), *_written(one.doubts)])
    return text.getvalue()


def _written(doubts: Doubts | None) -> list[str]:
    return [""] * len(_NUMBERS) if doubts is None else [f"{value:.6g}" for value in doubts.numbers()]


def _best_boxes(pair: Pair, image: TaggedImage, study: Study) -> Mapping[int, tuple[Box, float]]:
    """The prediction net's best box of each class, 1…C, and its score; all of the picture, with 0, where there is none.

    The score is the box's own, as `tag2box label` has it, and not the highest of the class: with what the run remembers
    of the picture, or by landing, another box may be the best.
    """
    nothing_else = replace(pair.recipe.inference, parts=0.0, min_score=2.0, max_detections=0)
    found = select_detections(study.choice, study.boxes, nothing_else, size=image.size, best_of_each=True)
    width, height = image.size
    whole: Box = (0.0, 0.0, float(width), float(height))
    best = dict.fromkeys(range(1, len(pair.classes) + 1), (whole, 0.0))
    for (x0, y0, x1, y1), score, label in zip(*(part.tolist() for part in found), strict=True):
        best[label + 1] = (x0, y0, x1, y1), score
    return best
