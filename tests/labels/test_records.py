from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tag2box.labels.records import Label, LabelledImage, LabelledSet, inside

number = st.floats(-1e5, 1e5)


@given(box=st.tuples(number, number, number, number), size=st.tuples(st.integers(1, 32767), st.integers(1, 32767)))
def test_every_box_ends_up_inside_and_a_pixel_wide(box, size):
    x0, y0, x1, y1 = inside(np.array([box]), size)[0]
    assert 0 <= x0 <= x1 - 1 + 1e-9
    assert 0 <= y0 <= y1 - 1 + 1e-9
    assert x1 <= size[0]
    assert y1 <= size[1]


@given(x0=st.floats(0, 90), width=st.floats(1, 10), y0=st.floats(0, 40), height=st.floats(1, 10))
def test_a_sound_box_stays(x0, width, y0, height):
    box = np.array([[x0, y0, x0 + width, y0 + height]])
    np.testing.assert_allclose(inside(box, (100, 50)), box, atol=1e-9)


def test_as_detections():
    images = (
        LabelledImage("a", Path("a.jpg"), (10, 10), (Label("dog", (0, 0, 5, 5), 0.5), Label("cat", (1, 1, 9, 9), 1.0))),
        LabelledImage("b", Path("b.jpg"), (10, 10), ()),
    )
    found = LabelledSet(("cat", "dog"), images, "all").detections()
    assert found.ids == ("a", "b")
    assert found.images.tolist() == [0, 0]
    assert found.labels.tolist() == [1, 0]
    assert found.scores.tolist() == [0.5, 1.0]
    assert found.boxes.tolist() == [[0, 0, 5, 5], [1, 1, 9, 9]]
    assert len(LabelledSet(("cat",), images[1:], "all").detections()) == 0
