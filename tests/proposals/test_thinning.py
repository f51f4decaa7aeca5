import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tag2box.boxes import iou
from tag2box.proposals.thinning import thin


def slow_thin(boxes, counts, overlap):
    """Largest first: a box goes to the one kept last that it nearly coincides with, or stays."""

    def area(box):
        return (box[2] - box[0]) * (box[3] - box[1])

    kept = []
    for box, count in sorted(zip(boxes, counts, strict=True), key=lambda item: -area(item[0])):
        twin = next((k for k in reversed(kept) if near(k[0], box) >= overlap), None)
        if twin is None:
            kept.append([box, count])
        else:
            twin[1] += count
    return kept


def near(a, b):
    return iou(np.array([a], float), np.array([b], float))[0, 0]


@st.composite
def crowds(draw):
    """Distinct boxes close together, and how often each was found."""
    sides = st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(1, 12), st.integers(1, 12))
    found = sorted(draw(st.sets(sides, max_size=30)))
    boxes = np.array([(x, y, x + w, y + h) for x, y, w, h in found], dtype=np.int64).reshape(-1, 4)
    return boxes, np.array([draw(st.integers(1, 5)) for _ in found], dtype=np.int64)


@given(crowds(), st.sampled_from([0.3, 0.5, 0.75, 0.9, 1.0]))
@settings(max_examples=200, deadline=None)
def test_same_as_the_slow_way(crowd, overlap):
    boxes, counts = crowd
    kept, votes = thin(boxes, counts, overlap)
    slow = slow_thin(boxes.tolist(), counts.tolist(), overlap)
    assert kept.tolist() == [box for box, _ in slow]
    assert votes.tolist() == [count for _, count in slow]


@given(crowds(), st.sampled_from([0.3, 0.5, 0.75, 0.9]))
@settings(max_examples=200, deadline=None)
def test_what_stays_is_apart_and_what_goes_has_a_larger_twin(crowd, overlap):
    boxes, counts = crowd
    kept, votes = thin(boxes, counts, overlap)
    areas = np.prod(kept[:, 2:] - kept[:, :2], axis=1)
    assert votes.sum() == counts.sum()
    assert (np.diff(areas) <= 0).all()
    between = iou(kept.astype(float), kept.astype(float))
    assert (between[~np.eye(len(kept), dtype=bool)] < overlap).all()
    stayed = set(map(tuple, kept.tolist()))
    assert stayed <= set(map(tuple, boxes.tolist()))
    for box in boxes.tolist():
        if tuple(box) not in stayed:
            twins = areas[[near(one, box) >= overlap for one in kept]]
            assert twins.max() >= (box[2] - box[0]) * (box[3] - box[1])


def test_nothing_and_one():
    none = thin(np.zeros((0, 4), np.int64), np.zeros(0, np.int64), 0.8)
    assert [part.shape for part in none] == [(0, 4), (0,)]
    boxes, votes = thin(np.array([[1, 2, 3, 4]]), np.array([7]), 0.8)
    assert (boxes.tolist(), votes.tolist()) == ([[1, 2, 3, 4]], [7])


def test_what_is_given_stays_as_it_was():
    boxes, counts = np.array([[0, 0, 10, 9], [0, 0, 10, 10]]), np.array([1, 2])
    thin(boxes, counts, 0.5)
    assert (boxes.tolist(), counts.tolist()) == ([[0, 0, 10, 9], [0, 0, 10, 10]], [1, 2])


@pytest.mark.parametrize(("overlap", "left"), [(0.8, 1), (0.81, 2)])
def test_the_threshold_itself_counts(overlap, left):
    assert len(thin(np.array([[0, 0, 10, 10], [0, 0, 10, 8]]), np.array([1, 1]), overlap)[0]) == left
