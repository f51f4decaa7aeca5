"""Which proposals a pseudo-truth box says something about (METHOD §5)."""

import torch
from torch import Tensor

LEAST, PART = 0.1, 0.5
"""IoU from which a proposal touches a box; share of its own area from which it is a part of it."""


def touches(proposals: Tensor, nearest: Tensor, overlap: Tensor) -> Tensor:
    """Whether each proposal touches the box nearest to it: [B, 4], those boxes [B, 4], their IoU [B] → bool [B].

    What touches none is left out of a loss, since an untouched region may hold a missed object. By IoU alone that would
    be true of small parts as well, a tenth of the object and less: nothing would say that they are no objects, and they
    show a class best. So what lies in the box for half of its own area touches it, however small it is.
    """
    low, high = torch.maximum(proposals[:, :2], nearest[:, :2]), torch.minimum(proposals[:, 2:], nearest[:, 2:])
    shared = (high - low).clamp(min=0).prod(dim=1)
    return (overlap >= LEAST) | (shared >= PART * (proposals[:, 2:] - proposals[:, :2]).prod(dim=1))
