"""Samples of the conditional net (eq. 2–4): the exact argmax under the tags, and the pseudo ground truth after it.

B proposals, C classes and the background, class 0. The scores G_k [B, C + 1] come from one draw of the noise, the tags
a [C] from the user. A sample is the labelling with the greatest sum of scores in which every tagged class labels at
least one proposal and no untagged class labels any.
"""

from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional
from torchvision.ops import batched_nms

from tag2box.disco.numerics import at_least_float32, of_labels
from tag2box.overlap import whole_objects

MOST_ENUMERATED = 5
"""Up to so many tags all assignments that can be best are tried at once, 1,296 of them for five; beyond, SciPy."""


def constrained_argmax(scores: Tensor, tags: Tensor) -> Tensor:
    """The sample ŷ = argmax_y Σ_i G(i, y_i) − H(y) of eq. 2–4, exact, for any number of score matrices at once.

    scores [..., B, C + 1], tags bool [C] → labels int64 [..., B]. Of equal labellings any may be returned, but where
    every tagged class wins somewhere already it is the plain argmax over the classes available. A score of −∞ forbids
    that label as far as the tags allow; NaN and +∞ are the caller's to refuse. Half precision is compared in float32.
    With tags on the CPU and at most `MOST_ENUMERATED` of them, the host never waits for the device.

    >>> scores = torch.tensor([[4.0, 1.0, 3.0], [5.0, 0.0, 1.0]])  # both classes cost the first proposal least
    >>> constrained_argmax(scores, torch.tensor([True, True]))  # regrets of 1 + 5 against 3 + 4
    tensor([2, 1])
    """
    classes = _available_classes(scores, tags)  # [A + 1]
    *leading, proposals, width = scores.shape
    matrices = scores.detach().reshape(torch.Size(leading).numel(), proposals, width)
    available = at_least_float32(matrices.movedim(-1, 0)[classes])  # [A + 1, N, B]
    labels = available.max(0).indices if len(classes) == 1 else _label(available)  # [N, B], numbers within `classes`
    return classes[labels].reshape(*leading, proposals)


def _available_classes(scores: Tensor, tags: Tensor) -> Tensor:
    """Background and the tagged classes [A + 1], on the device of the scores."""
    if tags.shape != (scores.shape[-1] - 1,):
        raise ValueError(f"tags: expected shape ({scores.shape[-1] - 1},), found {tuple(tags.shape)}")
    tagged = tags.nonzero().flatten() + 1
    if len(tagged) > scores.shape[-2]:
        raise ValueError(
            f"expected at least as many proposals as tags, found {scores.shape[-2]} proposals for {len(tagged)} tags"
        )
    classes = torch.cat([tagged.new_zeros(1), tagged])
    return classes.to(scores.device, non_blocking=True)  # a blocking copy would wait for all queued work


def _label(available: Tensor) -> Tensor:
    """Scores [A + 1, N, B] → labels [N, B] in 0..A, each of 1..A at least once in a row.

    A feasible labelling has a distinct witness for each class, and the best one gives every other proposal its own
    maximum. What is left to choose is the witnesses: those with the least sum of regrets, maximum − score.
    """
    best, own = available.max(0)  # [N, B]
    numbers = torch.arange(1, len(available), device=available.device)  # [A]
    all_win = (own == numbers[:, None, None]).any(-1).all(0)  # [N]
    witnesses = _cheapest_witnesses(best - available[1:])  # [A, N]
    repaired = own.scatter(-1, witnesses.T, numbers.expand(len(own), -1))
    return torch.where(all_win[:, None], own, repaired)


def _cheapest_witnesses(regret: Tensor) -> Tensor:
    """Regrets [A, N, B] → a proposal for each class, all distinct, with the least sum [A, N].

    The others take A − 1 proposals at most, so one of its own A cheapest is always left to a class.
    """
    cost, candidates = regret.topk(len(regret), largest=False)  # [A, N, A], the cheapest first
    # −∞ gives a regret of ∞, or of NaN where it is the whole row. Large and finite, it stays below what is ruled out.
    cost = cost.nan_to_num(nan=torch.inf).clamp(max=1e37)
    if len(cost) <= MOST_ENUMERATED:
        return _try_all(cost, candidates)
    return _assign(cost, candidates)


def _try_all(cost: Tensor, candidates: Tensor) -> Tensor:
    """The best of all ways to pick one of its candidates for each class: two [A, N, A] → [A, N]."""
    ranks = _ranks(len(cost), cost.device)  # [A, P]
    tried = ranks[:, None].expand(-1, cost.shape[1], -1)  # [A, N, P]
    picks = candidates.gather(-1, tried)
    shared = (picks[:, None] == picks[None]).sum((0, 1)) > len(cost)  # [N, P], more are equal than each to itself
    best = cost.gather(-1, tried).sum(0).masked_fill(shared, torch.inf).argmin(-1)  # [N]
    return picks.gather(-1, best.expand(len(cost), -1)[..., None]).squeeze(-1)


