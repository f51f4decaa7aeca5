"""The estimator itself is on trial here, not only its code.

Problems small enough to know everything about: 4 proposals, 2 classes, both tagged, and scores θ_0 + z θ_1 that are
linear in one noise number z ~ U[0, 1]. Along z the best labelling is the upper envelope of 50 lines, so the marginal
distribution q(θ) of the samples, and with it every expected loss, is exact.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from tag2box.disco.direct_loss import (
    cross_diversity_surrogate,
    direct_loss_surrogate,
    joint_score_difference,
    loss_augmented_scores,
    self_diversity_surrogate,
    spread,
)
from tag2box.disco.sampling import constrained_argmax

PROPOSALS, CLASSES, IMAGES = 4, 2, 8
TAGS = torch.ones(CLASSES, dtype=torch.bool)
LABELLINGS = np.array([y for y in product(range(CLASSES + 1), repeat=PROPOSALS) if {1, 2} <= set(y)])  # [50, 4]
WEIGHTS = np.array([1, 0.5, 0, 0.25])
Objective = Callable[[np.ndarray, np.ndarray], float]


def problem(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """θ [2, B, C + 1], whose scores cross each other within the noise, and the prediction net's p [B, C + 1]."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(2, PROPOSALS, CLASSES + 1)) * [[[1]], [[2]]]
    theta[0] -= theta[1] / 2
    p = np.exp(rng.normal(size=(PROPOSALS, CLASSES + 1)))
    return theta, p / p.sum(1, keepdims=True)


def marginals(theta: np.ndarray) -> np.ndarray:
    """The exact q(θ) [B, C + 1]: between two neighbouring crossings of any two lines one labelling is the best."""
    start, slope = theta[:, np.arange(PROPOSALS), LABELLINGS].sum(-1)  # [50], [50]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossings = ((start[:, None] - start) / (slope - slope[:, None])).ravel()
    edges = np.unique([0, 1, *crossings[(crossings > 0) & (crossings < 1)]])
    middle = (edges[1:] + edges[:-1]) / 2
    best = LABELLINGS[(start + middle[:, None] * slope).argmax(1)]  # [intervals, B]
    return np.einsum("n,nbc->bc", np.diff(edges), np.eye(CLASSES + 1)[best])


def div_pc(p: np.ndarray, q: np.ndarray) -> float:
    return (1 - (p * q).sum(-1)).mean()


def div_cc(p: np.ndarray, q: np.ndarray) -> float:
    return (1 - (q * q).sum(-1)).mean()


def eq_14(p: np.ndarray, q: np.ndarray, gamma: float = 0.5) -> float:
    return div_pc(p, q) - gamma * div_cc(p, q)


def weighted_eq_14(p: np.ndarray, q: np.ndarray) -> float:
    losses = 1 - (p * q).sum(-1) - (1 - (q * q).sum(-1)) / 2
    return (WEIGHTS * losses).sum() / WEIGHTS.sum()


