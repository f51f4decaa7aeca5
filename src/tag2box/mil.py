"""The warm start: WSDDN and refinement branches after OICR (METHOD §7; the paper does not say where its nets start).

WSDDN scores proposals by two softmaxes, over classes and over proposals, and learns from the tags alone. Each
refinement branch then learns C + 1 labels from the best boxes of the one before. The functions are about N images side
by side: a GPU is kept waiting by many small operations more than by large ones.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from tag2box.disco.offsets import PLAIN, Weights, encode
from tag2box.nets.mil import MilOutputs
from tag2box.overlap import pair_iou, touches
from tag2box.voting import coverage, voted_overlaps

MARGIN = 1e-6
"""Image-level scores keep this far from 0 and 1, where the cross-entropy is infinite."""
OBJECTS = 0.25
"""The least share of a refinement loss that objects have, as in a mini-batch of Fast R-CNN."""


class Targets(NamedTuple):
    """What a refinement branch learns of N images with B proposals each."""

    labels: Tensor
    """0 is the background, c + 1 class c [N, B]."""
    weights: Tensor
    """The score of the seed that a proposal belongs to; 0: left out [N, B]."""
    seeds: Tensor
    """Index of that seed among the image's proposals, the target of its regression [N, B]."""
    apart: Tensor | None = None
    """The weights of those that touch no seed, of which only the tags say something; 0 elsewhere [N, B]."""


class KnownSeeds(NamedTuple):
    """What a person has said of an image's objects, in terms of its proposals."""

    labels: Tensor
    """Of the known boxes' own proposals, 1…C [S]."""
    proposals: Tensor
    """Those [S]."""
    allowed: Tensor
    """Which labels each proposal may have, bool [B, C + 1]."""
    undecided: Tensor
    """The tagged classes of which nothing is known, bool [C], on the CPU."""


class Hints(NamedTuple):
    """What speaks for an image's proposals from outside, before anything is learnt of it here."""

    places: Tensor
    """For each class, how much speaks for each proposal's being all of an object, −1…1 [B, C]."""
    sureness: Tensor
    """How much the best of each class is to count, 1 in the mean over the images with that tag [C]."""


class Bags(NamedTuple):
    """Images side by side: N of them, with B proposals each, the fewer of some followed by copies that do not count."""

    boxes: Tensor
    """[N, B, 4]"""
    counts: Tensor
    """Which proposals count, bool [N, B]."""
    tags: Tensor
    """bool [N, C], on the CPU: what follows from them is then known without waiting for the device."""
    rows: Tensor
    """Where each stands among the proposals of all images, one after the other [N, B]."""

    @classmethod
    def of(cls, boxes: Sequence[Tensor], tags: Sequence[Tensor]) -> "Bags":
        """From each image's proposals [B_i, 4] and tags [C]."""
        counts = torch.tensor([len(one) for one in boxes])
        device, most = boxes[0].device, int(counts.max())
        places = torch.arange(most).expand(len(boxes), -1)
        starts = counts.cumsum(0) - counts
        rows = (starts[:, None] + places.minimum(counts[:, None] - 1)).clamp(min=0).to(device, non_blocking=True)
        valid = (places < counts[:, None]).to(device, non_blocking=True)
        return cls(torch.cat([*boxes])[rows], valid, torch.stack([*tags]), rows)


def wsddn_scores(class_logits: Tensor, proposal_logits: Tensor, counts: Tensor | None = None) -> Tensor:
    """Softmax over classes times softmax over proposals: [..., B, C] twice → [..., B, C]. A column sums to at most 1.

    counts: which proposals do, bool [..., B]; the others have a score of 0.
    """
    if counts is None:
        return class_logits.float().softmax(dim=-1) * proposal_logits.float().softmax(dim=-2)
    low = torch.finfo(torch.float32).min
    proposal_logits = proposal_logits.float().masked_fill(~counts[..., None], low)
    return class_logits.float().softmax(dim=-1) * proposal_logits.softmax(dim=-2) * counts[..., None]


