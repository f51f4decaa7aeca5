"""EfficientNet-Lite: TensorFlow's padding by a slow loop, what is done in place, and the shared file."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tag2box.nets import build_trunk_and_head
from tag2box.nets.efficientnet_lite import InvertedResidual, SameConv2d, efficientnet_lite

FILE = Path(__file__).parents[2].parent / "shared" / "weights" / "efficientnet_lite4.safetensors"


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("size", [(7, 8), (1, 2)])
def test_same_padding_against_a_loop(kernel: int, stride: int, dilation: int, size: tuple[int, int]):
    layer = SameConv2d(1, 1, kernel, stride, dilation=dilation, bias=False)
    image = torch.randn(size)
    with torch.no_grad():
        output = layer(image[None, None])[0, 0]
        torch.testing.assert_close(output, _slow(image, layer.weight[0, 0], stride, dilation))


def _slow(image: Tensor, kernel: Tensor, stride: int, dilation: int) -> Tensor:
    """TensorFlow's rule: ⌈in / stride⌉ cells; what they need beyond the image is split, the odd pixel at the end."""
    cells = [-(-side // stride) for side in image.shape]
    reach = (len(kernel) - 1) * dilation + 1
    before = [max((n - 1) * stride + reach - side, 0) // 2 for n, side in zip(cells, image.shape, strict=True)]
    output = torch.zeros(cells)
    for i in range(cells[0]):
        for j in range(cells[1]):
            for a in range(len(kernel)):
                for b in range(len(kernel)):
                    y, x = i * stride + a * dilation - before[0], j * stride + b * dilation - before[1]
                    if 0 <= y < image.shape[0] and 0 <= x < image.shape[1]:
                        output[i, j] += kernel[a, b] * image[y, x]
    return output


def test_the_cut_keeps_the_names_of_the_file():
    with torch.device("meta"):
        trunk, *_, top = efficientnet_lite("efficientnet_lite4")
    names = {*trunk.state_dict(), *top.state_dict()}
    assert {"stem.weight", "dw0.bias", "pw0.weight", "blocks.0.0.weight", "blocks.28.2.bias", "head.weight"} <= names
    assert len(names) == 182  # the file's 184 without fc


def test_what_is_done_in_place_changes_nothing():
    """Neither the input nor the output, and gradients are still those of a slow difference."""
    torch.manual_seed(0)
    block = InvertedResidual(4, 4, kernel=3, stride=1).double()
    maps = (3 * torch.randn(1, 4, 5, 5)).double()
    before = maps.clone()
    with torch.no_grad():
        alone = block(maps)
    assert torch.equal(maps, before)
    torch.testing.assert_close(alone, block(maps.requires_grad_()))
    frozen = deepcopy(block).requires_grad_(False)  # of it nobody asks for gradients, of its input somebody does
    assert torch.autograd.gradcheck(frozen, (maps,))
    assert torch.autograd.gradcheck(
        lambda weight: torch.func.functional_call(block, {"0.weight": weight}, maps), (block[0].weight,)
    )


@pytest.mark.skipif(not FILE.exists(), reason="no shared weights here")
def test_the_shared_file():
    trunk, head = build_trunk_and_head("efficientnet_lite4", weights=FILE)
    ramp = torch.linspace(0, 255, 96).expand(1, 3, 96, 96)
    with torch.no_grad():
        features = trunk.features(ramp)
        vectors = head.eval()(head.pool(features, [torch.tensor([[0.0, 0, 96, 96], [10, 20, 60, 70]])]))
    assert features.shape == (1, 160, 6, 6)
    assert vectors.shape == (2, 1280)
    assert 1 < features.std() < 20  # pretrained: neither faded nor blown up over 22 layers
    assert 0 <= vectors.min() <= vectors.max() <= 6  # ReLU6
