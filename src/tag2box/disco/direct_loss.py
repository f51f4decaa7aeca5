"""Training the conditional net (eq. 14, 26–29, algorithm 1): direct loss minimisation.

A sample is an argmax, which has no useful gradient; its expected loss has one. Direct loss minimisation finds it from
a second argmax, of scores with ε times the loss added: where that changes the labelling, (∇S(ŷ_ε) − ∇S(ŷ)) / ε, and
averaged over the noise this tends to the gradient of the expected loss as ε → 0. The functions here return surrogates:
scalars whose gradient by autograd is that estimate, all labels being constants. Minimise them; their value itself is
no loss.

Two slips of the paper are mended. Eq. 29 adds the loss of the constants ŷ_c, ŷ'_c; it has to be of the variable y.
Eq. 28 and algorithm 1 subtract S_k(ŷ'_c), the other sample's labels; direct loss needs S_k(ŷ_c), as the prose says.

The normaliser: losses are averaged over the proposals, eq. 5, by weights if given, and ε goes with one proposal's loss,
not with that average. So S_k = Σ_i G_k(i, y_i) is augmented by ε w_i Δ_i, and the difference of the S_k is divided by
ε Σ_i w_i. The weights are scaled to a greatest of 1, so that only their ratios matter.
"""

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tag2box.disco.numerics import at_least_float32, of_labels
from tag2box.disco.sampling import constrained_argmax


def direct_loss_surrogate(
    scores: Tensor,
    probabilities: Tensor,
    samples: Tensor,
    tags: Tensor,
    *,
    epsilon: float | Tensor = 1.0,
    gamma: float = 0.5,
    weights: Tensor | None = None,
) -> Tensor:
    """The surrogate of eq. 14, DIV(p, c) − γ DIV(c, c), for the 0–1 part: a scalar with the gradient of eq. 26.

    scores [K, B, C + 1]; probabilities of the prediction net [B, C + 1]; samples [K, B], which have to be
    `constrained_argmax(scores, tags)` itself, before any threshold; tags [C]; weights of the proposals [B].
    A negative ε looks from the other side: for labellings of less loss rather than more. What a step of ε means depends
    on how far the scores lie apart, which changes as they are learnt: `spread` measures it.
    """
    cross = cross_diversity_surrogate(scores, probabilities, samples, tags, epsilon=epsilon, weights=weights)
    if gamma == 0:
        return cross
    return cross - gamma * self_diversity_surrogate(scores, samples, tags, epsilon=epsilon, weights=weights)


def cross_diversity_surrogate(
    scores: Tensor,
    probabilities: Tensor,
    samples: Tensor,
    tags: Tensor,
    *,
    epsilon: float | Tensor,
    weights: Tensor | None = None,
) -> Tensor:
    """The surrogate of DIV(p, c), eq. 27: mean_k [S_k(ŷ_a) − S_k(ŷ_c)] / ε, arguments as above."""
    raised = loss_augmented_scores(scores, probabilities, epsilon, weights)  # [K, B, C + 1]
    return _contrast(scores, constrained_argmax(raised, tags), samples, weights) / epsilon


def self_diversity_surrogate(
    scores: Tensor, samples: Tensor, tags: Tensor, *, epsilon: float | Tensor, weights: Tensor | None = None
) -> Tensor:
    """The surrogate of DIV(c, c), eq. 28 mended: 2 mean_{k≠k'} [S_k(ŷ_b^{k'}) − S_k(ŷ_c^k)] / ε; of one sample, 0.

    The 2 is algorithm 1's: both members of a pair move with the parameters, and each is held still in turn.
    """
    if len(samples) == 1:
        return scores.new_zeros(())
    others = torch.stack([samples.roll(r, 0) for r in range(1, len(samples))])  # [K − 1, K, B], each k with every k'
    raised = loss_augmented_scores(scores, one_hot(others, scores.shape[-1]), epsilon, weights)  # [K − 1, K, B, C + 1]
    return 2 * _contrast(scores, constrained_argmax(raised, tags), samples, weights) / epsilon


def loss_augmented_scores(
    scores: Tensor, distribution: Tensor, epsilon: float | Tensor, weights: Tensor | None = None
) -> Tensor:
    """What eq. 29 (mended) maximises, for each proposal: G(i, c) + ε w_i E_{y ~ distribution}[Δ(y, c)], 0–1 part.

    scores [..., B, C + 1]; the distribution of the other labelling, which broadcasts with them: the prediction net's
    probabilities for ŷ_a, a sample as one-hot rows for ŷ_b. The expected 0–1 loss of label c is 1 − its probability.
    """
    if not isinstance(epsilon, Tensor) and epsilon == 0:  # to look into a tensor would be to wait for the device
        raise ValueError("epsilon: expected a step other than 0, found 0")
    scores = at_least_float32(scores.detach())
    expected_loss = 1 - distribution.detach().to(scores)
    return scores + epsilon * _relative(weights, scores)[:, None] * expected_loss


def spread(scores: Tensor) -> Tensor:
    """The standard deviation of all scores [K, B, C + 1], never quite 0: a unit for ε that the scores carry along."""
    return at_least_float32(scores.detach()).std(correction=0).clamp(min=1e-6)


def joint_score_difference(scores: Tensor, labels: Tensor, other: Tensor) -> Tensor:
    """S(y) − S(y') of eq. 2 for feasible y and y': scores [..., B, C + 1], labels [..., B] → [...]. Broadcasts."""
    scores = at_least_float32(scores)
    return (of_labels(scores, labels) - of_labels(scores, other)).sum(-1)


def _contrast(scores: Tensor, raised: Tensor, samples: Tensor, weights: Tensor | None) -> Tensor:
    """The mean of S(raised) − S(sample) over all matrices, by the sum of the weights: a scalar."""
    total = _relative(weights, at_least_float32(scores)).sum().clamp(min=1e-12)
    return joint_score_difference(scores, raised, samples).mean() / total


def _relative(weights: Tensor | None, scores: Tensor) -> Tensor:
    """Weights over their greatest, ones if there are none [B]."""
    if weights is None:
        return scores.new_ones(scores.shape[-2])
    return weights.to(scores) / weights.max().clamp(min=1e-12)