def true_gradient(objective: Objective, theta: np.ndarray, p: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences of the exact expectation."""
    gradient = np.zeros_like(theta)
    for index in np.ndindex(theta.shape):
        change = np.zeros_like(theta)
        change[index] = step
        ahead, behind = objective(p, marginals(theta + change)), objective(p, marginals(theta - change))
        gradient[index] = (ahead - behind) / (2 * step)
    return gradient


def estimated_gradient(surrogate: Callable[..., Tensor], theta: np.ndarray, p: np.ndarray, noise: int) -> np.ndarray:
    """The direct-loss gradient with so many noise numbers, evenly spread."""
    parameters = torch.tensor(theta, requires_grad=True)
    z = (torch.arange(noise, dtype=torch.float64) + 0.5) / noise
    scores = parameters[0] + z[:, None, None] * parameters[1]  # [K, B, C + 1]
    surrogate(scores, torch.tensor(p), constrained_argmax(scores, TAGS)).backward()
    return parameters.grad.numpy()


def cross(scores: Tensor, p: Tensor, samples: Tensor, epsilon: float = 0.02) -> Tensor:
    return cross_diversity_surrogate(scores, p, samples, TAGS, epsilon=epsilon)


def own(scores: Tensor, p: Tensor, samples: Tensor, epsilon: float = 0.02) -> Tensor:
    return self_diversity_surrogate(scores, samples, TAGS, epsilon=epsilon)


def both(scores: Tensor, p: Tensor, samples: Tensor, epsilon: float = 0.02) -> Tensor:
    return direct_loss_surrogate(scores, p, samples, TAGS, epsilon=epsilon)


def weighted(scores: Tensor, p: Tensor, samples: Tensor) -> Tensor:
    return direct_loss_surrogate(scores, p, samples, TAGS, epsilon=0.02, weights=torch.tensor(WEIGHTS))


def own_as_printed(scores: Tensor, p: Tensor, samples: Tensor) -> Tensor:
    """Eq. 28 and algorithm 1 to the letter: S_k(ŷ'_c), of the other sample's labels, is subtracted."""
    others = torch.stack([samples.roll(r, 0) for r in range(1, len(samples))])
    raised = loss_augmented_scores(scores, torch.nn.functional.one_hot(others, CLASSES + 1), 0.02)
    difference = joint_score_difference(scores, constrained_argmax(raised, TAGS), others)
    return 2 * difference.mean() / PROPOSALS / 0.02


def compare(objective: Objective, surrogate: Callable[..., Tensor], noise: int) -> tuple[float, float]:
    """Cosine and ratio of norms of the two gradients, with the parameters of several images as one vector."""
    problems = [problem(seed) for seed in range(IMAGES)]
    true = np.stack([true_gradient(objective, theta, p) for theta, p in problems])
    estimate = np.stack([estimated_gradient(surrogate, theta, p, noise) for theta, p in problems])
    norms = np.linalg.norm(true), np.linalg.norm(estimate)
    return float((true * estimate).sum() / norms[0] / norms[1]), float(norms[1] / norms[0])


@pytest.mark.parametrize(
    ("objective", "surrogate", "noise", "cosine", "off"),
    [
        pytest.param(div_pc, cross, 10_000, 0.999, 0.02, id="the term of the prediction net, eq. 27"),
        pytest.param(div_cc, own, 400, 0.95, 0.1, id="the self-diversity, eq. 28 mended"),
        pytest.param(eq_14, both, 400, 0.95, 0.1, id="both, eq. 14 and 26"),
        pytest.param(weighted_eq_14, weighted, 400, 0.95, 0.1, id="both with weights of the proposals"),
    ],
)
def test_the_estimate_is_the_gradient_of_the_expected_loss(objective, surrogate, noise, cosine, off):
    """Direction, sign and size: a lost factor 2 or a wrong sign fails."""
    measured, ratio = compare(objective, surrogate, noise)
    assert measured > cosine
    assert ratio == pytest.approx(1, abs=off)


def test_it_gets_better_as_epsilon_falls():
    """And ε = 1, the paper's, is a coarse step for scores of about unit size."""
    cosines = [compare(div_pc, lambda *given, e=epsilon: cross(*given, e), 2000)[0] for epsilon in (1, 0.2, 0.05)]
    assert cosines[0] < 0.7 < cosines[1] < 0.99 < cosines[2]


def test_eq_28_as_printed_points_elsewhere():
    measured, ratio = compare(div_cc, own_as_printed, 200)
    assert measured < 0.5
    assert ratio > 2


def train(theta: np.ndarray, p: np.ndarray, epsilon: float, seed: int) -> np.ndarray:
    """300 steps with five random noise numbers each, as in training."""
    generator = torch.Generator().manual_seed(seed)
    parameters = torch.tensor(theta, requires_grad=True)
    optimiser = torch.optim.SGD([parameters], lr=0.1)
    for _ in range(300):
        scores = parameters[0] + torch.rand(5, 1, 1, generator=generator, dtype=torch.float64) * parameters[1]
        optimiser.zero_grad()
        both(scores, torch.tensor(p), constrained_argmax(scores, TAGS), epsilon).backward()
        optimiser.step()
    return parameters.detach().numpy()


def true_disc_before_and_after(epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """The exact ½ mean_i ‖p_i − q_i‖² of each image, untrained and trained."""
    discs = []
    for seed in range(IMAGES):
        theta, p = problem(seed)
        trained = train(theta, p, epsilon, seed)
        discs.append([np.square(p - marginals(now)).sum(-1).mean() / 2 for now in (theta, trained)])
    before, after = np.array(discs).T
    return before, after


def test_a_few_hundred_steps_bring_the_nets_together():
    """On each image, and by 30 % or more in the mean."""
    before, after = true_disc_before_and_after(epsilon=1)
    assert (after < before).all()
    assert after.mean() < 0.7 * before.mean()


@pytest.mark.slow
def test_a_large_epsilon_goes_further_than_an_exact_one():
    """It reaches labels that no noise brings up yet, about which the true gradient, 0 there, knows nothing."""
    small, large = (true_disc_before_and_after(epsilon)[1].mean() for epsilon in (0.2, 2))
    assert large < 0.8 * small


def surrogate_slowly(scores: Tensor, p: Tensor, samples: Tensor, tags: Tensor, epsilon: float, gamma: float) -> Tensor:
    """Algorithm 1, mended, loop by loop."""
    count, proposals, classes = scores.shape

    def joint(k: int, labels: Tensor) -> Tensor:
        return sum(scores[k, i, labels[i]] for i in range(proposals))

    cross_term = self_term = torch.zeros(())
    for k in range(count):
        towards_p = scores[k].clone()
        for i, c in product(range(proposals), range(classes)):
            towards_p[i, c] += epsilon * (1 - p[i, c])
        cross_term = cross_term + joint(k, constrained_argmax(towards_p, tags)) - joint(k, samples[k])
        for other in range(count):
            if other != k:
                away = scores[k].clone()
                for i, c in product(range(proposals), range(classes)):
                    away[i, c] += epsilon * (c != samples[other, i])
                self_term = self_term + joint(k, constrained_argmax(away, tags)) - joint(k, samples[k])
    pairs = max(count * (count - 1), 1)
    return (cross_term / count - gamma * 2 * self_term / pairs) / (epsilon * proposals)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("epsilon", [1.0, -0.3])
def test_the_same_as_the_slow_loop(count, epsilon):
    generator = torch.Generator().manual_seed(count)
    scores = torch.randn(count, 5, 4, generator=generator, requires_grad=True)
    p = torch.randn(5, 4, generator=generator).softmax(-1)
    tags = torch.tensor([True, False, True])
    samples = constrained_argmax(scores, tags)
    fast = direct_loss_surrogate(scores, p, samples, tags, epsilon=epsilon, gamma=0.3)
    slow = surrogate_slowly(scores, p, samples, tags, epsilon, 0.3)
    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(*(torch.autograd.grad(value, scores)[0] for value in (fast, slow)))


def test_weights_choose_proposals_and_only_their_ratios_matter():
    scores = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    p, tags = torch.eye(4)[[0, 1, 2, 3, 0, 1]], torch.tensor([True, False, True])
    samples = constrained_argmax(scores, tags)
    weights = torch.tensor([2.0, 1, 0, 0, 1, 0])
    gradients = [
        torch.autograd.grad(direct_loss_surrogate(scores, p, samples, tags, weights=w), scores)[0]
        for w in (weights, weights / weights.sum(), weights * 0)
    ]
    torch.testing.assert_close(gradients[0], gradients[1])
    assert gradients[0].abs().sum() > 0
    assert (gradients[2] == 0).all()


def test_half_precision():
    scores = torch.randn(3, 50, 4, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
    exact = scores.detach().float().requires_grad_()
    p, tags = torch.full((50, 4), 0.25), torch.tensor([True, False, True])
    samples = constrained_argmax(scores, tags)
    for matrix in (scores, exact):
        direct_loss_surrogate(matrix, p, samples, tags).backward()
    assert scores.grad.dtype == torch.bfloat16
    torch.testing.assert_close(scores.grad.float(), exact.grad, rtol=1e-2, atol=1e-6)


def test_epsilon_is_not_nothing():
    with pytest.raises(ValueError, match="other than 0"):
        loss_augmented_scores(torch.zeros(2, 3), torch.zeros(2, 3), 0)


@pytest.mark.parametrize("scale", [0.01, 1, 100])
def test_in_units_of_the_spread_the_scale_of_the_scores_is_nothing(scale):
    """The same labellings are tried, so that value and gradient by the unscaled scores are the same."""
    theta, p = problem(3)
    scores = torch.tensor(theta[0] + np.linspace(0, 1, 50)[:, None, None] * theta[1], requires_grad=True)
    samples, p = constrained_argmax(scores, TAGS), torch.tensor(p)
    plain = both(scores, p, samples, epsilon=0.3 * float(scores.detach().std(correction=0)))
    scaled = both(scale * scores, p, samples, epsilon=0.3 * spread(scale * scores))
    assert scaled.item() == pytest.approx(plain.item(), rel=1e-9)
    (expected,), (gradient,) = torch.autograd.grad(plain, scores), torch.autograd.grad(scaled, scores)
    assert expected.abs().sum() > 0
    assert torch.allclose(gradient, expected)


def test_scores_that_are_all_equal_still_have_a_unit():
    assert spread(torch.zeros(2, 3, 4)) > 0
