import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torchvision.models.detection._utils import BoxCoder

from tag2box.disco.offsets import MOST_GROWTH, PLAIN, Weights, decode, encode

CODE: Weights = (10.0, 10.0, 5.0, 5.0)


@st.composite
def box_pairs(draw) -> tuple[Tensor, Tensor]:
    """Boxes and proposals of 1 to 500 pixels, at most 30 times each other's size."""
    number = draw(st.integers(0, 8))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    corner = 500 * torch.rand(2, number, 2, generator=generator, dtype=torch.float64)
    size = 1 + 29 * torch.rand(2, number, 2, generator=generator, dtype=torch.float64)
    boxes, proposals = torch.cat([corner, corner + size], dim=-1)
    return boxes, proposals


@settings(deadline=None)
@given(box_pairs(), st.sampled_from([PLAIN, CODE]))
def test_there_and_back(pair, weights):
    boxes, proposals = pair
    offsets = encode(boxes, proposals, weights)
    torch.testing.assert_close(decode(offsets, proposals, weights), boxes)
    torch.testing.assert_close(encode(decode(offsets, proposals, weights), proposals, weights), offsets)
    torch.testing.assert_close(encode(proposals, proposals, weights), torch.zeros_like(proposals))


@pytest.mark.parametrize("weights", [PLAIN, CODE])
def test_the_same_as_torchvision(weights):
    generator = torch.Generator().manual_seed(0)
    corners = 100 * torch.rand(2, 20, 4, generator=generator)
    boxes, proposals = torch.cat([corners[..., :2], corners[..., :2] + corners[..., 2:] + 1], dim=-1)
    coder = BoxCoder(weights)
    offsets = encode(boxes, proposals, weights)
    torch.testing.assert_close(offsets, coder.encode_single(boxes, proposals))
    torch.testing.assert_close(decode(offsets, proposals, weights), coder.decode_single(offsets, proposals))


def test_by_hand():
    proposal, box = torch.tensor([10.0, 10, 30, 20]), torch.tensor([20.0, 5, 60, 25])
    assert encode(box, proposal).tolist() == pytest.approx([1, 0, math.log(2), math.log(2)])


def test_offsets_of_every_class_go_with_one_proposal():
    offsets, proposals = torch.randn(6, 3, 4), torch.tensor([[0.0, 0, 8, 4]]).repeat(6, 1)
    boxes = decode(offsets, proposals[:, None])
    assert boxes.shape == (6, 3, 4)
    torch.testing.assert_close(boxes[:, 1], decode(offsets[:, 1], proposals))


def test_growth_is_capped():
    box = decode(torch.tensor([0.0, 0, 100, 0]), torch.tensor([0.0, 0, 10, 10]))
    assert (box[2] - box[0]).item() == pytest.approx(10 * math.exp(MOST_GROWTH))