def wsddn_loss(scores: Tensor, tags: Tensor) -> Tensor:
    """Cross-entropy between image-level scores, the columns' sums, and tags: [..., B, C], bool[..., C] → [...].

    Summed over classes. The columns' sums are squeezed into (0, 1), not clamped: a clamp would stop the gradient just
    where it is most needed.
    """
    image = MARGIN + (1 - 2 * MARGIN) * scores.sum(dim=-2).clamp(0, 1)  # [..., C]; rounding can lift a sum over 1
    return -torch.where(tags.to(scores.device, non_blocking=True), image, 1 - image).log().sum(dim=-1)


def refinement_targets(
    scores: Tensor,
    bags: Bags,
    *,
    foreground: float = 0.5,
    choice: Tensor | None = None,
    sureness: Tensor | None = None,
    known: Sequence[KnownSeeds | None] = (),
) -> Targets:
    """What the scores of one branch teach the next: [N, B, C] and the images → Targets.

    The top-scoring proposal of each tagged class is its seed; no two classes share one, the surer class comes first.
    Or else, where another `choice` [N, B, C] is given, the one for which that is highest. A seed counts by its score;
    where it was chosen otherwise, by its class's top score, or by the `sureness` [N, C] that is given.

    A proposal belongs to the seed it overlaps most: its class from IoU ≥ `foreground`, background below, and nothing at
    all where it does not touch it (`overlap.touches`).

    Where a person has given boxes of a class, their proposals are its seeds, with the weight of the class's top score;
    other classes have theirs elsewhere. `known` says so for each image.

    With tags on the CPU nothing here waits for the device.
    """
    scores = scores.detach()
    none = torch.zeros(bags.rows.shape, dtype=torch.long, device=scores.device)
    nothing = Targets(none, scores.new_zeros(none.shape), none, scores.new_zeros(none.shape))
    if not scores.shape[1]:
        return nothing
    tags, by_score = bags.tags, choice is None
    choice = (scores if choice is None else choice).masked_fill(~bags.counts[..., None], -torch.inf)
    anything_known = any(own is not None for own in known)
    if anything_known:
        tags = torch.stack([one if own is None else own.undecided for one, own in zip(tags, known, strict=True)])
        choice = torch.stack([_possible(one, own) for one, own in zip(choice, known, strict=True)])
    labels, seeds, there = _seeds(choice, tags)  # [N, T] each
    # A proposal that others speak for may score low itself: it then has the weight of its class's top score.
    if by_score:
        strength = _rows_of(scores, seeds).gather(2, labels[..., None] - 1).squeeze(2)
    else:
        strength = (scores.amax(dim=1) if sureness is None else sureness).gather(1, labels - 1)
    if anything_known:
        given = [_given(own, one) for own, one in zip(known, scores, strict=True)]
        labels, seeds, there, strength = (
            torch.cat([pad_sequence([*parts], batch_first=True), found], dim=1)
            for parts, found in zip(zip(*given, strict=True), (labels, seeds, there, strength), strict=True)
        )
    if not labels.shape[1]:
        return nothing
    near = pair_iou(bags.boxes, _rows_of(bags.boxes, seeds)).masked_fill(~there[:, None], -1)  # [N, B, T]
    overlap, nearest = near.max(dim=2)  # [N, B], [N, B]
    seeds, labels = seeds.gather(1, nearest), labels.gather(1, nearest)
    near_one = touches(bags.boxes, _rows_of(bags.boxes, seeds), overlap)
    weights = strength.gather(1, nearest) * ((overlap >= 0) & bags.counts)
    return Targets(labels * (overlap >= foreground), weights * near_one, seeds, weights * ~near_one)


def _rows_of(values: Tensor, indices: Tensor) -> Tensor:
    """[N, B, D] and [N, T] → [N, T, D]."""
    return values.gather(1, indices[..., None].expand(-1, -1, values.shape[2]))


def _possible(choice: Tensor, known: KnownSeeds | None) -> Tensor:
    """What to choose from in an image [B, C], less what is known to be something else; B may count copies."""
    if known is None:
        return choice
    forbidden = ~known.allowed[:, 1:]
    return choice.masked_fill(functional.pad(forbidden, (0, 0, 0, len(choice) - len(forbidden))), -torch.inf)