@cache
def _ranks(classes: int, device: torch.device) -> Tensor:
    """All rank vectors (0 = a class's cheapest proposal) among which one is best, as columns [A, P].

    They are the parking functions, (A + 1)^(A − 1) in number: sorted, the k-th rank is below k. Of the best assignments
    take one with the least sum of ranks. Some class holds its favourite there; otherwise each wants a proposal that is
    free or held by the next, and trading around the circle lowers the ranks and raises no cost. Set that class and its
    proposal aside and repeat: the k-th to be set aside holds its favourite of all but k − 1.
    """
    vectors = [v for v in product(range(classes), repeat=classes) if all(r <= k for k, r in enumerate(sorted(v)))]
    return torch.tensor(vectors, device=device).T.contiguous()


def _assign(cost: Tensor, candidates: Tensor) -> Tensor:
    """The same by linear assignment, one matrix after the other on the CPU."""
    costs, proposals = cost.movedim(1, 0).cpu().double().numpy(), candidates.movedim(1, 0).cpu().numpy()  # [N, A, A]
    witnesses = np.zeros(costs.shape[:2], dtype=np.int64)  # [N, A]
    for n in range(len(costs)):
        columns, place = np.unique(proposals[n], return_inverse=True)  # [U], [A, A]
        dense = np.full((len(cost), len(columns)), 1e300)  # what is no candidate of a class is never needed
        np.put_along_axis(dense, place, costs[n], axis=1)
        witnesses[n] = columns[linear_sum_assignment(dense)[1]]
    return torch.from_numpy(witnesses.T).to(cost.device)


def keep_confident(labels: Tensor, probabilities: Tensor, tags: Tensor, threshold: float = 0.2) -> Tensor:
    """Make background of the foreground picks that are under the threshold, but for the best of each tagged class.

    labels [..., B], probabilities [..., B, C + 1] and tags [..., C] → labels [..., B]. Labels of untagged classes,
    which `constrained_argmax` does not give, become background too.

    >>> probabilities = torch.tensor([[0.9, 0.1], [0.85, 0.15], [0.4, 0.6]])
    >>> keep_confident(torch.tensor([1, 1, 1]), probabilities, torch.tensor([True]))
    tensor([0, 0, 1])
    >>> keep_confident(torch.tensor([1, 1, 0]), probabilities, torch.tensor([True]))
    tensor([0, 1, 0])
    """
    probabilities = probabilities.detach()
    picked = of_labels(probabilities, labels)  # [..., B]
    best = torch.zeros_like(probabilities[..., 0, :]).scatter_reduce(-1, labels, picked, "amax")  # [..., C + 1]
    bar = best.clamp(max=threshold).gather(-1, labels)  # a class that is nowhere sure has its best pick for a bar
    available = functional.pad(tags, (1, 0)).to(labels.device, non_blocking=True)  # [..., C + 1]
    available = available.expand(*labels.shape[:-1], -1).gather(-1, labels)  # [..., B]
    return labels.where((picked >= bar) & available, 0)


class PseudoTruth(NamedTuple):
    """What one sample says is there."""

    indices: Tensor
    """Proposals that survive, the most probable first [S]."""
    classes: Tensor
    """Their classes, 1..C [S]."""


def pseudo_ground_truth(
    labels: Tensor, probabilities: Tensor, boxes: Tensor, tags: Tensor, threshold: float = 0.2, nms_iou: float = 0.3
) -> PseudoTruth:
    """The survivors of one sample: confident picks, thinned by non-maximum suppression within each class.

    labels [B], probabilities [B, C + 1], boxes [B, 4], tags [C]. Every tagged class keeps at least one: its most
    probable pick passes the threshold by decree and is suppressed by nothing.
    """
    return pseudo_ground_truths(labels[None], probabilities[None], boxes, tags, threshold, nms_iou)[0]


def pseudo_ground_truths(
    labels: Tensor,
    probabilities: Tensor,
    boxes: Tensor,
    tags: Tensor,
    threshold: float = 0.2,
    nms_iou: float = 0.3,
    parts: float = 0.0,
) -> list[PseudoTruth]:
    """The survivors of each of K samples, with one suppression for all.

    labels [K, B], probabilities [K, B, C + 1], boxes [K, B, 4] or [B, 4] for all samples, tags [C], or [K, C] where
    samples are of several images. With `parts` above 0 mere parts of a larger survivor go as well
    (`overlap.whole_objects`), which leaves each class its largest.
    """
    count, proposals = labels.shape
    labels = keep_confident(labels, probabilities, tags, threshold)
    sample, proposal = labels.nonzero(as_tuple=True)  # [F], [F]
    classes = labels[sample, proposal]
    picked = boxes.detach().expand(count, proposals, 4)[sample, proposal].float()  # [F, 4]
    sureness = of_labels(probabilities.detach(), labels)[sample, proposal].float()  # [F]
    groups = sample * probabilities.shape[-1] + classes  # boxes of other samples or classes do not suppress
    # In float64, since batched_nms may move each group by a multiple of the image's size and so lose digits.
    kept = batched_nms(picked.double(), sureness.double(), groups, nms_iou)
    if parts:
        kept = kept[whole_objects(picked[kept], sureness[kept], groups[kept], parts)]
    kept = kept[sample[kept].argsort(stable=True)]  # by sample, within it the most probable first
    sizes = sample[kept].bincount(minlength=count).tolist()
    return list(map(PseudoTruth, proposal[kept].split_with_sizes(sizes), classes[kept].split_with_sizes(sizes)))
