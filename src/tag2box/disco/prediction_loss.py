"""The prediction net's share of the objective (eq. 13, mended): DIV(p, c) − (1 − γ) DIV(p, p), the 0–1 part.

Eq. 13 prints DIV(p, p) twice; minimising that would make the net certain, of anything, and heed no sample. The terms of
eq. 9 that depend on the prediction net are the ones here.
"""

import torch
from torch import Tensor
from torch.nn import functional

from tag2box.disco.numerics import at_least_float32, average, of_labels


def prediction_loss(
    probabilities: Tensor,
    targets: Tensor,
    *,
    gamma: float = 0.5,
    weights: Tensor | None = None,
    self_diversity: bool = True,
    tags: Tensor | None = None,
    touched: Tensor | None = None,
) -> Tensor:
    """Probabilities [B, C + 1], targets of K samples [K, B], by choice weights [B] or [K, B] → a scalar.

    With γ = ½ it is the Brier score ½ ‖p_i − e_{y_i}‖², a proper scoring rule, averaged over proposals and samples.
    `self_diversity=False` is the ablation PW_p of table 4: the mean of 1 − p_i[y_i], least where p is certain.

    A region that a sample does not touch may hold a missed object, so it has no target; but of no class that the image
    does not have: every sample agrees with the `tags`, bool [C]. Where these are given, what is not `touched`, bool
    [K, B], is scored on two labels: background or a tagged class, as it should be, and all others.

    >>> import torch
    >>> prediction_loss(torch.tensor([[0.75, 0.25]]), torch.tensor([[0]]))  # ½ (0.25² + 0.25²)
    tensor(0.0625)
    """
    probabilities = at_least_float32(probabilities)
    losses = _losses(probabilities, targets, gamma, self_diversity)
    if tags is not None and touched is not None:
        possible = functional.pad(tags.to(probabilities.device, non_blocking=True), (1, 0), value=True)
        agrees = (probabilities * possible).sum(-1)
        two = torch.stack([agrees, 1 - agrees], dim=-1)  # [B, 2]
        losses = torch.where(touched, losses, _losses(two, torch.zeros_like(targets), gamma, self_diversity))
    return average(losses, weights)


def _losses(probabilities: Tensor, targets: Tensor, gamma: float, self_diversity: bool) -> Tensor:
    """[B, L] and labels [K, B] → [K, B]."""
    loss = 1 - of_labels(probabilities, targets)  # the target's share of eq. 10
    return loss - (1 - gamma) * (1 - probabilities.square().sum(-1)) if self_diversity else loss


def balanced_weights(targets: Tensor, foreground: float | Tensor = 0.25) -> Tensor:
    """Weights of the proposals of each sample that sum to 1: targets [..., B] → [..., B].

    Foreground has the share that Fast R-CNN gives it in a mini-batch, 1 : 3; where one side is missing the other has
    all.

    >>> import torch
    >>> balanced_weights(torch.tensor([2, 0, 0, 0, 1]))
    tensor([0.1250, 0.2500, 0.2500, 0.2500, 0.1250])
    """
    is_object = targets > 0
    weights = foreground * _shares(is_object) + (1 - foreground) * _shares(~is_object)  # [..., B]
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-12)


def sample_weights(samples: Tensor, least: float = 0.25) -> Tensor:
    """Weights of the proposals when the conditional net learns: samples [K, B] → [B], of sum 1.

    What any sample calls an object has a quarter of the weight, as in a mini-batch of Fast R-CNN, or its natural share
    where that is more. With a quarter and no more, a net could make its mistakes cheap by calling everything an object.

    >>> import torch
    >>> sample_weights(torch.tensor([[0, 0, 0, 0, 2], [0, 0, 0, 0, 0]]))
    tensor([0.1875, 0.1875, 0.1875, 0.1875, 0.2500])
    >>> sample_weights(torch.tensor([[0, 1, 0, 0], [2, 0, 0, 2]]))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    called = samples.amax(0)  # [B]
    return balanced_weights(called, foreground=(called > 0).float().mean().clamp(min=least))


def _shares(chosen: Tensor) -> Tensor:
    """One divided evenly among the chosen of each row: bool [..., B] → [..., B]."""
    return chosen.float() / chosen.sum(-1, keepdim=True).clamp(min=1)
