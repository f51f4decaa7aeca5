"""Where do the proposals of a class agree? Their scores, laid over the picture, and the box that fits the sum.

A net that learns from tags scores highest what tells a class best: a face, a wheel. Alone the best proposal is mostly
such a part. But every proposal that shows some of the object has some score, and together they draw the whole of it:
each lays its score on the cells that it covers, and the box is chosen whose overlap with the sum is largest. The sum
of all, after Chen et al., Spatial Likelihood Voting (CVPR 2020); the overlap in place of their threshold and connected
parts, which no GPU likes.
"""

import torch
from torch import Tensor

GRID = 32
"""Cells a side of the picture, whatever its shape."""
SHARPNESS = 1.5
"""Power of the votes: with 1 boxes are too large, with 2 and 3 they shrink to parts (benchmarks/LOG.md)."""


def coverage(boxes: Tensor) -> Tensor:
    """The share of each cell that each box covers: [..., B, 4] → [..., B, GRID²]. The grid is over what boxes reach."""
    low, high = boxes[..., :2].amin(dim=-2, keepdim=True), boxes[..., 2:].amax(dim=-2, keepdim=True)  # [..., 1, 2]
    cells = torch.arange(GRID, device=boxes.device, dtype=boxes.dtype)[:, None]  # [GRID, 1]
    start, end = (GRID * (side - low) / (high - low) for side in (boxes[..., :2], boxes[..., 2:]))  # [..., B, 2]
    shares = (torch.minimum(end[..., None, :], cells + 1) - torch.maximum(start[..., None, :], cells)).clamp(min=0)
    x, y = shares.unbind(-1)  # [..., B, GRID]
    return (y[..., :, None] * x[..., None, :]).flatten(-2)


def voted_overlaps(scores: Tensor, cover: Tensor) -> Tensor:
    """How well each proposal fits what all of them say of each class: [..., B, C], [..., B, cells] → [..., B, C].

    The sum of scores over a cell is divided by the root of how many proposals cover it: undivided it favours what is
    covered by many, a mean what is covered by few. A power of it, the largest being 1, is then taken as the share of
    the cell that is object, and the overlap with it is IoU, for shares in place of yes and no.
    """
    with torch.autocast(scores.device.type, enabled=False):  # rounded to half precision, near boxes would be alike
        votes = scores.float().transpose(-1, -2) @ cover / cover.sum(dim=-2, keepdim=True).clamp(min=0.5).sqrt()
        votes = (votes / votes.amax(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)) ** SHARPNESS
        shared = cover @ votes.transpose(-1, -2)  # [..., B, C]
    return shared / (cover.sum(dim=-1, keepdim=True) + votes.sum(dim=-1)[..., None, :] - shared)
