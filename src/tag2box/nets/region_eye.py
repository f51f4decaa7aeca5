"""A net that looks at regions cut out of a picture, each enlarged to the same square (R-CNN). It never learns.

It sees nothing beside the region, where a cell of a map also sees what surrounds it; so what it makes of a region
speaks of that alone. It costs a look at each, where RoI pooling shares one look among all.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torchvision.ops import roi_align

from tag2box.errors import InputError
from tag2box.nets.architectures import parts_of
from tag2box.nets.weights import Weights, fill

AT_ONCE, AT_ONCE_ON_CPU = 1600, 20
"""Regions that it sees together: on a CPU what more of them make is too large for its memory to be kept, and below 16
a lone thread has PyTorch's slow convolutions."""


class RegionEye(nn.Module):
    """Regions as a net's maps of them."""

    def __init__(self, net: nn.Sequential, size: int) -> None:
        """size: to which regions are enlarged, in pixels a side."""
        super().__init__()
        _round(net)
        self.net, self.size = net, size
        # Channels innermost: much faster on a GPU, on a CPU 1.2 times for ResNet-18 and 1.7 for EfficientNet-Lite4.
        self.to(memory_format=torch.channels_last).eval().requires_grad_(False)
        _, self.channels, self.cells, _ = self.maps(torch.zeros(1, 3, size, size)).shape

    @torch.no_grad()
    def forward(self, pictures: Tensor, boxes: Sequence[Tensor]) -> Tensor:
        """Pictures as the net takes them [N, 3, H, W], N times [R_i, 4] in their pixels → [ΣR, C', cells, cells]."""
        numbers = torch.cat([torch.full_like(own[:, :1], place) for place, own in enumerate(boxes)])
        rows = torch.cat([numbers, torch.cat([*boxes])], dim=1).float()  # [ΣR, 5]
        pictures = pictures.float()
        step = AT_ONCE if pictures.is_cuda else AT_ONCE_ON_CPU
        return torch.cat([self.maps(self._cut_out(pictures, some)) for some in torch.split(rows, step)])

    def _cut_out(self, pictures: Tensor, rows: Tensor) -> Tensor:
        cut: Tensor = roi_align(pictures, rows, self.size, sampling_ratio=2, aligned=True)
        return cut.contiguous(memory_format=torch.channels_last)

    @torch.no_grad()
    def maps(self, regions: Tensor) -> Tensor:
        """Of regions that are cut out already: [R, 3, size, size] → [R, C', cells, cells]."""
        seen: Tensor = self.net(regions)
        return seen.float()


def whole_net(name: str, weights: Weights | None) -> nn.Sequential:
    """The net called `name` up to its classifier, its blocks one after the other."""
    parts = parts_of(name)
    if parts.top is None:
        raise InputError(f"backbone {name}: expected one with a last stage of convolutions, to look at regions")
    for part in (parts.body, parts.top):
        fill(part, weights, parts.prefix)
    return nn.Sequential(*_blocks(parts.body), *_blocks(parts.top))


def divided(net: nn.Sequential) -> tuple[nn.Sequential, nn.Sequential]:
    """A net before its last block of those that see beyond a cell, and that block with what follows it."""
    last = max(place for place, block in enumerate(net) if _sees_beyond_a_cell(block))
    return net[:last], net[last:]


@torch.no_grad()
def coarse_blocks(net: nn.Sequential) -> list[int]:
    """Places of the last block at each of a net's two coarsest resolutions, of those that see beyond a cell."""
    picture, last = torch.zeros(1, 3, 128, 128, device=next(net.parameters()).device), {}
    for place, block in enumerate(net):
        picture = block(picture)
        if _sees_beyond_a_cell(block):
            last[picture.shape[2:]] = place
    return [*last.values()][-2:]


@torch.no_grad()
def maps_at(net: nn.Sequential, places: Sequence[int], picture: Tensor) -> list[Tensor]:
    """What those blocks make of a picture [1, 3, H, W]: [D, h, w] each, in half precision, on the CPU."""
    maps = []
    for place, block in enumerate(net[: max(places) + 1]):
        picture = block(picture)
        if place in places:
            maps.append(picture[0].half().cpu())
    return maps


def _blocks(part: nn.Sequential) -> Iterator[nn.Module]:
    for one in part:
        if type(one) is nn.Sequential:  # and no block that is made as one
            yield from _blocks(one)
        else:
            yield one


def _sees_beyond_a_cell(block: nn.Module) -> bool:
    return any(isinstance(one, nn.Conv2d) and one.kernel_size != (1, 1) for one in block.modules())


@torch.no_grad()
def _round(net: nn.Module) -> None:
    """As a detector's file has them, in half precision: so one that was saved sees what training saw, to the bit."""
    for weights in net.parameters():
        if weights.dim() > 1 and bool(weights.half().isfinite().all()):
            weights.copy_(weights.half())
