import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tag2box.boxes import area, intersection, iou

spans = st.tuples(st.integers(0, 8), st.integers(0, 8)).map(sorted)
boxes = st.tuples(spans, spans).map(lambda xy: (xy[0][0], xy[1][0], xy[0][1], xy[1][1]))


def pixels(box: tuple[int, int, int, int]) -> set[tuple[int, int]]:
    return {(x, y) for x in range(box[0], box[2]) for y in range(box[1], box[3])}


@given(boxes, boxes)
def test_areas_are_counts_of_pixels(a, b):
    pair = np.array([a, b], dtype=float)
    shared, union = len(pixels(a) & pixels(b)), len(pixels(a) | pixels(b))
    assert area(pair).tolist() == [len(pixels(a)), len(pixels(b))]
    assert intersection(pair[0], pair[1]) == shared
    assert iou(pair[:1], pair[1:]) == (shared / union if union else 0)


def test_no_boxes():
    assert iou(np.zeros((0, 4)), np.zeros((3, 4))).shape == (0, 3)
    assert iou(np.zeros((2, 4)), np.zeros((0, 4))).shape == (2, 0)
