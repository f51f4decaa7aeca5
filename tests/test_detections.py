import sys
from dataclasses import replace

import numpy as np
import pytest

from tag2box.detections import Detections
from tag2box.errors import InputError


@pytest.fixture
def two() -> Detections:
    return Detections(
        classes=("cat", "dog"),
        ids=("a", "b", "c"),
        images=np.array([0, 2]),
        labels=np.array([1, 0]),
        scores=np.array([0.9, 0.5]),
        boxes=np.array([[0.0, 0, 10, 10], [5, 5, 5, 6]]),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": np.array([0])}, r"images: expected shape \(2,\), found \(1,\)"),
        ({"images": np.array([0, 3])}, "images: expected indices below 3, found 0 to 3"),
        ({"labels": np.array([-1, 0])}, "labels: expected indices below 2"),
        ({"scores": np.array([0.5, np.nan])}, "expected finite numbers"),
        ({"boxes": np.zeros((2, 5))}, r"boxes: expected shape \(2, 4\), found \(2, 5\)"),
        ({"boxes": np.full((2, 4), np.inf)}, "expected finite numbers"),
        ({"boxes": np.array([[0.0, 0, 10, 10], [5, 5, 4, 6]])}, "expected x0 ≤ x1"),
    ],
)
def test_what_cannot_be_is_refused(change, message, two):
    with pytest.raises(ValueError, match=message):
        replace(two, **change)


def test_none_at_all(two):
    none = two.take(np.zeros(2, dtype=bool))
    assert len(none) == 0
    assert none.boxes.shape == (0, 4)
    assert none.numbered_as(["emu"], []).classes == ("emu",)


def test_take_reorders(two):
    swapped = two.take(np.array([1, 0]))
    assert swapped.scores.tolist() == [0.5, 0.9]
    assert swapped.images.tolist() == [2, 0]
    assert swapped.boxes[0].tolist() == [5, 5, 5, 6]


def test_numbered_as_another_data_set(two):
    assert two.numbered_as(("cat", "dog"), ("a", "b", "c")) is two
    other = two.numbered_as(["dog", "emu", "cat"], ["c", "a"])  # b, where nothing was found, need not be there
    assert other.images.tolist() == [1, 0]
    assert other.labels.tolist() == [0, 2]
    with pytest.raises(ValueError, match="image names only, found 'c'"):
        two.numbered_as(("cat", "dog"), ("a", "b"))
    with pytest.raises(ValueError, match="class names only, found 'dog'"):
        two.numbered_as(("cat",), ("a", "b", "c"))


def test_for_supervision(two):
    supervision = pytest.importorskip("supervision")
    converted = two.to_supervision()
    assert [len(one) for one in converted] == [1, 0, 1]
    assert all(isinstance(one, supervision.Detections) for one in converted)
    first, nothing, last = converted
    assert first.xyxy.tolist() == [[0, 0, 10, 10]]
    assert first.class_id.tolist() == [1]
    assert first.confidence.tolist() == pytest.approx([0.9])
    assert first["class_name"].tolist() == ["dog"]
    assert last["class_name"].tolist() == ["cat"]
    assert nothing.xyxy.shape == (0, 4)
    # What it is for: its own tools take it.
    assert len(first.with_nms(0.5)) == 1
    assert supervision.BoxAnnotator().annotate(np.zeros((20, 20, 3), dtype=np.uint8), first).any()
    assert supervision.Detections.merge([first, last]).class_id.tolist() == [1, 0]


def test_supervision_is_not_installed(two, monkeypatch):
    monkeypatch.setitem(sys.modules, "supervision", None)
    with pytest.raises(InputError, match=r"found it not installed: pip install 'tag2box\[supervision\]'"):
        two.to_supervision()
