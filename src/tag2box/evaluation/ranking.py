"""How well a score tells wrong boxes from right ones: AUROC, and the risk of those that are taken on trust.

A score is a doubt: the more, the likelier the box is wrong. Scores that tie are in no order, and every measure here is
its mean over all the orders that they could be in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.evaluation.matching import best_overlaps


class Verdict(Enum):
    """Of a class's top box in a picture that is tagged with it."""

    RIGHT = "right"
    WRONG = "wrong"
    UNCOUNTED = "uncounted"
    """On an object marked difficult, or a crowd, and on no other."""


@dataclass(frozen=True, slots=True)
class RiskCoverage:
    """What share of boxes is wrong among the surest, for every number of them from 1 to all."""

    coverage: NDArray[np.float64]
    """Share of the boxes that are taken [N]."""
    risk: NDArray[np.float64]
    """Share of wrong ones among these [N]."""

    @property
    def area(self) -> float:
        """AURC, the mean risk over all coverages; in a random order the share of wrong boxes, the lower the better."""
        return float(self.risk.mean()) if len(self.risk) else float("nan")


@dataclass(frozen=True, slots=True)
class DoubtScores:
    """How well some doubts, by name, tell which of the same boxes are wrong."""

    boxes: int
    wrong: int
    auroc: Mapping[str, float]
    curves: Mapping[str, RiskCoverage]
    perfect: float
    """The AURC of the best order there is."""


def judge_top(truth: GroundTruth, top: Detections, threshold: float = 0.5) -> list[Verdict]:
    """Whether each box is on an object of its class in its image, with an IoU of at least the threshold."""
    top = top.numbered_as(truth.classes, truth.ids)
    optional = truth.difficult | truth.crowd
    right = best_overlaps(truth.objects_where(~optional), top).iou >= threshold
    spared = best_overlaps(truth.objects_where(optional), top).iou >= threshold
    return [
        Verdict.RIGHT if good else Verdict.UNCOUNTED if near else Verdict.WRONG
        for good, near in zip(right.tolist(), spared.tolist(), strict=True)
    ]


def auroc(doubts: ArrayLike, wrong: ArrayLike) -> float:
    """The chance that a wrong box is doubted more than a right one, a tie counting half (Mann–Whitney).

    NaN where all are right or all wrong.

    >>> auroc([0.9, 0.4, 0.4, 0.1], [True, True, False, False])
    0.875
    """
    values, bad = _checked(doubts, wrong)
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]  # from 1; those that tie share their mean
    positives, negatives = int(bad.sum()), int((~bad).sum())
    if not positives or not negatives:
        return float("nan")
    return float((ranks[bad].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def risk_coverage(doubts: ArrayLike, wrong: ArrayLike) -> RiskCoverage:
    """The curve of boxes taken in order, the least doubted first.

    >>> risk_coverage([0.1, 0.9, 0.5], [False, True, False]).risk.round(2).tolist()
    [0.0, 0.0, 0.33]
    """
    values, bad = _checked(doubts, wrong)
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    share = np.bincount(place, bad, len(counts)) / np.maximum(counts, 1)  # of wrong ones among those that tie
    taken = np.arange(1, len(values) + 1)
    return RiskCoverage(taken / max(len(values), 1), np.cumsum(np.repeat(share, counts)) / taken)


def perfect_area(wrong: ArrayLike) -> float:
    """The least AURC that any order has: all right boxes before all wrong ones."""
    return risk_coverage(np.asarray(wrong, dtype=bool).astype(float), wrong).area


def score_doubts(doubts: Mapping[str, ArrayLike], wrong: ArrayLike) -> DoubtScores:
    """All measures of several doubts about the same boxes."""
    bad = np.asarray(wrong, dtype=bool)
    return DoubtScores(
        boxes=len(bad),
        wrong=int(bad.sum()),
        auroc={name: auroc(values, bad) for name, values in doubts.items()},
        curves={name: risk_coverage(values, bad) for name, values in doubts.items()},
        perfect=perfect_area(bad),
    )


def _checked(doubts: ArrayLike, wrong: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values, bad = np.asarray(doubts, dtype=np.float64), np.asarray(wrong, dtype=bool)
    if values.ndim != 1 or values.shape != bad.shape:
        raise ValueError(f"expected as many verdicts as doubts, found {bad.shape} and {values.shape}")
    if np.isnan(values).any():
        raise ValueError("doubts: expected numbers, found NaN")
    return values, bad
