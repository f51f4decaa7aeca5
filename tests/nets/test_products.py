"""EfficientNet-Lite's last stage as matrix products: what its convolutions give, values and gradients."""

import pytest
import torch
from torch import nn

from tag2box.nets.architectures import dilate
from tag2box.nets.efficientnet_lite import InvertedResidual, SameConv2d, efficientnet_lite
from tag2box.nets.products import by_products, is_product, relu6_
from tag2box.nets.roi_head import build_head


def small_stage(*, dilated: bool = False) -> nn.Sequential:
    blocks = nn.Sequential(
        InvertedResidual(3, 5, kernel=5, stride=2),
        InvertedResidual(5, 5, kernel=5, stride=1),
        InvertedResidual(5, 4, kernel=3, stride=1),
    )
    for layer in blocks.modules():
        if isinstance(layer, SameConv2d):
            nn.init.normal_(layer.bias)  # as large as what else there is, and of both signs
    if dilated:
        dilate([*blocks])
    return nn.Sequential(blocks, SameConv2d(4, 6, 1), nn.ReLU6()).double()


@pytest.mark.parametrize("side", [1, 2, 7, 8, 14])  # 8 × 8: no cell is left over, so there is a row of them more
@pytest.mark.parametrize("dilated", [False, True])
def test_they_equal_convolutions(side: int, dilated: bool):
    torch.manual_seed(side)
    stage = small_stage(dilated=dilated)
    maps = (4 * torch.randn(3, 3, side, side, dtype=torch.float64)).requires_grad_()
    found, wanted = by_products(stage, maps), stage(maps).mean((2, 3))
    torch.testing.assert_close(found, wanted)
    inputs, factors = [maps, *stage.parameters()], torch.randn_like(wanted)
    ours, theirs = (torch.autograd.grad((one * factors).sum(), inputs) for one in (found, wanted))
    torch.testing.assert_close(ours, theirs)


def test_on_the_real_stage_in_half_precision_as_near_as_convolutions_are():
    torch.manual_seed(0)
    head = build_head("efficientnet_lite4", stride=16, weights=None).eval()
    maps = torch.randn(2, 160, 14, 14)
    with torch.no_grad():
        exact = head(maps)
        with torch.autocast("cpu", torch.bfloat16):
            ours, theirs = by_products(head.layers, maps), head(maps)
    assert ours.dtype == torch.bfloat16
    assert (ours - exact).abs().max() < 2 * (theirs - exact).abs().max()


def test_what_they_can_do():
    assert is_product(efficientnet_lite("efficientnet_lite4").top)
    assert not is_product(efficientnet_lite("efficientnet_lite4").trunk)
    assert not is_product(build_head("resnet18", stride=16, weights=None).layers)


def test_relu6_in_place():
    values = torch.tensor([-1.0, 0.5, 5.5, 7.0], requires_grad=True)
    kept = values * 1
    out = relu6_(kept)
    assert out.tolist() == kept.tolist() == [0.0, 0.5, 5.5, 6.0]
    out.sum().backward()
    assert values.grad.tolist() == [0.0, 1.0, 1.0, 0.0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_head_on_a_gpu_gives_what_it_gives_elsewhere():
    head, maps = build_head("efficientnet_lite4", stride=16, weights=None).eval(), torch.randn(5, 160, 14, 14)
    with torch.no_grad():
        torch.testing.assert_close(head.cuda()(maps.cuda()).cpu(), head.cpu()(maps), rtol=1e-3, atol=1e-4)


def test_what_is_kept_for_next_time_can_be_learnt_with_though_nothing_was_learnt_the_first_time():
    stage, maps = small_stage().float(), torch.randn(2, 3, 6, 6)  # a side that no other test has
    with torch.inference_mode():
        by_products(stage, maps)
    by_products(stage, maps).sum().backward()
    assert all(one.grad is not None for one in stage.parameters())
