"""The task loss Δ (eq. 5–6): how far two labellings of the same proposals are apart."""

import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss


def classification_loss(labels: Tensor, other: Tensor) -> Tensor:
    """Δ_cls of eq. 6, 0–1, for each proposal: two [..., B] → [..., B]."""
    return (labels != other).float()


def localisation_loss(labels: Tensor, other: Tensor, offsets: Tensor, other_offsets: Tensor) -> Tensor:
    """Δ_loc of eq. 6 for each proposal: labels [..., B], offsets [..., B, 4] → [..., B].

    Smooth L1 summed over the four offsets, as in Fast R-CNN, where both labels are the same foreground class: of two
    different classes, or of background, there are no two boxes to compare. Broadcasts.
    """
    same = (labels == other) & (labels > 0)
    difference = offsets - other_offsets
    distance = smooth_l1_loss(difference, torch.zeros_like(difference), reduction="none").sum(-1)
    return distance.where(same, 0)


def task_loss(
    labels: Tensor, other: Tensor, offsets: Tensor, other_offsets: Tensor, *, loss_ratio: float = 3.0
) -> Tensor:
    """Δ(y1, y2) of eq. 5: labels [..., B], offsets [..., B, 4] → [...]; `loss_ratio` is the paper's λ.

    >>> at_home, shifted = torch.zeros(2, 4), torch.tensor([[0.0, 0, 0, 0], [2, 0, 0, 0]])
    >>> task_loss(torch.tensor([0, 1]), torch.tensor([2, 1]), at_home, shifted)  # (1 + 3 · 1.5) / 2
    tensor(2.7500)
    """
    localisation = localisation_loss(labels, other, offsets, other_offsets)
    return (classification_loss(labels, other) + loss_ratio * localisation).mean(-1)
