"""How much of a data set its proposals can reach: the ceiling of every detector built on them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import Boxes, area, iou
from tag2box.data.ground_truth import GroundTruth

AnyBoxes = NDArray[np.int16] | Boxes

BUDGETS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
SIZES = (
    ("small (under 64 px)", 0.0, 64.0),
    ("medium (64–128 px)", 64.0, 128.0),
    ("large (over 128 px)", 128.0, np.inf),
)
"""By the square root of an object's area, the lower end included. COCO's 32 would leave VOC hardly a small object."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How well a group of objects is covered, as shares of 1; NaN for a group of none."""

    objects: int
    recall_50: float
    """Share of objects with a box at IoU ≥ 0.5."""
    recall_70: float
    average_best_overlap: float


@dataclass(frozen=True, slots=True)
class RecallReport:
    """What proposals reach, over all objects that are neither difficult nor crowds."""

    images: int
    boxes_per_image: float
    overall: Reach
    per_class: dict[str, Reach]
    per_size: dict[str, Reach]
    budgets: tuple[tuple[float, Reach], ...]
    """Boxes kept, as the mean over images, and what they reach: the first 10, 20, … in stored order, and last all."""


def proposal_recall(
    truth: GroundTruth, proposals: Callable[[str], AnyBoxes] | Sequence[AnyBoxes], budgets: Sequence[int] = BUDGETS
) -> RecallReport:
    """Measure proposals [B, 4] given for each image, by its id or as a sequence in the order of `truth.ids`."""
    boxes_of = [proposals(i) for i in truth.ids] if callable(proposals) else proposals
    if len(boxes_of) != len(truth.ids):
        raise ValueError(f"expected proposals for {len(truth.ids)} images, found {len(boxes_of)}")
    counts = np.array([len(boxes) for boxes in boxes_of])  # [images]
    steps = np.array([n for n in sorted(budgets) if n < counts.max(initial=0)], dtype=np.int64)  # and then all [S]
    objects = np.flatnonzero(~(truth.difficult | truth.crowd))
    best = np.zeros((len(objects), len(steps) + 1))  # best overlap within each step's boxes [N, S + 1]
    for rows, image in _runs(truth.images[objects]):
        best[rows] = _best_within(truth.boxes[objects[rows]], boxes_of[image], steps)

    labels, side = truth.labels[objects], np.sqrt(area(truth.boxes[objects]))
    kept = [*(np.minimum(counts, n).mean() for n in steps), counts.mean() if len(counts) else 0.0]
    return RecallReport(
        images=len(truth.ids),
        boxes_per_image=float(kept[-1]),
        overall=_reach(best[:, -1]),
        per_class={name: _reach(best[labels == c, -1]) for c, name in enumerate(truth.classes)},
        per_size={name: _reach(best[(side >= low) & (side < high), -1]) for name, low, high in SIZES},
        budgets=tuple((float(n), _reach(column)) for n, column in zip(kept, best.T, strict=True)),
    )


def _runs(images: NDArray[np.int64]) -> Iterable[tuple[slice, int]]:
    """Each image with the slice of its objects; they come image by image."""
    edges = np.append(np.flatnonzero(np.diff(images, prepend=-1)), len(images))
    return ((slice(a, b), int(images[a])) for a, b in pairwise(edges))


def _best_within(objects: Boxes, proposals: AnyBoxes, steps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Best overlap of each object with the first n boxes, for every n of the steps and for all of them [N, S + 1]."""
    overlap = iou(objects, proposals.astype(np.float64))  # [N, B]
    edges = np.minimum([0, *steps, len(proposals)], len(proposals))
    best = np.zeros((len(objects), len(edges) - 1))
    for column, (a, b) in enumerate(pairwise(edges)):
        best[:, column] = overlap[:, a:b].max(axis=1, initial=0.0)
    return np.maximum.accumulate(best, axis=1)


def _reach(best: NDArray[np.float64]) -> Reach:
    """Sum up the best overlaps of a group [N]."""
    if not len(best):
        return Reach(0, np.nan, np.nan, np.nan)
    return Reach(len(best), float((best >= 0.5).mean()), float((best >= 0.7).mean()), float(best.mean()))
