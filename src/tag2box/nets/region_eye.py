"""A whole net that looks at regions cut out of a picture, each enlarged to the same square (R-CNN). It never learns.

It sees nothing beside the region, where a cell of a map also sees what surrounds it; so what it makes of a region
speaks of that alone. It costs a look at each, where RoI pooling shares one look among all.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.ops import roi_align

from tag2box.errors import InputError
from tag2box.nets.architectures import parts_of
from tag2box.nets.weights import Weights, fill

AT_ONCE, AT_ONCE_ON_CPU = 1600, 20
"""Regions that it sees together: on a CPU what more of them make is too large for its memory to be kept, and below 16
a lone thread has PyTorch's slow convolutions."""


class RegionEye(nn.Module):
    """Regions as vectors: the net up to its classifier, averaged over the region, or over each of its cells."""

    def __init__(self, name: str, weights: Weights | None, size: int, cells: int = 1) -> None:
        """size: to which regions are enlarged, in pixels a side; cells: into how many they are then divided, a side."""
        super().__init__()
        parts = parts_of(name)
        if parts.top is None:
            raise InputError(f"backbone {name}: expected one with a last stage of convolutions, to look at regions")
        for part in (parts.body, parts.top):
            fill(part, weights, parts.prefix)
            _round(part)
        self.body, self.top, self.dim = parts.body, parts.top, parts.top_channels
        self.size, self.cells = size, cells
        # Channels innermost: much faster on a GPU, on a CPU 1.2 times for ResNet-18 and 1.7 for EfficientNet-Lite4.
        self.to(memory_format=torch.channels_last).eval().requires_grad_(False)

    @torch.no_grad()
    def forward(self, pictures: Tensor, boxes: Sequence[Tensor]) -> Tensor:
        """Pictures as the net takes them [N, 3, H, W], N times [R_i, 4] in their pixels → [ΣR, dim, cells, cells]."""
        numbers = torch.cat([torch.full_like(own[:, :1], place) for place, own in enumerate(boxes)])
        rows = torch.cat([numbers, torch.cat([*boxes])], dim=1).float()  # [ΣR, 5]
        pictures = pictures.float()
        step = AT_ONCE if pictures.is_cuda else AT_ONCE_ON_CPU
        return torch.cat([self.vectors(self._cut_out(pictures, some)) for some in torch.split(rows, step)])

    def _cut_out(self, pictures: Tensor, rows: Tensor) -> Tensor:
        cut: Tensor = roi_align(pictures, rows, self.size, sampling_ratio=2, aligned=True)
        return cut.contiguous(memory_format=torch.channels_last)

    def vectors(self, regions: Tensor) -> Tensor:
        """Of regions that are cut out already: [R, 3, size, size] → [R, dim, cells, cells]."""
        seen = functional.adaptive_avg_pool2d(self.top(self.body(regions)), self.cells)
        return seen.float()


@torch.no_grad()
def _round(part: nn.Module) -> None:
    """As a detector's file has them, in half precision: so one that was saved sees what training saw, to the bit."""
    for weights in part.parameters():
        if weights.dim() > 1 and bool(weights.half().isfinite().all()):
            weights.copy_(weights.half())
