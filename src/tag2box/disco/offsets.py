"""Fast R-CNN's box encoding: a box relative to its proposal, four numbers of about unit size.

Boxes are rows (x0, y0, x1, y1), half-open, so a width is x1 − x0. Both functions broadcast: offsets [B, C + 1, 4] go
with proposals [B, 1, 4]. Boxes and proposals need a width and a height above 0.
"""

import math
from functools import cache

import torch
from torch import Tensor

Weights = tuple[float, float, float, float]

PLAIN: Weights = (1.0, 1.0, 1.0, 1.0)
"""As in the paper of Fast R-CNN."""
FAST_RCNN: Weights = (10.0, 10.0, 5.0, 5.0)
"""As in its code, which divides by deviations of (0.1, 0.1, 0.2, 0.2): the engine's choice."""
MOST_GROWTH = math.log(1000 / 16)
"""Cap of a decoded log size, as in torchvision, so that an untrained regressor gives no infinite boxes."""


def encode(boxes: Tensor, proposals: Tensor, weights: Weights = PLAIN) -> Tensor:
    """Boxes [..., 4] relative to proposals [..., 4] → offsets (shift of the centre by the size, log ratio of sizes).

    >>> encode(torch.tensor([5.0, 0.0, 15.0, 20.0]), torch.tensor([0.0, 0.0, 10.0, 20.0]))
    tensor([0.5000, 0.0000, 0.0000, 0.0000])
    """
    (centre, size), (home, scale) = _centre_and_size(boxes), _centre_and_size(proposals)
    return torch.cat([(centre - home) / scale, (size / scale).log()], dim=-1) * _row(weights, boxes.device, boxes.dtype)


def decode(offsets: Tensor, proposals: Tensor, weights: Weights = PLAIN) -> Tensor:
    """Offsets [..., 4] and proposals [..., 4] → boxes [..., 4]: undoes `encode`."""
    plain = offsets / _row(weights, offsets.device, offsets.dtype)
    home, scale = _centre_and_size(proposals)
    centre, size = home + plain[..., :2] * scale, scale * plain[..., 2:].clamp(max=MOST_GROWTH).exp()
    return torch.cat([centre - size / 2, centre + size / 2], dim=-1)


@cache
def _row(weights: Weights, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The weights as a tensor [4], made once: copying four numbers to a GPU waits for all that it has to do."""
    return torch.tensor(weights, device=device, dtype=dtype)


def _centre_and_size(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """[..., 4] → [..., 2], [..., 2]."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return (low + high) / 2, high - low
