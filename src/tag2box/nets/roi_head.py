"""The Fast R-CNN head: each proposal's part of the map pooled to a fixed size, then layers that make it one vector.

Pooling stands apart from the layers so that pooled features can be kept where the trunk is frozen. RoIPool takes the
maximum of each cell, as in the paper; RoIAlign averages bilinear samples, so it is linear in the map, which the
conditional net makes use of. A whole net but its last block can be the pooling, and stay as it is: it looks at regions
cut out, and the block follows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.ops import roi_align, roi_pool

from tag2box.errors import InputError
from tag2box.nets.architectures import Parts, Pooling, parts_of
from tag2box.nets.products import MOST_SIDE, by_products, is_product
from tag2box.nets.region_eye import RegionEye, divided, whole_net
from tag2box.nets.weights import PRETRAINED, Weights, fill, read_weights

HeadKind = Literal["auto", "conv", "mlp", "cut"]
CHUNK, CHUNK_ON_CPU = 2048, 32
"""Proposals that go through convolutions at once when no gradient is wanted: bounds the memory of a whole image, and on
a CPU what is made of them stays in its cache: with channels innermost too, 2.7 times as fast (EfficientNet-Lite4)."""
ROWS = 1024
"""On a GPU proposals come in multiples of this."""
CELL = 16
"""Side of a cell of noise where regions are cut out, in pixels: the stride of most maps."""
Memory = Callable[[Tensor, Sequence[Tensor], Callable[[], Tensor]], Tensor]
"""A picture, its regions, and how to look at them → what is seen, from the last time where there was one."""


class RoIHead(nn.Module, ABC):
    """Pooling, and layers after it: `head(head.pool(features, boxes))` is [R, dim]."""

    def __init__(self, *, channels: int, dim: int, stride: int, size: int, pooling: Pooling) -> None:
        super().__init__()
        self.channels, self.dim, self.stride, self.size, self.pooling = channels, dim, stride, size, pooling

    @property
    def noise_follows(self) -> bool:
        """Whether noise can be put in after the pooling: RoIAlign is linear, so it is all the same to it."""
        return self.pooling == "align"

    @property
    def cell(self) -> int:
        """Side of a cell of noise in pixels."""
        return self.stride

    def pool(self, features: Tensor, boxes: Sequence[Tensor]) -> Tensor:
        """Proposals' features: [N, C', h, w] and N times [B_i, 4] in image pixels → [ΣB_i, C', size, size]."""
        rows, scale = [one.float() for one in boxes], 1 / self.stride
        pooled: Tensor
        if self.pooling == "align":
            whole = features.float().contiguous()
            pooled = roi_align(whole, rows, self.size, scale, sampling_ratio=2, aligned=True)
            return pooled
        # RoIPool counts the last pixel in, as Caffe's did; our boxes are half-open.
        closed = [torch.cat([row[:, :2], row[:, 2:] - 1], 1) for row in rows]
        region_max = _region_max(features.device) if features.is_cuda else None
        if region_max is None:
            pooled = roi_pool(features.float().contiguous(), closed, self.size, scale)
            return pooled
        numbered = [functional.pad(row, (1, 0), value=float(image)) for image, row in enumerate(closed)]
        return region_max(features, torch.cat(numbered), self.size, scale)

    def pool_noise(self, noise: Tensor, boxes: Sequence[Tensor]) -> Tensor:
        """Their part of noise that follows the pooling: [N, 1, h, w] → [ΣB_i, 1, size, size]."""
        return self.pool(noise, boxes)

    def cells(self, features: Tensor) -> Tensor:
        """A value of a map for each cell of the noise that goes with it: [N, C', H, W] → [N, C', h, w]."""
        step = self.cell // self.stride
        return features[..., ::step, ::step]

    @abstractmethod
    def forward(self, pooled: Tensor) -> Tensor:
        """[R, C', size, size] → [R, dim]."""


@cache
def _region_max(device: torch.device) -> Callable[[Tensor, Tensor, int, float], Tensor] | None:
    """RoIPool for that GPU, where Triton is there and works."""
    try:
        from tag2box.nets.region_max import region_max, works_here
    except ImportError:
        return None
    return region_max if works_here(device) else None


class MlpHead(RoIHead):
    """Two fully connected layers, fc6 and fc7, each with ReLU and dropout."""

    def __init__(
        self, *, channels: int, width: int, stride: int, size: int = 7, pooling: Pooling = "max", dropout: float = 0.5
    ) -> None:
        super().__init__(channels=channels, dim=width, stride=stride, size=size, pooling=pooling)
        self.fc6 = nn.Linear(channels * size * size, width)
        self.fc7 = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, pooled: Tensor) -> Tensor:
        """[R, C', size, size] → [R, dim]."""
        innermost = pooled.is_cuda and pooled.permute(0, 2, 3, 1).is_contiguous()
        if innermost and len(pooled) > self.dim:  # there are fewer weights to bring into another order
            return self.after_fc6(self.fc6_innermost(pooled))
        return self.after_fc6(self.fc6(pooled.flatten(1)))

    def fc6_innermost(self, pooled: Tensor) -> Tensor:
        """fc6 where channels lie innermost: its weights are brought into their order, not they into that of weights."""
        weight = self.fc6.weight.to(pooled.dtype).view(self.dim, *pooled.shape[1:]).permute(0, 2, 3, 1)
        return functional.linear(pooled.permute(0, 2, 3, 1).flatten(1), weight.flatten(1), self.fc6.bias)

    def after_fc6(self, hidden: Tensor) -> Tensor:
        """What follows the linear part of fc6: [..., dim] → [..., dim]."""
        hidden = self.fc7(self.dropout(hidden.relu()))
        output: Tensor = self.dropout(hidden.relu())
        return output


