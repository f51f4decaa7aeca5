"""EfficientNet-Lite, which torchvision lacks, with batch norm folded into its convolutions.

Layers are named as in the weights file: `stem`, `dw0`, `pw0`, `blocks.i.{0,1,2}`, `head`. All of it is pretrained, so
that what follows stride 16 can serve as a pretrained RoI head, where VGG16 often comes without its fully connected
layers. Padding is TensorFlow's "same".
"""

from collections.abc import Sequence
from itertools import chain
from math import ceil
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional


class Stage(NamedTuple):
    """A row of blocks that share width and kernel; the first one takes the stride."""

    blocks: int
    channels: int
    kernel: int
    stride: int


LITE0 = (
    Stage(2, 24, 3, 2),
    Stage(2, 40, 5, 2),
    Stage(3, 80, 3, 2),
    Stage(3, 112, 5, 1),
    Stage(4, 192, 5, 2),
    Stage(1, 320, 3, 1),
)
FIRST, LAST = 16, 1280
"""Channels that enter Lite0's first stage; those of every net's last layer."""
FACTORS = {
    "efficientnet_lite0": (1.0, 1.0),
    "efficientnet_lite1": (1.0, 1.1),
    "efficientnet_lite2": (1.1, 1.2),
    "efficientnet_lite4": (1.4, 1.8),
}
"""How much wider and deeper than Lite0 each is; stem, last stage's depth and last layer are the same in all."""
EARLY_STAGES, LATE_STAGES, TRUNK_STAGES = 1, 2, 4
"""Stages up to stride 4; up to stride 8; up to the last one at stride 16."""


def stages(name: str) -> tuple[int, tuple[Stage, ...]]:
    """Channels that enter the first stage, and the stages.

    >>> stages("efficientnet_lite4")[0], [tuple(stage) for stage in stages("efficientnet_lite4")[1]]
    (24, [(4, 32, 3, 2), (4, 56, 5, 2), (6, 112, 3, 2), (6, 160, 5, 1), (8, 272, 5, 2), (1, 448, 3, 1)])
    """
    width, depth = FACTORS[name]
    *some, last = LITE0
    deeper = [*(one._replace(blocks=ceil(depth * one.blocks)) for one in some), last]
    return _rounded(width * FIRST), tuple(one._replace(channels=_rounded(width * one.channels)) for one in deeper)


def _rounded(channels: float) -> int:
    """To the nearest multiple of eight, as TensorFlow does it; never much less."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest


class SameConv2d(nn.Conv2d):
    """A convolution padded as TensorFlow does: out = ⌈in / stride⌉, and an odd pixel of padding goes right or below."""

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, H, W] → [N, C₂, ⌈H/s⌉, ⌈W/s⌉]."""
        if self.kernel_size == (1, 1) and input.is_cuda and not input.is_contiguous():
            # Channels lie innermost: a plain matrix product, for which cuDNN need not think.
            rows = functional.linear(input.permute(0, 2, 3, 1), self.weight.flatten(1), self.bias)
            return rows.permute(0, 3, 1, 2)
        top, bottom = self._padding(0, input.shape[2])
        left, right = self._padding(1, input.shape[3])
        if (top, left) != (bottom, right):
            input, top, left = functional.pad(input, (left, right, top, bottom)), 0, 0
        return functional.conv2d(input, self.weight, self.bias, self.stride, (top, left), self.dilation, self.groups)

    def _padding(self, axis: int, size: int) -> tuple[int, int]:
        return same_padding(size, self.kernel_size[axis], self.stride[axis], self.dilation[axis])


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Pixels before and after along one axis."""
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


class InvertedResidual(nn.Sequential):
    """Expand six times by 1×1, depthwise k×k, project by 1×1 without activation; identity added where shapes allow."""

    def __init__(self, before: int, after: int, *, kernel: int, stride: int) -> None:
        wide = 6 * before
        super().__init__(
            SameConv2d(before, wide, 1),
            SameConv2d(wide, wide, kernel, stride, groups=wide),
            SameConv2d(wide, after, 1),
        )
        self.identity = stride == 1 and before == after

    def forward(self, input: Tensor) -> Tensor:
        """[N, before, H, W] → [N, after, ⌈H/s⌉, ⌈W/s⌉]."""
        expand, depthwise, project = self
        output: Tensor = project(_relu6(depthwise(_relu6(expand(input)))))
        return input + output if self.identity else output


def _relu6(values: Tensor) -> Tensor:
    """In place where nobody will ask what was there: at every new large tensor a CPU waits for its memory."""
    return functional.relu6(values, inplace=not values.requires_grad)


class Cut(NamedTuple):
    """A net cut at the end of stride 16."""

    trunk: nn.Sequential
    channels: int
    """That it ends with."""
    early: tuple[nn.Module, ...]
    """Its layers up to stride 4."""
    late: tuple[nn.Module, ...]
    """And from the last stride on."""
    top: nn.Sequential
    """What follows it, with a stride of 2 and `LAST` channels."""


def efficientnet_lite(name: str) -> Cut:
    """The net of that name, `efficientnet_lite0` and so on."""
    first, rows = stages(name)
    blocks = _blocks(first, rows)
    ends = [sum(row.blocks for row in rows[:number]) for number in range(len(rows) + 1)]  # blocks before each stage
    trunk = nn.Sequential()
    trunk.add_module("stem", SameConv2d(3, 32, 3, 2))
    trunk.add_module("stem_activation", nn.ReLU6())
    trunk.add_module("dw0", SameConv2d(32, 32, 3, groups=32))
    trunk.add_module("dw0_activation", nn.ReLU6())
    trunk.add_module("pw0", SameConv2d(32, first, 1))
    start = tuple(trunk)
    trunk.add_module("blocks", blocks[: ends[TRUNK_STAGES]])  # a slice keeps the children's names
    top = nn.Sequential()
    top.add_module("blocks", blocks[ends[TRUNK_STAGES] :])
    top.add_module("head", SameConv2d(rows[-1].channels, LAST, 1))
    top.add_module("head_activation", nn.ReLU6())
    return Cut(
        trunk=trunk,
        channels=rows[TRUNK_STAGES - 1].channels,
        early=(*start, *blocks[: ends[EARLY_STAGES]]),
        late=tuple(blocks[ends[LATE_STAGES] : ends[TRUNK_STAGES]]),
        top=top,
    )


def _blocks(first: int, rows: Sequence[Stage]) -> nn.Sequential:
    firsts = [first, *(stage.channels for stage in rows)]  # channels that enter each stage
    return nn.Sequential(
        *chain.from_iterable(_stage(before, stage) for before, stage in zip(firsts, rows, strict=False))
    )


def _stage(before: int, stage: Stage) -> list[InvertedResidual]:
    first = InvertedResidual(before, stage.channels, kernel=stage.kernel, stride=stage.stride)
    rest = [
        InvertedResidual(stage.channels, stage.channels, kernel=stage.kernel, stride=1) for _ in range(stage.blocks - 1)
    ]
    return [first, *rest]
