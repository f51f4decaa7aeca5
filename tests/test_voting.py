"""Votes: coverage and overlaps against loops, and parts that together speak for the whole."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tag2box.voting import GRID, SHARPNESS, coverage, voted_overlaps


def some_boxes(count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    low, size = 60 * torch.rand(count, 2, generator=generator), 1 + 39 * torch.rand(count, 2, generator=generator)
    whole = torch.tensor([[0.0, 0, 100, 100]])
    return torch.cat([whole, torch.cat([low, low + size], 1)])


@given(count=st.integers(0, 5), seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_coverage_against_a_loop_over_cells(count: int, seed: int):
    boxes, side = some_boxes(count, seed).double(), 100 / GRID
    cover = coverage(boxes).unflatten(1, (GRID, GRID))
    for i, (x0, y0, x1, y1) in enumerate(boxes.tolist()):
        for row in range(0, GRID, 5):
            for column in range(0, GRID, 7):
                width = max(0.0, min(x1, (column + 1) * side) - max(x0, column * side))
                height = max(0.0, min(y1, (row + 1) * side) - max(y0, row * side))
                assert cover[i, row, column].item() == pytest.approx(width * height / side**2, abs=1e-9)


@given(seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_what_boxes_cover_is_their_area(seed: int):
    boxes = some_boxes(6, seed)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1) * (GRID / 100) ** 2
    torch.testing.assert_close(coverage(boxes).sum(1), area, rtol=1e-4, atol=1e-3)


def test_the_grid_is_over_what_boxes_reach():
    boxes = some_boxes(4, 0)
    moved = 3 * boxes + torch.tensor([50.0, 7, 50, 7])
    torch.testing.assert_close(coverage(moved), coverage(boxes), rtol=1e-4, atol=1e-4)


@given(seed=st.integers(0, 1000), count=st.integers(1, 4), cells=st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_overlaps_against_a_loop(seed: int, count: int, cells: int):
    generator = torch.Generator().manual_seed(seed)
    cover, scores = torch.rand(count, cells, generator=generator), torch.rand(count, 2, generator=generator)
    for label in range(2):
        votes = []
        for cell in range(cells):
            voters = max(sum(cover[i, cell].item() for i in range(count)), 0.5)
            votes.append(sum(scores[i, label].item() * cover[i, cell].item() for i in range(count)) / voters**0.5)
        shares = [(vote / max(votes)) ** SHARPNESS for vote in votes]
        for i in range(count):
            shared = sum(cover[i, cell].item() * shares[cell] for cell in range(cells))
            iou = shared / (cover[i].sum().item() + sum(shares) - shared)
            assert voted_overlaps(scores, cover)[i, label].item() == pytest.approx(iou, rel=1e-4)


def test_parts_speak_for_the_whole():
    """Head, body and tail score high, the whole dog low, and yet the votes are for it."""
    whole = [20.0, 30, 80, 60]
    parts = [[20.0, 30, 42, 60], [38, 30, 62, 60], [58, 30, 80, 60]]
    elsewhere = [[0.0, 0, 100, 100], [0, 0, 15, 15], [85, 70, 100, 100], [20, 62, 80, 95]]
    boxes = torch.tensor([whole, *parts, *elsewhere])
    scores = torch.tensor([[0.2], [0.9], [0.8], [0.7], [0.05], [0.02], [0.02], [0.02]])
    assert scores.argmax() == 1
    assert voted_overlaps(scores, coverage(boxes)).argmax() == 0


def test_votes_of_several_images_and_classes_are_each_for_themselves():
    boxes = torch.stack([some_boxes(5, seed) for seed in range(3)])
    scores = torch.rand(3, 6, 4, generator=torch.Generator().manual_seed(0))
    together = voted_overlaps(scores, coverage(boxes))
    for image in range(3):
        for label in range(4):
            alone = voted_overlaps(scores[image, :, label : label + 1], coverage(boxes[image]))
            torch.testing.assert_close(together[image, :, label : label + 1], alone)


@pytest.mark.parametrize("factor", [1e-3, 1e-20, 1e-37])
def test_only_relative_scores_count(factor: float):
    boxes, scores = some_boxes(9, 1), torch.rand(10, 2, generator=torch.Generator().manual_seed(1))
    cover = coverage(boxes)
    torch.testing.assert_close(voted_overlaps(factor * scores, cover), voted_overlaps(scores, cover), rtol=1e-2, atol=0)


def test_nothing_to_vote_for():
    overlaps = voted_overlaps(torch.zeros(4, 2), coverage(some_boxes(3, 0)))
    assert not overlaps.any()
