from itertools import pairwise, permutations
from math import isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.evaluation.ranking import auroc, judge_top, perfect_area, risk_coverage

cases = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.25, 0.5, -1.0, 1e9, 3.0]), st.booleans()), max_size=6)
large = st.lists(st.tuples(st.floats(-1e6, 1e6), st.booleans()), max_size=40)


def split(case):
    return [doubt for doubt, _ in case], [wrong for _, wrong in case]


@settings(max_examples=200)
@given(st.one_of(cases, large))
def test_auroc_over_all_pairs(case):
    """Mann–Whitney: of a wrong and a right box, how often the wrong one is doubted more; a tie is half a time."""
    doubts, wrong = split(case)
    pairs = [(a, b) for a, bad in case if bad for b, other in case if not other]
    if not pairs:
        assert isnan(auroc(doubts, wrong))
        return
    wins = sum((a > b) + 0.5 * (a == b) for a, b in pairs)
    assert auroc(doubts, wrong) == pytest.approx(wins / len(pairs))
    assert auroc([-doubt for doubt in doubts], wrong) == pytest.approx(1 - wins / len(pairs))


@settings(max_examples=200, deadline=None)
@given(cases)
def test_the_curve_over_all_orders_of_ties(case):
    """The mean over every order in which doubt does not fall, box by box."""
    doubts, wrong = split(case)
    curves = []
    for order in permutations(range(len(case))):
        if any(doubts[i] > doubts[j] for i, j in pairwise(order)):
            continue
        bad = [wrong[i] for i in order]
        curves.append([sum(bad[:k]) / k for k in range(1, len(bad) + 1)])
    found = risk_coverage(doubts, wrong)
    assert found.risk.tolist() == pytest.approx(np.mean(curves, axis=0).tolist())
    assert found.coverage.tolist() == pytest.approx([k / len(case) for k in range(1, len(case) + 1)])
    if case:
        assert found.area == pytest.approx(np.mean(curves))
    else:
        assert isnan(found.area)


@settings(max_examples=100)
@given(large)
def test_areas_lie_between_the_best_and_the_worst_order(case):
    doubts, wrong = split(case)
    if not case:
        return
    best, area = perfect_area(wrong), risk_coverage(doubts, wrong).area
    worst = risk_coverage([-float(one) for one in wrong], wrong).area
    assert best - 1e-12 <= area <= worst + 1e-12
    assert risk_coverage([0.0] * len(case), wrong).area == pytest.approx(np.mean(wrong))  # no order at all
    assert auroc([float(one) for one in wrong], wrong) == 1 or len(set(wrong)) < 2


def test_what_cannot_be_measured():
    with pytest.raises(ValueError, match="found NaN"):
        auroc([0.1, float("nan")], [True, False])
    with pytest.raises(ValueError, match=r"found \(1,\) and \(2,\)"):
        risk_coverage([0.1, 0.2], [True])


def truth_of(objects):
    """Objects as (image, class, box, difficult, crowd)."""
    images, labels, boxes, difficult, crowd = zip(*objects, strict=True)
    return GroundTruth(
        ("cat", "dog"),
        ("x", "y"),
        np.array(images),
        np.array(labels),
        np.array(boxes, dtype=float),
        np.array(difficult),
        np.array(crowd),
    )


BOX, HALF, FAR = (0, 0, 10, 10), (0, 0, 10, 5), (50, 50, 60, 60)


def judged(objects, *found):
    """Boxes as (image, class, box); images and classes counted the other way round than in the truth."""
    images, labels, boxes = zip(*found, strict=True)
    top = Detections(
        ("dog", "cat"),
        ("y", "x"),
        1 - np.array(images),
        1 - np.array(labels),
        np.ones(len(found)),
        np.array(boxes, dtype=float),
    )
    return [verdict.value for verdict in judge_top(truth_of(objects), top)]


def test_the_top_box_is_right_or_wrong():
    objects = [(0, 0, BOX, False, False), (0, 0, FAR, False, False), (0, 1, BOX, False, False)]
    assert judged(objects, (0, 0, BOX), (0, 0, FAR), (0, 1, BOX), (0, 1, FAR)) == ["right"] * 3 + ["wrong"]
    assert judged(objects, (0, 0, HALF), (0, 0, (0, 0, 10, 4.9))) == ["right", "wrong"]
    assert judged(objects, (1, 0, BOX)) == ["wrong"]  # tagged, and yet nothing there


@pytest.mark.parametrize("flags", [(True, False), (False, True)], ids=["difficult", "crowd"])
def test_difficult_objects_and_crowds_count_neither_way(flags):
    objects = [(0, 0, BOX, *flags), (0, 0, FAR, False, False)]
    assert judged(objects, (0, 0, BOX), (0, 0, FAR), (0, 0, (20, 20, 30, 30))) == ["uncounted", "right", "wrong"]
    both = [(0, 0, BOX, *flags), (0, 0, BOX, False, False)]
    assert judged(both, (0, 0, BOX)) == ["right"]
