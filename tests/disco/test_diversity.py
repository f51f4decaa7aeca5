from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tag2box.disco.diversity import Diversities, dissimilarity, diversities, localisation_diversities
from tag2box.disco.task_loss import localisation_loss


def diversities_slowly(probabilities: Tensor, samples: Tensor, weights: Tensor | None = None) -> tuple[float, ...]:
    """Eq. 10–12 with the 0–1 loss, sum by sum."""
    (count, proposals), classes = samples.shape, probabilities.shape[1]
    weights = torch.ones(proposals) if weights is None else weights
    pc = cc = pp = 0.0
    for i in range(proposals):
        p, w = probabilities[i], weights[i] / weights.sum()
        for k in range(count):
            pc += sum(w * p[y] * (y != samples[k, i]) for y in range(classes)) / count
            for other in range(count):
                if other != k:
                    cc += w * (samples[k, i] != samples[other, i]) / (count * (count - 1))
        pp += sum(w * p[y] * p[z] * (y != z) for y in range(classes) for z in range(classes))
    return float(pc), float(cc), float(pp)


def distributions(seed: int, *shape: int) -> Tensor:
    """Random distributions along the last dimension, some of their probabilities all but 0."""
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(*shape, generator=generator, dtype=torch.float64)).softmax(-1)


def expected(probabilities: Tensor, joint: Tensor, count: int) -> Diversities:
    """The mean of `diversities` over all K-tuples of labellings, drawn independently from a joint distribution.

    probabilities [B, C + 1]; joint [(C + 1)^B], over the labellings in order. No sampling: every tuple, by its
    probability.
    """
    proposals, classes = probabilities.shape
    labellings = torch.tensor(list(product(range(classes), repeat=proposals)))
    total = torch.zeros(3, dtype=torch.float64)
    for chosen in product(range(len(labellings)), repeat=count):
        total += joint[list(chosen)].prod() * torch.stack(diversities(probabilities, labellings[list(chosen)]))
    return Diversities(*total)


def marginals(joint: Tensor, proposals: int, classes: int) -> Tensor:
    """[(C + 1)^B] → [B, C + 1]."""
    table = joint.reshape([classes] * proposals)
    return torch.stack([table.sum([j for j in range(proposals) if j != i]) for i in range(proposals)])


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_the_same_as_the_slow_loop(seed, count, proposals, classes, weighted):
    probabilities = distributions(seed, proposals, classes + 1)
    generator = torch.Generator().manual_seed(seed)
    samples = torch.randint(0, classes + 1, (count, proposals), generator=generator)
    weights = torch.rand(proposals, generator=generator) if weighted else None
    slow = diversities_slowly(probabilities, samples, weights)
    fast = diversities(probabilities, samples, weights)
    assert [term.item() for term in fast] == pytest.approx(slow, abs=1e-6)
    gamma = 0.3
    disc = dissimilarity(probabilities, samples, gamma, weights)
    assert disc.item() == pytest.approx(slow[0] - gamma * slow[1] - (1 - gamma) * slow[2], abs=1e-6)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([2, 3]))
def test_the_estimates_are_unbiased_and_disc_is_half_the_squared_distance(seed, count):
    """Over a joint distribution in which the two proposals depend on each other, as the tags make them."""
    p, joint = distributions(seed, 2, 3), distributions(seed + 1, 9)
    q = marginals(joint, 2, 3)
    mean = expected(p, joint, count)
    assert mean.pc.item() == pytest.approx((1 - (p * q).sum(-1)).mean().item())
    assert mean.cc.item() == pytest.approx((1 - (q * q).sum(-1)).mean().item())
    assert mean.pp.item() == pytest.approx((1 - (p * p).sum(-1)).mean().item())
    assert mean.dissimilarity().item() == pytest.approx((p - q).square().sum(-1).mean().item() / 2)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_expected_disc_is_not_negative_symmetric_and_zero_where_the_nets_agree(seed, count):
    p, q = distributions(seed, 1, 3), distributions(seed + 1, 1, 3)
    disc = expected(p, q[0], count).dissimilarity()
    assert disc >= 0
    assert disc.item() == pytest.approx(expected(q, p[0], count).dissimilarity().item())
    assert expected(p, p[0], count).dissimilarity().item() == pytest.approx(0, abs=1e-12)


def test_other_gammas_are_not_symmetric():
    p, q = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])
    there, back = (expected(a.double(), b[0].double(), 2).dissimilarity(0.9) for a, b in ((p, q), (q, p)))
    assert there.item() == pytest.approx(0.05)
    assert back.item() == pytest.approx(0.45)