def _given(known: KnownSeeds | None, scores: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A person's seeds in an image with scores [B, C]: labels, proposals, that they are there, strength [S] each."""
    if known is None:
        none = torch.zeros(0, dtype=torch.long, device=scores.device)
        return none, none, none.bool(), scores.new_zeros(0)
    labels = known.labels
    return labels, known.proposals, torch.ones_like(labels, dtype=torch.bool), scores.amax(dim=0)[labels - 1]


def _seeds(choice: Tensor, tags: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A distinct proposal for each tagged class, as far as they go; −∞ is no choice.

    [N, B, C] and bool [N, C] on the CPU → labels 1…C, indices, whether there is one [N, T], T the most tags.
    """
    number = int(tags.sum(dim=1).max()) if choice.shape[1] else 0
    classes = (~tags).to(torch.int8).argsort(dim=1, stable=True)[:, :number]  # the tagged ones first
    tagged = tags.gather(1, classes).to(choice.device, non_blocking=True)
    classes = classes.to(choice.device, non_blocking=True)
    if not number:
        return classes, classes, tagged
    free = choice.gather(2, classes[:, None].expand(-1, choice.shape[1], -1))  # [N, B, T]
    free = free.masked_fill(~tagged[:, None], -torch.inf)
    by_score = free.amax(dim=1).argsort(dim=1, descending=True, stable=True)  # [N, T]
    classes, free = classes.gather(1, by_score), free.gather(2, by_score[:, None].expand_as(free))
    best, seeds = [], []
    for column in range(number):
        value, seed = free[:, :, column].max(dim=1)  # [N]
        best.append(value)
        seeds.append(seed)
        free = free.scatter(1, seed[:, None, None].expand(-1, 1, number), -torch.inf)
    return classes + 1, torch.stack(seeds, dim=1), torch.stack(best, dim=1) > -torch.inf


def refinement_loss(logits: Tensor, targets: Targets, tags: Tensor | None = None) -> Tensor:
    """Cross-entropy of the proposals, weighted by their seeds' scores: [..., B, C + 1] and Targets → [...].

    Divided by the sum of the weights. WSDDN's top scores are tiny at first, and a plain mean would learn nothing; so
    the scores say how much a seed counts beside the image's others, and every image counts the same. Objects have a
    quarter of the weight, or their natural share where that is more: beside hundreds of parts and surroundings the few
    proposals that match a seed would be called background like all the rest.

    Where `tags` [..., C] are given, what touches no seed counts beside the surroundings: it may hold an object that was
    missed, but none of a class that the image does not have.
    """
    chances = logits.float().log_softmax(dim=-1)
    losses = -chances.gather(-1, targets.labels[..., None]).squeeze(-1)  # [..., B]
    is_object, all_weights = targets.labels > 0, targets.weights
    if tags is not None and targets.apart is not None:
        possible = functional.pad(tags.to(logits.device, non_blocking=True), (1, 0), value=True)[..., None, :]
        none_other = -chances.masked_fill(~possible, -torch.inf).logsumexp(dim=-1)
        losses = torch.where(targets.apart > 0, none_other, losses)
        is_object, all_weights = is_object & (targets.apart == 0), all_weights + targets.apart
    objects, others = all_weights * is_object, all_weights * ~is_object
    tiny = torch.finfo(torch.float32).tiny
    total, some, rest = (part.sum(-1, keepdim=True).clamp(min=tiny) for part in (all_weights, objects, others))
    share = (some / total).clamp(min=OBJECTS)
    weights = share * objects / some + (1 - share) * others / rest
    return (weights * losses).sum(-1) / weights.sum(-1).clamp(min=tiny)


def regression_loss(offsets: Tensor, boxes: Tensor, targets: Targets, coding: Weights = PLAIN) -> Tensor:
    """Smooth L1 from the foreground's offsets to its seeds, weighted likewise: [N, B, C + 1, 4], [N, B, 4] → [N].

    `coding` is the box encoding's, the same as everywhere else in a run.
    """
    weights = targets.weights * (targets.labels > 0)  # [N, B]
    chosen = offsets.float().gather(2, targets.labels[..., None, None].expand(-1, -1, 1, 4)).squeeze(2)  # [N, B, 4]
    wanted = encode(_rows_of(boxes, targets.seeds).float(), boxes.float(), coding)
    losses = functional.smooth_l1_loss(chosen, wanted, reduction="none").sum(dim=-1)  # [N, B]
    return (weights * losses).sum(-1) / weights.sum(-1).clamp(min=torch.finfo(torch.float32).tiny)


class MilLosses(NamedTuple):
    """Of N images, each [N]; the engine weighs and adds them."""

    wsddn: Tensor
    refined: tuple[Tensor, ...]
    regression: Tensor | None


def mil_losses(
    outputs: MilOutputs,
    boxes: Sequence[Tensor],
    tags: Sequence[Tensor],
    coding: Weights = PLAIN,
    *,
    votes: bool = False,
    hints: Sequence[Hints | None] = (),
    known: Sequence[KnownSeeds | None] = (),
) -> MilLosses:
    """All losses of N images with proposals [B_i, 4] and tags bool[C]: each branch learns from the one before.

    outputs: of all their proposals, image after image. votes: seeds are what scores speak for together (`voting`), and
    the first branch's come from WSDDN's class scores: those over proposals are about single ones. hints: what speaks
    for each image's proposals from outside; seeds are those that most speaks for, and images count by how sure that
    is; what touches no seed is then learnt to be of no class but the tags. known: what a person has said of each image
    (`refinement_targets`).
    """
    bags = Bags.of(boxes, tags)
    outputs = outputs.arranged(bags.rows)
    scores = wsddn_scores(outputs.class_logits, outputs.proposal_logits, bags.counts)
    first, refined, regression = wsddn_loss(scores, bags.tags), [], None
    given = [own for own in hints if own is not None]
    sureness = torch.stack([own.sureness for own in given]) if given else None  # [N, C]
    choose = None
    if outputs.refined and (given or votes):
        choose = _by_hints(torch.cat([own.places for own in given])[bags.rows]) if given else _by_votes(bags)
    counts_for = _counts_for(sureness, bags.tags, known)  # [N] or 1
    scores = scores if choose is None else outputs.class_logits.float().softmax(dim=-1)
    for branch, logits in enumerate(outputs.refined):
        choice = None if choose is None else choose(scores.detach())
        targets = refinement_targets(scores, bags, choice=choice, sureness=sureness, known=known)
        refined.append(counts_for * refinement_loss(logits, targets, bags.tags if given else None))
        if outputs.offsets is not None and branch == len(outputs.refined) - 1:
            regression = counts_for * regression_loss(outputs.offsets, bags.boxes, targets, coding)
        scores = logits.float().softmax(dim=-1)[..., 1:]
    return MilLosses(first, tuple(refined), regression)


def _counts_for(sureness: Tensor | None, tags: Tensor, known: Sequence[KnownSeeds | None]) -> Tensor | float:
    """How much images count, the mean over their tags: [N, C], bool [N, C] → [N]; what a person says counts fully."""
    if sureness is None:
        return 1.0
    tagged = tags.to(sureness.device, non_blocking=True)
    mean = (sureness * tagged).sum(dim=1) / tagged.sum(dim=1).clamp(min=1)
    decided = torch.tensor([own is not None for own in known] or [False]).to(mean.device, non_blocking=True)
    return torch.where(decided, mean.clamp(min=1), mean)


Choose = Callable[[Tensor], Tensor]
"""From the scores of one branch [N, B, C] to what the next one's seeds are chosen by [N, B, C]."""


def _by_votes(bags: Bags) -> Choose:
    cover = coverage(bags.boxes) * bags.counts[..., None]
    return lambda scores: voted_overlaps(scores, cover)


def _by_hints(hints: Tensor) -> Choose:
    """By hints [N, B, C] whatever the scores: with their own in it, branches went for boxes that are too large."""
    return lambda scores: hints


def refined_scores(outputs: MilOutputs) -> Tensor:
    """The warm start's probabilities at test time, the mean of its refinement branches → [B, C + 1]."""
    return torch.stack([logits.float().softmax(dim=1) for logits in outputs.refined]).mean(dim=0)
