"""Of the boxes to which a detector moves a picture's proposals, which is all of an object?

Its highest probability is a poor guide: it has learnt from boxes of which many were too large, a monitor with its desk
or several chairs, and a box that fits is hardly less probable to it than one that holds half a room. But where an
object is, many proposals land on the same box. The larger a box, the more proposals can land there at all, so that it
takes more of them to speak for it: what is compared are probability and votes in relation to size.
"""

import torch
from torch import Tensor

from tag2box.overlap import pair_iou

SAME = 0.7
"""IoU from which two proposals have landed on the same box."""
SIZE = 1.0
"""Power of its area by which a box needs more to speak for it (benchmarks/LOG.md)."""
SURE = 1e-4
"""No probability is closer to 0 or 1 than this."""


def landing(probabilities: Tensor, boxes: Tensor) -> Tensor:
    """What speaks for each box that proposals were moved to: [T, B], [T, B, 4] of T classes → [T, B].

    The log odds of its probability, plus the logarithm of the probabilities that landed there, less that of its area.
    """
    chances = probabilities.float().clamp(SURE, 1 - SURE)
    same = (pair_iou(boxes.float(), boxes.float()) >= SAME).float()  # [T, B, B]
    votes = (same @ chances[..., None]).squeeze(-1).clamp(min=SURE)  # a box without area overlaps nothing, nor itself
    area = (boxes[..., 2:] - boxes[..., :2]).float().clamp(min=1).prod(dim=-1)
    return chances.logit() + votes.log() - SIZE * area.log()


def best_landing(probabilities: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Each class's best box and its probability: [T, B], [T, B, 4] → [T, 4], [T]; B ≥ 1."""
    rows = torch.arange(len(boxes), device=boxes.device), landing(probabilities, boxes).argmax(dim=1)
    return boxes[rows], probabilities[rows]