def test_many_samples_come_to_the_same():
    """K → ∞: as often as q says, each label."""
    p, q = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    samples = torch.arange(3).repeat_interleave((q * 10_000).round().long())[:, None]
    half_squared_distance = (p[0] - q).square().sum() / 2
    assert dissimilarity(p, samples).item() == pytest.approx(half_squared_distance.item(), abs=1e-4)


def test_one_estimate_may_be_negative():
    assert dissimilarity(torch.tensor([[0.5, 0.5]]), torch.tensor([[0], [1]])) == -0.25


def test_closed_forms():
    certain = torch.eye(3)[[0, 2]]
    assert diversities(certain, torch.tensor([[0, 2], [0, 2]])) == (0, 0, 0)
    assert diversities(certain, torch.tensor([[1, 1], [1, 1]])) == (1, 0, 0)
    uniform = torch.full((1, 4), 0.25)
    every_label_once = diversities(uniform, torch.arange(4)[:, None])
    assert every_label_once == (0.75, 1, 0.75)


def test_one_sample_has_no_diversity():
    assert diversities(torch.full((2, 2), 0.5), torch.tensor([[0, 1]])).cc == 0


def test_weights_choose_proposals():
    p, samples = distributions(0, 4, 3), torch.randint(0, 3, (5, 4))
    chosen = torch.tensor([True, False, True, False])
    for some, weighted in zip(diversities(p[chosen], samples[:, chosen]), diversities(p, samples, chosen), strict=True):
        torch.testing.assert_close(some, weighted)
    assert diversities(p, samples, torch.zeros(4)) == (0, 0, 0)


def test_half_precision_is_summed_in_single():
    p, samples = distributions(0, 2000, 21).bfloat16(), torch.randint(0, 21, (5, 2000))
    for half, full in zip(diversities(p, samples), diversities(p.double(), samples), strict=True):
        assert half.item() == pytest.approx(full.item(), abs=1e-5)


def test_gradient():
    samples = torch.tensor([[0, 1], [2, 1], [2, 2]])
    logits = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: dissimilarity(x.softmax(-1), samples), logits)


def localisation_slowly(p: Tensor, samples: Tensor, predicted: Tensor, offsets: Tensor) -> tuple[float, float]:
    """Eq. 10 and 11 with the localisation loss, sum by sum."""
    count, proposals = samples.shape
    pc = cc = 0.0
    for i, k in product(range(proposals), range(count)):
        for y in range(p.shape[1]):
            pc += p[i, y] * localisation_loss(torch.tensor(y), samples[k, i], predicted[i, y], offsets[k, i])
        for other in range(count):
            if other != k:
                cc += localisation_loss(samples[k, i], samples[other, i], offsets[k, i], offsets[other, i]) / (
                    count - 1
                )
    return float(pc / count / proposals), float(cc / count / proposals)


def test_localisation_is_that_of_the_slow_loop():
    generator = torch.Generator().manual_seed(0)
    p, samples = distributions(0, 5, 3).float(), torch.randint(0, 3, (4, 5), generator=generator)
    predicted, offsets = torch.randn(5, 3, 4, generator=generator), torch.randn(4, 5, 4, generator=generator)
    fast = localisation_diversities(p, samples, predicted, offsets)
    assert [fast.pc.item(), fast.cc.item()] == pytest.approx(localisation_slowly(p, samples, predicted, offsets))
    assert fast.pp == 0
    alone = localisation_diversities(p, samples[:1], predicted, offsets[:1])
    assert alone.cc == 0


def test_localisation_pulls_the_offsets_of_samples_towards_those_of_the_prediction_net():
    samples = torch.tensor([[0, 1, 2], [0, 1, 1]])
    p, predicted = distributions(1, 3, 3), torch.randn(3, 3, 4, dtype=torch.float64)
    offsets = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)

    def objective(t: Tensor) -> Tensor:
        return localisation_diversities(p, samples, predicted, t).dissimilarity()

    assert torch.autograd.gradcheck(objective, offsets)
    localisation_diversities(p, samples, predicted, offsets).pc.backward()
    assert (offsets.grad[:, 0] == 0).all()  # background has no box
    there = predicted[torch.arange(3), samples] - offsets.detach()
    assert (there * offsets.grad <= 0).all()
    assert (there * offsets.grad)[:, 1:].sum() < 0
