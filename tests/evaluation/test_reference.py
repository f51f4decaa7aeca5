"""The fast code against loops anyone can read, written after VOCevaldet.m with its 1-based, inclusive boxes."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.evaluation.corloc import corloc
from tag2box.evaluation.recall import proposal_recall
from tag2box.evaluation.voc_ap import average_precision_11_points, average_precision_area, precision_recall

CLASSES = 2
IMAGES = 3
Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class Thing:
    """An object of VOC's annotation."""

    image: int
    label: int
    box: Box
    difficult: bool


@dataclass(frozen=True)
class Find:
    """A line of VOC's results."""

    image: int
    label: int
    score: float
    box: Box


# --- the reference ------------------------------------------------------------------------------------------


def devkit_overlap(bb: Box, bbgt: Box) -> float:
    """VOCevaldet.m: a box from 1 to 10 is 10 pixels wide."""
    iw = min(bb[2], bbgt[2]) - max(bb[0], bbgt[0]) + 1
    ih = min(bb[3], bbgt[3]) - max(bb[1], bbgt[1]) + 1
    if iw <= 0 or ih <= 0:
        return 0.0
    ua = (bb[2] - bb[0] + 1) * (bb[3] - bb[1] + 1) + (bbgt[2] - bbgt[0] + 1) * (bbgt[3] - bbgt[1] + 1) - iw * ih
    return iw * ih / ua


def devkit_curve(things: list[Thing], finds: list[Find], label: int, inclusive: bool) -> tuple[list, list, int]:
    """Cumulated true and false positives down the ranking, and the number of positives."""
    gts = [thing for thing in things if thing.label == label]
    npos = sum(not thing.difficult for thing in gts)
    ranked = sorted((f for f in finds if f.label == label), key=lambda f: (-f.score, f.image, f.box))
    detected = [False] * len(gts)
    tp, fp = [0], [0]
    for find in ranked:
        ovmax, jmax = -1.0, -1
        for j, gt in enumerate(gts):
            if gt.image == find.image and devkit_overlap(find.box, gt.box) > ovmax:
                ovmax, jmax = devkit_overlap(find.box, gt.box), j
        right = wrong = 0
        if ovmax > 0.5 or (inclusive and ovmax == 0.5):
            if not gts[jmax].difficult:
                right, wrong = (0, 1) if detected[jmax] else (1, 0)
                detected[jmax] = True
        else:
            wrong = 1
        tp.append(tp[-1] + right)
        fp.append(fp[-1] + wrong)
    return tp[1:], fp[1:], npos


def devkit_ap07(tp: list[int], fp: list[int], npos: int) -> float:
    ap = 0.0
    for t in range(11):
        p = 0.0
        for right, wrong in zip(tp, fp, strict=True):
            if right + wrong and 10 * right >= t * npos:  # rec >= t / 10
                p = max(p, right / (right + wrong))
        ap += p / 11
    return ap


def devkit_ap12(tp: list[int], fp: list[int], npos: int) -> float:
    mrec = [0.0, *(right / npos for right in tp), 1.0]
    mpre = [0.0, *(right / max(right + wrong, 1) for right, wrong in zip(tp, fp, strict=True)), 0.0]
    for i in range(len(mpre) - 2, -1, -1):
        mpre[i] = max(mpre[i], mpre[i + 1])
    return sum((mrec[i] - mrec[i - 1]) * mpre[i] for i in range(1, len(mrec)))


def slow_corloc(things: list[Thing], finds: list[Find], label: int) -> float:
    images = sorted({thing.image for thing in things if thing.label == label})
    right = 0
    for image in images:
        here = [f for f in finds if f.image == image and f.label == label]
        objects = [thing for thing in things if thing.image == image and thing.label == label]
        if here:
            top = min(here, key=lambda f: (-f.score, f.box))
            right += any(devkit_overlap(top.box, thing.box) >= 0.5 for thing in objects)
    return right / len(images)


# --- random small problems ----------------------------------------------------------------------------------

