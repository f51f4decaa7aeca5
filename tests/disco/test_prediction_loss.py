import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tag2box.disco.diversity import diversities
from tag2box.disco.prediction_loss import balanced_weights, prediction_loss


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 6), st.floats(0, 1))
def test_eq_13_mended(seed, count, proposals, gamma):
    generator = torch.Generator().manual_seed(seed)
    p = torch.randn(proposals, 4, generator=generator, dtype=torch.float64).softmax(-1)
    targets = torch.randint(0, 4, (count, proposals), generator=generator)
    terms = diversities(p, targets)
    loss = prediction_loss(p, targets, gamma=gamma)
    torch.testing.assert_close(loss, terms.pc - (1 - gamma) * terms.pp)
    torch.testing.assert_close(prediction_loss(p, targets, self_diversity=False), terms.pc)
    brier = (p - torch.eye(4, dtype=torch.float64)[targets]).square().sum(-1).mean() / 2
    torch.testing.assert_close(prediction_loss(p, targets), brier)


def test_it_is_proper_and_the_ablation_is_not():
    """The best answer to labels drawn from q is q itself; without self-diversity, to be certain of the likeliest."""
    targets = torch.tensor([0] * 6 + [1] * 3 + [2])[:, None]
    best = {}
    for self_diversity in (True, False):
        logits = torch.zeros(1, 3, requires_grad=True)
        optimiser = torch.optim.Adam([logits], lr=0.1)
        for _ in range(150):
            optimiser.zero_grad()
            prediction_loss(logits.softmax(-1), targets, self_diversity=self_diversity).backward()
            optimiser.step()
        best[self_diversity] = logits.softmax(-1)[0].tolist()
    assert best[True] == pytest.approx([0.6, 0.3, 0.1], abs=0.01)
    assert best[False][0] > 0.95


def test_eq_13_as_printed_teaches_nothing():
    """DIV(p, p) − (1 − γ) DIV(p, p) knows no targets."""
    logits = torch.zeros(1, 3, requires_grad=True)
    terms = diversities(logits.softmax(-1), torch.tensor([[1], [1]]))
    (terms.pp - 0.5 * terms.pp).backward()
    assert logits.grad.abs().max() < 1e-7


def test_weights_by_sample_leave_proposals_out():
    p = torch.randn(3, 3).softmax(-1)
    targets = torch.tensor([[0, 1, 2], [2, 1, 0]])
    weights = torch.tensor([[1.0, 0, 0], [0, 0, 3]])
    parts = [prediction_loss(p[:1], targets[:1, :1]), prediction_loss(p[2:], targets[1:, 2:])]
    torch.testing.assert_close(prediction_loss(p, targets, weights=weights), (parts[0] + 3 * parts[1]) / 4)


@pytest.mark.parametrize("self_diversity", [True, False])
def test_what_is_not_touched_is_scored_on_whether_it_agrees_with_the_tags(self_diversity):
    """Against a loop: two labels, those that the tags allow together and the others."""
    generator = torch.Generator().manual_seed(0)
    p = torch.randn(5, 4, generator=generator, dtype=torch.float64).softmax(-1)
    targets, tags = torch.randint(0, 4, (2, 5), generator=generator), torch.tensor([True, False, True])
    touched, weights = torch.rand(2, 2, 5, generator=generator, dtype=torch.float64)
    touched, total = touched > 0.5, 0.0
    for k in range(2):
        for i in range(5):
            labels, target = p[i].tolist(), int(targets[k, i])
            if not touched[k, i]:
                labels, target = [labels[0] + labels[1] + labels[3], labels[2]], 0
            own = 1 - sum(one * one for one in labels) if self_diversity else 0.0
            total += weights[k, i].item() * (1 - labels[target] - own / 2)
    loss = prediction_loss(p, targets, weights=weights, self_diversity=self_diversity, tags=tags, touched=touched)
    assert loss.item() == pytest.approx(total / weights.sum().item())


def test_what_is_not_touched_may_be_anything_that_the_tags_allow():
    logits = torch.randn(1, 4, dtype=torch.float64, requires_grad=True)
    tags, touched = torch.tensor([True, True, False]), torch.zeros(1, 1, dtype=torch.bool)
    loss = prediction_loss(logits.softmax(-1), torch.zeros(1, 1, dtype=torch.long), tags=tags, touched=touched)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert gradient[0, 3] > 0  # away from the class without a tag
    shares = logits.softmax(-1)[0, :3]  # and nothing is said of the others among themselves
    torch.testing.assert_close(gradient[0, :3] / gradient[0, :3].sum(), shares / shares.sum())


def test_balance():
    targets = torch.tensor([[1, 0, 0, 2, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
    weights = balanced_weights(targets)
    assert weights[0].tolist() == pytest.approx([0.125, 0.25, 0.25, 0.125, 0.25])
    assert weights[1].tolist() == weights[2].tolist() == pytest.approx([0.2] * 5)
    assert balanced_weights(targets[:, :0]).tolist() == [[], [], []]
    assert balanced_weights(targets, foreground=0.5)[0, 0] == 0.25


def test_gradient():
    targets, weights = torch.tensor([[0, 1], [2, 1]]), torch.rand(2, 2)
    logits = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: prediction_loss(x.softmax(-1), targets, weights=weights), logits)
