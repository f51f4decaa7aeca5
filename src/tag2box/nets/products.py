"""EfficientNet-Lite's last stage on small maps as matrix products alone, for GPUs.

A RoI head sees maps of 14×14 and 7×7 cells, thousands of them. There a depthwise convolution is one matrix for each
channel, from all cells to all cells, mostly zeros; but a GPU multiplies matrices so much faster than it does anything
else that their products cost less than cuDNN's depthwise convolutions do. Channels lie outermost, [C, R, cells], so
that the 1×1 convolutions are each one product too. Cells are filled up to a multiple of eight, as fast products want
it, and a cell that is left over carries the biases: no pass over memory is spent on them.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from tag2box.nets.efficientnet_lite import InvertedResidual, SameConv2d, same_padding

MOST_SIDE = 14
"""Cells of a map's side for which they were found to be faster; what they take grows with its fourth power."""
EXTRA = 8
"""Rows that stand below the channels of a map for the biases' sake: two that say something and six of zeros."""


def is_product(layers: nn.Module) -> bool:
    """Whether `by_products` can do it: inverted residuals, then a 1×1 convolution with ReLU6."""
    if not isinstance(layers, nn.Sequential) or len(layers) != 3:
        return False
    blocks, last, activation = layers
    fits = isinstance(last, SameConv2d) and last.kernel_size == (1, 1) and isinstance(activation, nn.ReLU6)
    return fits and isinstance(blocks, nn.Sequential) and all(isinstance(one, InvertedResidual) for one in blocks)


def by_products(layers: nn.Sequential, maps: Tensor) -> Tensor:
    """The mean over the cells of what the layers make of maps [R, C, s, s], R ≥ 1 → [R, dim]."""
    blocks, last = cast("nn.Sequential", layers[0]), _layer(layers[1])
    side, regions = maps.shape[2], len(maps)
    if torch.is_autocast_enabled(maps.device.type):  # before it is copied, not after
        maps = maps.to(torch.get_autocast_dtype(maps.device.type))
    cells = functional.pad(maps.flatten(2).transpose(0, 1), (0, _filled(side) - side * side))  # [C, R, P]
    for block in blocks:
        cells, side = _block(cast("InvertedResidual", block), cells, side)
    vectors = relu6_(_pointwise(last, cells, _biases(side, maps.device)))
    return vectors.view(len(vectors), regions, -1)[..., : side * side].mean(dim=2).T


class _InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        ctx.mark_dirty(values.clamp_(0, 6))
        ctx.save_for_backward(values)
        return values

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (values,) = ctx.saved_tensors
        into: Tensor = torch.ops.aten.hardtanh_backward(gradient, values, 0, 6)  # what was cut lies at 0 or 6 now
        return into


def relu6_(values: Tensor) -> Tensor:
    """ReLU6 in place. PyTorch's own keeps a copy of what was there, the largest tensors of the net."""
    out: Tensor = _InPlace.apply(values)
    return out


def _block(block: InvertedResidual, cells: Tensor, side: int) -> tuple[Tensor, int]:
    """[C, R, P] of s × s cells → [C₂, R, P₂] and s₂."""
    expand, depthwise, project = (_layer(one) for one in block)
    regions, after = cells.shape[1], -(-side // depthwise.stride)
    wide = relu6_(_pointwise(expand, cells, _biases(side, cells.device)))
    known = _taps(depthwise.kernel, depthwise.stride, depthwise.dilation, side, cells.device)
    weights = torch.cat([depthwise.weight, depthwise.bias], dim=1)  # [C', k² + 1]
    weights = functional.pad(weights, (0, len(known) - weights.shape[1]))
    matrices = (weights @ known.to(weights.dtype)).view(len(weights), _filled(side), -1)  # [C', P, P₂]
    wide = relu6_(torch.bmm(wide.view(len(wide), regions, -1), matrices))  # [C', R, P₂]
    out = (project.weight @ wide.flatten(1)).view(len(project.weight), regions, -1)
    bias = project.bias * _biases(after, cells.device)[0]  # [C₂, P₂]: in no cell but the map's
    out = out + bias[:, None].to(out.dtype)
    return cells + out if block.identity else out, after


class _Layer(NamedTuple):
    """A convolution's numbers, the weights of each channel in a row."""

    weight: Tensor
    bias: Tensor
    kernel: int
    stride: int
    dilation: int


def _layer(module: nn.Module) -> _Layer:
    assert isinstance(module, SameConv2d)
    assert module.bias is not None
    weight, bias = module.weight.flatten(1), module.bias[:, None]
    return _Layer(weight, bias, module.kernel_size[0], module.stride[0], module.dilation[0])


def _pointwise(layer: _Layer, cells: Tensor, biases: Tensor) -> Tensor:
    """A 1×1 convolution [C, R, P] → [C₂, R P], its bias in cells of the map alone, and 1 in the one after them."""
    weight = functional.pad(torch.cat([layer.weight, layer.bias], dim=1), (0, 1), value=1.0)
    weight = functional.pad(weight, (0, EXTRA - 2))
    rows = biases.to(cells.dtype)[:, None].expand(-1, cells.shape[1], -1)
    return weight @ torch.cat([cells, rows]).flatten(1)


@cache
def _biases(side: int, device: torch.device) -> Tensor:
    """The rows below the channels [8, P]: 1 in the cells of the map; 1 in the one after them; zeros."""
    with torch.inference_mode(False):  # it is kept, perhaps for training
        rows = torch.zeros(EXTRA, _filled(side))
        rows[0, : side * side] = 1
        rows[1, side * side] = 1
        return rows.to(device)


@cache
def _taps(kernel: int, stride: int, dilation: int, side: int, device: torch.device) -> Tensor:
    """Which cell each weight takes to which [k² + 1 and zeros, P P₂]; the bias comes from the cell after the map's."""
    before, after = same_padding(side, kernel, stride, dilation)[0], -(-side // stride)
    with torch.inference_mode(False):  # it is kept, perhaps for training
        taps = torch.zeros(-(-(kernel * kernel + 1) // 8) * 8, _filled(side), _filled(after))
    for y, x, ky, kx in _all(after, after, kernel, kernel):
        row, column = y * stride + ky * dilation - before, x * stride + kx * dilation - before
        if 0 <= row < side and 0 <= column < side:
            taps[ky * kernel + kx, row * side + column, y * after + x] = 1
    taps[kernel * kernel, side * side, : after * after] = 1
    with torch.inference_mode(False):
        return taps.flatten(1).to(device)


def _all(*numbers: int) -> Iterable[list[int]]:
    return torch.cartesian_prod(*(torch.arange(one) for one in numbers)).tolist()


def _filled(side: int) -> int:
    """Cells of a map and at least one more, as a multiple of 8."""
    return -(-(side * side + 1) // 8) * 8