class ConvHead(RoIHead):
    """The last stage of a net, averaged over the proposal. All of it is pretrained where the trunk is."""

    def __init__(
        self,
        *,
        layers: nn.Module,
        channels: int,
        dim: int,
        stride: int,
        size: int = 14,
        pooling: Pooling = "align",
        dropout: float = 0.5,
    ) -> None:
        super().__init__(channels=channels, dim=dim, stride=stride, size=size, pooling=pooling)
        self.layers = layers
        self.dropout = nn.Dropout(dropout)

    def forward(self, pooled: Tensor) -> Tensor:
        """[R, C', size, size] → [R, dim]; in pieces when no gradient is wanted."""
        step = CHUNK if pooled.is_cuda else CHUNK_ON_CPU
        step = len(pooled) if torch.is_grad_enabled() else step
        vectors = [self._vectors(pooled[i : i + step]) for i in range(0, len(pooled), max(step, 1))]
        output: Tensor = self.dropout(torch.cat(vectors) if vectors else pooled.new_zeros(0, self.dim))
        return output

    def _vectors(self, pooled: Tensor) -> Tensor:
        """[R, C', size, size] → [R, dim]. On a GPU every new R makes cuDNN think anew, so R is rounded up there."""
        if pooled.is_cuda and pooled.shape[2] <= MOST_SIDE and is_product(self.layers):
            return by_products(cast("nn.Sequential", self.layers), pooled)
        rows = len(pooled)
        if pooled.is_cuda:
            pooled = functional.pad(pooled, (0, 0, 0, 0, 0, 0, 0, -rows % ROWS))
        vectors: Tensor = self.layers(pooled.contiguous(memory_format=torch.channels_last)).mean((2, 3))
        return vectors[:rows]


