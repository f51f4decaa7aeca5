"""Overlaps of boxes, and which proposals a pseudo-truth box says something about (METHOD §5)."""

import torch
from torch import Tensor

LEAST, PART = 0.1, 0.5
"""IoU from which a proposal touches a box; share of its own area from which it is a part of it."""
INSIDE = 0.8
"""Of a part's area, what lies in the whole that it is dropped for."""


def pair_iou(one: Tensor, other: Tensor) -> Tensor:
    """IoU of all pairs, for any number of images at once: [..., B, 4], [..., T, 4] → [..., B, T]."""
    one, other = one[..., :, None, :], other[..., None, :, :]
    shared = _shared(one, other)
    return shared / (_area(one) + _area(other) - shared)


def likeness(boxes: Tensor) -> Tensor:
    """How well boxes cover each other, |a ∩ b| / √(|a| |b|): the cosine of their areas. [..., B, 4] → [..., B, B]."""
    one, other = boxes[..., :, None, :], boxes[..., None, :, :]
    return _shared(one, other) / (_area(one) * _area(other)).sqrt()


def touches(proposals: Tensor, nearest: Tensor, overlap: Tensor) -> Tensor:
    """Whether each proposal touches the box nearest to it: [..., 4], those boxes, their IoU [...] → bool [...].

    What touches none has no label, since an untouched region may hold a missed object. By IoU alone that would
    be true of small parts as well, a tenth of the object and less: nothing would say that they are no objects, and they
    show a class best. So what lies in the box for half of its own area touches it, however small it is.
    """
    return (overlap >= LEAST) | (_shared(proposals, nearest) >= PART * _area(proposals))


def whole_objects(boxes: Tensor, scores: Tensor, groups: Tensor, parts: float) -> Tensor:
    """Which boxes are no mere part of another of their group, a class for example: [D, 4], [D], [D] → bool [D].

    A part lies by `INSIDE` of its area in a larger box that scores at least `parts` of what it does: what tells a class
    best is often a part, and a head and the whole cat overlap too little for non-maximum suppression. Of every group
    the largest box stays.
    """
    shared, area = _shared(boxes[:, None], boxes[None]), _area(boxes)  # [D, D], [D]
    inside = (shared >= INSIDE * area[:, None]) & (area[None] > area[:, None]) & (groups[:, None] == groups[None])
    return ~(inside & (scores[None] >= parts * scores[:, None])).any(dim=1)


def _shared(one: Tensor, other: Tensor) -> Tensor:
    """The area that boxes share: two [..., 4] → [...]. Broadcasts."""
    low, high = torch.maximum(one[..., :2], other[..., :2]), torch.minimum(one[..., 2:], other[..., 2:])
    return (high - low).clamp(min=0).prod(dim=-1)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).prod(dim=-1)
