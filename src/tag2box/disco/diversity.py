"""Diversities of the two nets and their dissimilarity (eq. 7–12; the derivation is eq. 15–25).

The prediction net gives probabilities p [B, C + 1], the conditional net K samples y [K, B]. In expectation over the
samples, with q their marginal distribution and γ = ½, the 0–1 part of DISC is ½ · mean_i ‖p_i − q_i‖²: never negative,
and 0 only where the nets agree. One estimate from K samples may well be negative.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tag2box.disco.numerics import at_least_float32, average, of_labels
from tag2box.disco.task_loss import localisation_loss


class Diversities(NamedTuple):
    """The three terms of eq. 8, each a scalar."""

    pc: Tensor
    """DIV(p, c), between the nets."""
    cc: Tensor
    """DIV(c, c), of the conditional net."""
    pp: Tensor
    """DIV(p, p), of the prediction net."""

    def dissimilarity(self, gamma: float = 0.5) -> Tensor:
        """DISC of eq. 8 = DIV(p, c) − γ DIV(c, c) − (1 − γ) DIV(p, p)."""
        return self.pc - gamma * self.cc - (1 - gamma) * self.pp


def diversities(probabilities: Tensor, samples: Tensor, weights: Tensor | None = None) -> Diversities:
    """The 0–1 part of eq. 10–12: probabilities [B, C + 1], samples [K, B], by choice weights of the proposals [B].

    DIV(p, p) is exact, DIV(p, c) and DIV(c, c) are unbiased over the samples and the ordered pairs of different ones.
    One sample makes no pair; its DIV(c, c) is 0, that of the point distribution which a net without noise stands for.

    >>> diversities(torch.tensor([[0.5, 0.5]]), torch.tensor([[0], [1]]))
    Diversities(pc=tensor(0.5000), cc=tensor(1.), pp=tensor(0.5000))
    """
    probabilities = at_least_float32(probabilities)
    counts = one_hot(samples, probabilities.shape[-1]).sum(0).to(probabilities.dtype)  # [B, C + 1], of K labels
    number = len(samples)
    pc = 1 - (probabilities * counts).sum(-1) / number  # [B]
    # n samples of a label agree in n (n − 1) ordered pairs: no loop over pairs is needed.
    cc = 1 - (counts * (counts - 1)).sum(-1) / (number * (number - 1)) if number > 1 else torch.zeros_like(pc)
    pp = 1 - probabilities.square().sum(-1)
    return Diversities(average(pc, weights), average(cc, weights), average(pp, weights))


def dissimilarity(probabilities: Tensor, samples: Tensor, gamma: float = 0.5, weights: Tensor | None = None) -> Tensor:
    """DISC of eq. 8–9 for the 0–1 part, from the same arguments as `diversities`: a scalar."""
    return diversities(probabilities, samples, weights).dissimilarity(gamma)


def localisation_diversities(
    probabilities: Tensor,
    samples: Tensor,
    prediction_offsets: Tensor,
    sample_offsets: Tensor,
    weights: Tensor | None = None,
) -> Diversities:
    """The localisation part of eq. 10–12, to be added λ times to the 0–1 part.

    probabilities [B, C + 1], samples [K, B], the offsets of every class that the prediction net regresses
    [B, C + 1, 4], and of each sample those of its label [K, B, 4]. A net has one box for a class of a proposal, so
    labels of the prediction net that agree in class agree in box: its DIV(p, p) is 0.
    """
    number, proposals = samples.shape
    predicted = prediction_offsets[torch.arange(proposals, device=samples.device), samples]  # [K, B, 4]
    apart = localisation_loss(samples, samples, predicted, sample_offsets)  # [K, B]
    pc = (of_labels(probabilities, samples) * apart).mean(0)  # [B]
    pairs = localisation_loss(samples[:, None], samples[None], sample_offsets[:, None], sample_offsets[None])
    cc = pairs.sum((0, 1)) / max(number * (number - 1), 1)  # [K, K, B] → [B]; the diagonal of pairs is 0
    return Diversities(average(pc, weights), average(cc, weights), torch.zeros_like(pc).sum())
