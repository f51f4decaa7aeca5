"""The box that explains the scores: against NumPy's correlation, and found where it was planted."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tag2box.explaining import FLATNESS, agreed, explained
from tag2box.overlap import likeness


def some_boxes(count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    low, size = 60 * torch.rand(count, 2, generator=generator), 5 + 35 * torch.rand(count, 2, generator=generator)
    return torch.cat([low, low + size], 1)


@given(seed=st.integers(0, 1000), count=st.integers(3, 8), classes=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_it_is_the_correlation_over_proposals(seed: int, count: int, classes: int):
    boxes = some_boxes(count, seed)
    scores = torch.rand(count, classes, generator=torch.Generator().manual_seed(seed))
    alike = likeness(boxes)
    found = explained(scores, alike)
    for box in range(count):
        if alike[:, box].std() < 1e-3:  # it covers every proposal alike
            continue
        for label in range(classes):
            expected = np.corrcoef(scores[:, label].double(), alike[:, box].double())[0, 1]
            assert found[box, label].item() == pytest.approx(expected, abs=1e-3)


@given(seed=st.integers(0, 200), planted=st.integers(0, 19))
@settings(max_examples=40, deadline=None)
def test_scores_that_a_box_gives_rise_to_are_explained_by_it(seed: int, planted: int):
    alike = likeness(some_boxes(20, seed))
    found = explained(0.1 + 3 * alike[:, planted : planted + 1], alike)
    assert found[planted, 0].item() == pytest.approx(1, abs=1e-3)
    assert found.max() <= found[planted, 0] + 1e-4


def test_a_face_scores_best_and_the_cat_explains_it():
    """Whatever lies in the cat scores high, its face highest; what holds more than the cat scores less and less."""
    cat, face = [30.0, 20, 70, 80], [40.0, 22, 60, 42]
    grid = [
        [x, y, x + w, y + h]
        for w in (10, 20, 40, 60)
        for h in (10, 20, 40, 60)
        for x in (0, 30, 50, 85)
        for y in (0, 20, 45, 85)
    ]
    boxes = torch.tensor([cat, face, [0, 0, 100, 100], *([float(side) for side in box] for box in grid)])
    low, high = torch.maximum(boxes[:, :2], boxes[0, :2]), torch.minimum(boxes[:, 2:], boxes[0, 2:])
    inside = (high - low).clamp(min=0).prod(1) / (boxes[:, 2:] - boxes[:, :2]).prod(1)
    scores = 0.8 * inside[:, None]
    scores[1] = 1.0
    assert scores.argmax() == 1
    assert explained(agreed([scores]), likeness(boxes)).argmax() == 0


def test_pictures_and_classes_are_each_for_themselves():
    boxes = torch.stack([some_boxes(7, seed) for seed in range(3)])
    scores = torch.rand(3, 7, 4, generator=torch.Generator().manual_seed(0))
    together = explained(scores, likeness(boxes))
    for picture in range(3):
        for label in range(4):
            alone = explained(scores[picture, :, label : label + 1], likeness(boxes[picture]))
            torch.testing.assert_close(together[picture, :, label : label + 1], alone, rtol=1e-4, atol=1e-5)


def test_nothing_to_explain():
    assert not explained(torch.full((5, 2), 0.3), likeness(some_boxes(5, 0))).any()
    assert explained(torch.zeros(0, 2), torch.zeros(0, 0)).shape == (0, 2)


def test_cues_count_relative_to_their_highest():
    one, other = torch.rand(2, 6, 3, generator=torch.Generator().manual_seed(1))
    expected = sum((cue / cue.amax(0)) ** FLATNESS for cue in (one, other))
    torch.testing.assert_close(agreed([1e-20 * one, 50 * other]), expected)
    assert not agreed([torch.zeros(6, 3)]).any()