class CutHead(ConvHead):
    """Pooling is a fixed net that looks at each proposal cut out of the picture; its last block follows, and learns.

    The map is the picture itself, as the net takes it. What is pooled is the net's map of each proposal, and the noise
    goes in there: from a field of it with cells as large as other nets' have.
    """

    def __init__(self, *, eye: RegionEye, layers: nn.Sequential, dim: int, dropout: float = 0.5) -> None:
        super().__init__(
            layers=layers,
            channels=eye.channels,
            dim=dim,
            stride=1,
            size=eye.cells,
            pooling="align",
            dropout=dropout,
        )
        self.eye = eye
        self.memory: Memory | None = None
        """Of what a CPU has seen (`tag2box.looks`); a GPU looks again in less time than a disk takes."""

    @property
    def cell(self) -> int:
        """Side of a cell of noise in pixels."""
        return CELL

    def pool(self, features: Tensor, boxes: Sequence[Tensor]) -> Tensor:
        """What the net makes of proposals: [N, 3, H, W] and N times [B_i, 4] → [ΣB_i, C', size, size].

        Rounded to half precision, in which it is kept: so nothing depends on whether it was.
        """
        if features.is_cuda:
            return self._look(features, boxes)
        with torch.autocast(features.device.type, enabled=False):  # the same whoever asks first
            if self.memory is None:
                return self._look(features, boxes)
            return self.memory(features, boxes, lambda: self._look(features, boxes))

    def _look(self, features: Tensor, boxes: Sequence[Tensor]) -> Tensor:
        seen: Tensor = self.eye(features, boxes)
        # Convolutions give other digits where channels lie innermost, and of what was kept they do not.
        return seen.half().to(torch.float32, memory_format=torch.contiguous_format)

    def pool_noise(self, noise: Tensor, boxes: Sequence[Tensor]) -> Tensor:
        """Their part of the noise: [N, 1, h, w] → [ΣB_i, 1, size, size]."""
        pooled: Tensor = roi_align(noise.float(), [*boxes], self.size, 1 / self.cell, sampling_ratio=2, aligned=True)
        return pooled


def build_head(
    name: str,
    *,
    stride: int,
    weights: str | Path | Weights | None = PRETRAINED,
    kind: HeadKind = "auto",
    pooling: Pooling | Literal["auto"] = "auto",
    size: int | None = None,
    width: int | None = None,
    pixels: int = 128,
    dropout: float = 0.5,
) -> RoIHead:
    """The head that goes with the trunk called `name` and the stride of its map.

    kind: `"conv"` takes the net's last stage (ResNet's layer4 and its like), `"mlp"` fc6 and fc7; `"auto"` the former
        where there is one. `"cut"`: the net sees proposals cut out, `pixels` a side, and only its last block learns;
        the map is the picture itself (`picture_trunk`).
        fc6 and fc7 come from VGG's classifier where `weights` has it and `size` and `width` are those it was trained
        with; else they are random.
    pooling, size, width: by default those of the net: VGG RoIPool 7×7 and 4,096, `tiny` RoIAlign 4×4 and 256, others
        RoIAlign, 14×14 before convolutions and 7×7 before fully connected layers. What is cut out has its net's own.
    """
    parts = parts_of(name)
    if isinstance(weights, str | Path):
        weights = read_weights(name, weights)
    if kind == "cut":
        fixed, learning = divided(whole_net(name, weights))
        eye = RegionEye(fixed, pixels)
        return CutHead(eye=eye, layers=learning, dim=parts.top_channels, dropout=dropout)
    chosen = parts.pooling if pooling == "auto" else pooling
    if kind == "conv" or (kind == "auto" and parts.top is not None):
        layers, dim, size = _top(name, parts, weights), parts.top_channels, size or parts.size
        channels = parts.channels
        return ConvHead(
            layers=layers, channels=channels, dim=dim, stride=stride, size=size, pooling=chosen, dropout=dropout
        )
    channels, width, size = parts.channels, width or parts.width, size or (parts.size if parts.top is None else 7)
    with torch.device("meta"):
        head = MlpHead(channels=channels, width=width, stride=stride, size=size, pooling=chosen, dropout=dropout)
    _fill_fully_connected(head, weights)
    return head


def _top(name: str, parts: Parts, weights: Weights | None) -> nn.Module:
    if parts.top is None:
        raise InputError(f"head of {name}: expected kind auto or mlp, found conv; the net has no stage after its trunk")
    fill(parts.top, weights, parts.prefix)
    return parts.top


def _fill_fully_connected(head: MlpHead, weights: Weights | None) -> None:
    """Numbers for fc6 and fc7: VGG's classifier where the weights have it in this shape, else random."""
    first = None if weights is None else weights.tensors.get("classifier.0.weight")
    if first is not None and first.shape == head.fc6.weight.shape:
        fill(head.fc6, weights, "classifier.0.")
        fill(head.fc7, weights, "classifier.3.")
    else:
        fill(head, None)
