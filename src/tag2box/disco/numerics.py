"""Small things that the formulas here share: the normaliser, the value of a label, and enough digits."""

import torch
from torch import Tensor


def average(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """The normaliser of the losses: the mean over all values, or by weights that broadcast; of nothing, 0.

    The paper divides by B (eq. 5). Weights say which proposals count instead, for example those of a mini-batch.

    >>> average(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([1.0, 1.0, 0.0]))
    tensor(1.5000)
    """
    weights = torch.ones_like(values) if weights is None else weights.to(values).expand_as(values)
    return (weights * values).sum() / weights.sum().clamp(min=torch.finfo(values.dtype).tiny)


def of_labels(values: Tensor, labels: Tensor) -> Tensor:
    """The value of each proposal's label: values [..., B, C + 1], labels [..., B] → [..., B].

    Labels may have more leading dimensions than values: all of these are then of the same values.
    """
    return values.expand(*labels.shape, -1).gather(-1, labels[..., None]).squeeze(-1)


def at_least_float32(tensor: Tensor) -> Tensor:
    """The same in float32 if it is in half precision, whose eight or eleven digits do not carry sums over proposals."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
