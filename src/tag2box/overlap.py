"""Overlaps of boxes, and which proposals a pseudo-truth box says something about (METHOD §5)."""

import torch
from torch import Tensor

LEAST, PART = 0.1, 0.5
"""IoU from which a proposal touches a box; share of its own area from which it is a part of it."""


def pair_iou(one: Tensor, other: Tensor) -> Tensor:
    """IoU of all pairs, for any number of images at once: [..., B, 4], [..., T, 4] → [..., B, T]."""
    one, other = one[..., :, None, :], other[..., None, :, :]
    low, high = torch.maximum(one[..., :2], other[..., :2]), torch.minimum(one[..., 2:], other[..., 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)
    return shared / (_area(one) + _area(other) - shared)


def touches(proposals: Tensor, nearest: Tensor, overlap: Tensor) -> Tensor:
    """Whether each proposal touches the box nearest to it: [..., 4], those boxes, their IoU [...] → bool [...].

    What touches none is left out of a loss, since an untouched region may hold a missed object. By IoU alone that would
    be true of small parts as well, a tenth of the object and less: nothing would say that they are no objects, and they
    show a class best. So what lies in the box for half of its own area touches it, however small it is.
    """
    low, high = torch.maximum(proposals[..., :2], nearest[..., :2]), torch.minimum(proposals[..., 2:], nearest[..., 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)
    return (overlap >= LEAST) | (shared >= PART * _area(proposals))


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).prod(dim=-1)
