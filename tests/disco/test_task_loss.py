import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tag2box.disco.task_loss import classification_loss, localisation_loss, task_loss


def task_loss_slowly(labels, other, offsets, other_offsets, loss_ratio):
    """Eq. 5–6, proposal by proposal."""
    total = 0.0
    for y1, y2, t1, t2 in zip(labels, other, offsets, other_offsets, strict=True):
        total += y1 != y2
        if y1 == y2 and y1 > 0:
            for d in (abs(a - b) for a, b in zip(t1, t2, strict=True)):
                total += loss_ratio * (d * d / 2 if d < 1 else d - 0.5)
    return total / len(labels)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 9), st.integers(0, 10**6), st.sampled_from([0.0, 1 / 3, 1.0, 3.0]))
def test_the_same_as_the_slow_loop(proposals, seed, loss_ratio):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (2, proposals), generator=generator)
    offsets = 2 * torch.randn(2, proposals, 4, generator=generator)
    slow = task_loss_slowly(*labels.tolist(), *offsets.tolist(), loss_ratio)
    assert task_loss(*labels, *offsets, loss_ratio=loss_ratio).item() == pytest.approx(slow, abs=1e-5)
    swapped = task_loss(labels[1], labels[0], offsets[1], offsets[0], loss_ratio=loss_ratio)
    assert swapped.item() == pytest.approx(slow, abs=1e-5)


def test_only_the_same_foreground_class_has_boxes_to_compare():
    labels, other = torch.tensor([0, 1, 1, 2]), torch.tensor([0, 1, 2, 0])
    far = torch.ones(4, 4)
    assert classification_loss(labels, other).tolist() == [0, 0, 1, 1]
    assert localisation_loss(labels, other, far, -far).tolist() == [0, 6, 0, 0]


def test_pairs_by_broadcasting():
    labels, offsets = torch.randint(0, 3, (4, 7)), torch.randn(4, 7, 4)
    pairs = task_loss(labels[:, None], labels[None], offsets[:, None], offsets[None])
    assert pairs.shape == (4, 4)
    assert torch.equal(pairs[1, 3], task_loss(labels[1], labels[3], offsets[1], offsets[3]))
    assert torch.equal(pairs.diagonal(), torch.zeros(4))


def test_gradient():
    labels = torch.tensor([0, 1, 2])
    offsets = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    fixed = torch.randn(3, 4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda t: task_loss(labels, labels, t, fixed), offsets)
