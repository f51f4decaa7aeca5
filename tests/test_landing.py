"""Where a detector's boxes land: against a loop that anyone can read, and what it prefers."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tag2box.landing import SAME, SIZE, SURE, best_landing, landing


def iou(a, b):
    wide = max(min(a[2], b[2]) - max(a[0], b[0]), 0)
    high = max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    shared = wide * high
    both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / both if both else 0.0


def slowly(chances, boxes):
    values = []
    for chance, box in zip(chances, boxes, strict=True):
        votes = sum(other for other, near in zip(chances, boxes, strict=True) if iou(box, near) >= SAME)
        area = max(box[2] - box[0], 1) * max(box[3] - box[1], 1)
        values.append(math.log(chance / (1 - chance)) + math.log(max(votes, SURE)) - SIZE * math.log(area))
    return values


side = st.integers(0, 30)
box = st.tuples(side, side, st.integers(0, 20), st.integers(0, 20)).map(
    lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3])
)


@settings(deadline=None)
@given(st.lists(st.tuples(box, st.floats(0.01, 0.99)), min_size=1, max_size=8))
def test_it_is_what_a_slow_loop_finds(proposals):
    boxes, chances = zip(*proposals, strict=True)
    found = landing(torch.tensor([chances]), torch.tensor([boxes]).float())[0]
    assert found.tolist() == pytest.approx(slowly(chances, boxes), rel=1e-3, abs=1e-3)


def test_many_that_land_together_outvote_one():
    together = [[10.0, 10, 40, 40], [10, 11, 40, 40], [11, 10, 40, 41]]
    boxes = torch.tensor([[*together, [60.0, 60, 90, 90]]])
    box, chance = best_landing(torch.tensor([[0.8, 0.8, 0.8, 0.85]]), boxes)
    assert box[0].tolist() in together
    assert chance.item() == pytest.approx(0.8)


def test_of_two_as_likely_it_is_the_smaller_and_a_part_has_to_be_nearly_as_likely():
    whole, part = [0.0, 0, 100, 100], [0.0, 0, 40, 40]
    boxes = torch.tensor([[whole, part], [whole, part]])
    best, _ = best_landing(torch.tensor([[0.9, 0.9], [0.95, 0.3]]), boxes)
    assert best.tolist() == [part, whole]


def test_probabilities_of_one_and_boxes_of_no_size_do_no_harm():
    values = landing(torch.tensor([[1.0, 0.0]]), torch.tensor([[[0.0, 0, 10, 10], [5, 5, 5, 5]]]))
    assert values.isfinite().all()
    assert values[0, 0] > values[0, 1]
