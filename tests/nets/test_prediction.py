"""The prediction net: shapes, paths that must agree, gradients."""

import pytest
import torch
from torch import Tensor

from tag2box.nets import PredictionNet, build_trunk_and_head

IMAGES = torch.randint(0, 256, (2, 3, 48, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
BOXES = [torch.tensor([[0.0, 0, 64, 48], [8, 8, 40, 24], [30, 20, 50, 40]]), torch.tensor([[5.0, 5, 30, 40]])]


def _net(pooling: str = "align", frozen: str = "early") -> PredictionNet:
    torch.manual_seed(0)
    trunk, head = build_trunk_and_head("tiny", weights="none", pooling=pooling, frozen=frozen, width=16)
    return PredictionNet(trunk=trunk, head=head, classes=3)


@pytest.mark.parametrize("pooling", ["max", "align"])
def test_shapes_and_the_three_ways_in(pooling: str):
    net = _net(pooling).eval()
    scores, offsets = net(IMAGES, BOXES)
    assert scores.shape == (4, 4)
    assert offsets.shape == (4, 4, 4)
    features = net.trunk.features(IMAGES)
    for other in (net.from_features(features, BOXES), net.from_pooled(net.head.pool(features, BOXES))):
        assert torch.equal(other.scores, scores)
        assert torch.equal(other.offsets, offsets)


@pytest.mark.parametrize("boxes", [[torch.zeros(0, 4), torch.zeros(0, 4)], [torch.zeros(0, 4), BOXES[1]]])
def test_images_without_proposals(boxes: list[Tensor]):
    scores, offsets = _net()(IMAGES, boxes)
    count = len(boxes[1])
    assert (scores.shape, offsets.shape) == ((count, 4), (count, 4, 4))


def test_the_last_layers_start_as_in_fast_rcnn():
    trunk, head = build_trunk_and_head("tiny", weights="none", width=512)
    predictor = PredictionNet(trunk=trunk, head=head, classes=20).predictor
    assert predictor.scores.weight.std().item() == pytest.approx(0.01, rel=0.05)
    assert predictor.offsets.weight.std().item() == pytest.approx(0.001, rel=0.05)
    assert not predictor.scores.bias.any()


def test_gradients_reach_what_learns_and_nothing_else():
    net = _net()
    sum(output.sum() for output in net(IMAGES, BOXES)).backward()
    for name, parameter in net.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, name
    assert not net.trunk.body.stem[0].weight.requires_grad
    assert net.trunk.body.out[0].weight.grad.any()


def test_a_frozen_trunk_still_lets_the_head_learn():
    net = _net(frozen="all")
    net(IMAGES, BOXES).scores.sum().backward()
    assert net.head.fc6.weight.grad is not None
    assert all(parameter.grad is None for parameter in net.trunk.parameters())


@pytest.mark.parametrize("pooling", ["max", "align"])
def test_half_precision_by_autocast(pooling: str):
    net = _net(pooling).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = net(IMAGES, BOXES).scores
        half.sum().backward()
    torch.testing.assert_close(half.float(), net(IMAGES, BOXES).scores, rtol=0.1, atol=0.02)
    assert net.head.fc6.weight.grad.dtype == torch.float32