spans = st.tuples(st.integers(1, 6), st.integers(1, 6)).map(sorted)
voc_boxes = st.tuples(spans, spans).map(lambda xy: (xy[0][0], xy[1][0], xy[0][1], xy[1][1]))
images = st.integers(0, IMAGES - 1)
labels = st.integers(0, CLASSES - 1)
things_lists = st.lists(st.builds(Thing, images, labels, voc_boxes, st.booleans()), max_size=8)
finds_lists = st.lists(st.builds(Find, images, labels, st.sampled_from([0.1, 0.2, 0.3]), voc_boxes), max_size=14)


def convert(boxes: list[Box]) -> np.ndarray:
    """1-based and inclusive → 0-based and half-open."""
    return np.array([(xmin - 1, ymin - 1, xmax, ymax) for xmin, ymin, xmax, ymax in boxes], dtype=float).reshape(-1, 4)


def as_truth(things: list[Thing]) -> GroundTruth:
    things = sorted(things, key=lambda thing: thing.image)
    return GroundTruth(
        classes=("cat", "dog"),
        ids=("a", "b", "c"),
        images=np.array([thing.image for thing in things], dtype=np.int64),
        labels=np.array([thing.label for thing in things], dtype=np.int64),
        boxes=convert([thing.box for thing in things]),
        difficult=np.array([thing.difficult for thing in things], dtype=bool),
        crowd=np.zeros(len(things), dtype=bool),
    )


def as_detections(finds: list[Find]) -> Detections:
    return Detections(
        classes=("cat", "dog"),
        ids=("a", "b", "c"),
        images=np.array([find.image for find in finds], dtype=np.int64),
        labels=np.array([find.label for find in finds], dtype=np.int64),
        scores=np.array([find.score for find in finds], dtype=np.float64),
        boxes=convert([find.box for find in finds]),
    )


@given(things_lists, finds_lists, st.booleans())
def test_average_precision(things: list[Thing], finds: list[Find], inclusive: bool):
    curves = precision_recall(as_truth(things), as_detections(finds), touching_counts=inclusive)
    for label, curve in enumerate(curves):
        tp, fp, npos = devkit_curve(things, finds, label, inclusive)
        assert curve.positives == npos
        if npos:
            assert average_precision_11_points(curve) == pytest.approx(devkit_ap07(tp, fp, npos), abs=1e-12)
            assert average_precision_area(curve) == pytest.approx(devkit_ap12(tp, fp, npos), abs=1e-12)
        else:
            assert np.isnan(average_precision_11_points(curve))
            assert np.isnan(average_precision_area(curve))


@given(things_lists, finds_lists)
def test_corloc(things: list[Thing], finds: list[Find]):
    shares = corloc(as_truth(things), as_detections(finds))
    for label in range(CLASSES):
        if any(thing.label == label for thing in things):
            assert shares[label] == pytest.approx(slow_corloc(things, finds, label))
        else:
            assert np.isnan(shares[label])


@given(things_lists, st.lists(st.lists(voc_boxes, max_size=5), min_size=IMAGES, max_size=IMAGES), st.integers(1, 4))
def test_proposal_recall(things: list[Thing], proposals: list[list[Box]], budget: int):
    boxes = [convert(of_image).astype(np.int16) for of_image in proposals]
    report = proposal_recall(as_truth(things), boxes, budgets=[budget])
    sure = [thing for thing in things if not thing.difficult]
    for count, reach in ((budget, report.budgets[0][1]), (99, report.overall)):
        best = [max([devkit_overlap(b, t.box) for b in proposals[t.image][:count]], default=0.0) for t in sure]
        assert reach.objects == len(sure)
        if sure:
            assert reach.recall_50 == pytest.approx(np.mean([overlap >= 0.5 for overlap in best]))
            assert reach.recall_70 == pytest.approx(np.mean([overlap >= 0.7 for overlap in best]))
            assert reach.average_best_overlap == pytest.approx(np.mean(best))
