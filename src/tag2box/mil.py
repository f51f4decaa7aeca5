"""The warm start: WSDDN and refinement branches after OICR (METHOD §7; the paper does not say where its nets start).

WSDDN scores proposals by two softmaxes, over classes and over proposals, and learns from the tags alone. Each
refinement branch then learns C + 1 labels from the top-scoring boxes of the one before. The functions are about one
image: its B proposals and its tags.
"""

from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.ops import box_iou

from tag2box.disco.offsets import PLAIN, Weights, encode
from tag2box.nets.backbone import Trunk
from tag2box.nets.conditional import ConditionalNet
from tag2box.nets.prediction import BoxPredictor, PredictionNet
from tag2box.nets.roi_head import RoIHead
from tag2box.overlap import touches

MARGIN = 1e-6
"""Image-level scores keep this far from 0 and 1, where the cross-entropy is infinite."""
OBJECTS = 0.25
"""The least share of a refinement loss that objects have, as in a mini-batch of Fast R-CNN."""
APART = 0.2
"""A further seed of a class overlaps none of its better proposals by this IoU."""


class MilOutputs(NamedTuple):
    """What the heads say of B proposals."""

    class_logits: Tensor
    """[B, C]: which class is this proposal?"""
    proposal_logits: Tensor
    """[B, C]: which proposal is this class?"""
    refined: tuple[Tensor, ...]
    """Logits of each refinement branch [B, C + 1]; column 0 is the background."""
    offsets: Tensor | None
    """For each label [B, C + 1, 4], where there is a regression branch."""

    def split(self, counts: Sequence[int]) -> list["MilOutputs"]:
        """The proposals of several images, image by image: `counts` says how many each has."""
        edges = [sum(counts[:i]) for i in range(len(counts) + 1)]
        return [self._rows(slice(*edge)) for edge in pairwise(edges)]

    def _rows(self, rows: slice) -> "MilOutputs":
        refined = tuple(logits[rows] for logits in self.refined)
        offsets = None if self.offsets is None else self.offsets[rows]
        return MilOutputs(self.class_logits[rows], self.proposal_logits[rows], refined, offsets)


class Targets(NamedTuple):
    """What a refinement branch learns of B proposals."""

    labels: Tensor
    """0 is the background, c + 1 class c [B]."""
    weights: Tensor
    """The score of the seed that a proposal belongs to; 0: left out [B]."""
    seeds: Tensor
    """Index of that seed among the proposals, the target of its regression [B]."""


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


def wsddn_scores(class_logits: Tensor, proposal_logits: Tensor) -> Tensor:
    """Softmax over classes times softmax over proposals: [B, C], [B, C] → [B, C]. A column sums to at most 1."""
    return class_logits.float().softmax(dim=1) * proposal_logits.float().softmax(dim=0)


def wsddn_loss(scores: Tensor, tags: Tensor) -> Tensor:
    """Cross-entropy between image-level scores, the columns' sums, and tags, summed over classes: [B, C], bool[C] → [].

    The sums are squeezed into (0, 1), not clamped: a clamp would stop the gradient just where it is most needed.
    """
    image = MARGIN + (1 - 2 * MARGIN) * scores.sum(dim=0).clamp(0, 1)  # [C]; rounding can lift a sum over 1
    return -torch.where(tags.to(scores.device, non_blocking=True), image, 1 - image).log().sum()


def refinement_targets(
    scores: Tensor,
    boxes: Tensor,
    tags: Tensor,
    *,
    foreground: float = 0.5,
    share: float = 0.0,
    known: KnownSeeds | None = None,
    overlaps: Tensor | None = None,
) -> Targets:
    """What the scores of one branch teach the next: [B, C], [B, 4], bool[C] → Targets.

    The top-scoring proposal of each tagged class is its seed; no two classes share one, the surer class comes first.
    With a `share` above 0 there are further ones: see `_further_seeds`.

    A proposal belongs to the seed it overlaps most: its class from IoU ≥ `foreground`, background below, and nothing at
    all where it does not touch it (`overlap.touches`).

    Where a person has given boxes of a class, their proposals are its seeds, with the weight of the class's top score;
    other classes have theirs elsewhere.

    `overlaps` [B, B] is `box_iou(boxes, boxes)`, where it has been computed already. With tags on the CPU nothing here
    waits for the device.
    """
    scores = scores.detach()
    choice = scores if known is None else scores.masked_fill(~known.allowed[:, 1:], -1)
    labels, seeds = _seeds(choice, tags if known is None else known.undecided)  # [T], [T]
    if overlaps is None and share:
        overlaps = box_iou(boxes, boxes)
    near = box_iou(boxes, boxes[seeds]) if overlaps is None else overlaps[:, seeds]  # [B, T]
    if overlaps is not None and share and len(seeds):
        more, candidates, further = _further_seeds(choice, overlaps, labels, seeds, share)  # [T K] each
        labels, seeds = torch.cat([labels, more]), torch.cat([seeds, candidates])
        near = torch.cat([near, overlaps[:, candidates].where(further, -1)], dim=1)  # [B, T + T K]
    strength = scores[seeds, labels - 1]
    if known is not None:
        strength = torch.cat([scores.amax(dim=0)[known.labels - 1], strength])
        near = torch.cat([box_iou(boxes, boxes[known.proposals]), near], dim=1)
        labels, seeds = torch.cat([known.labels, labels]), torch.cat([known.proposals, seeds])
    if not len(seeds):
        none = torch.zeros(len(boxes), dtype=torch.long, device=boxes.device)
        return Targets(none, scores.new_zeros(len(boxes)), none)
    overlap, nearest = near.max(dim=1)  # [B], [B]
    weights = strength[nearest] * touches(boxes, boxes[seeds[nearest]], overlap)
    return Targets(labels[nearest] * (overlap >= foreground), weights, seeds[nearest])


def _seeds(scores: Tensor, tags: Tensor) -> tuple[Tensor, Tensor]:
    """A distinct proposal for each tagged class, as far as they go: [B, C], bool[C] → labels 1…C and indices [T]."""
    classes = tags.nonzero().flatten().to(scores.device, non_blocking=True)  # [T]
    if not len(scores) or not len(classes):
        return classes[:0], classes[:0]
    by_score = scores[:, classes].amax(dim=0).argsort(descending=True, stable=True)
    classes = classes[by_score][: len(scores)]
    free = scores[:, classes].clone()  # [B, T]
    seeds = []
    for column in range(len(classes)):
        seeds.append(free[:, column].argmax(dim=0, keepdim=True))  # [1]
        free.index_fill_(0, seeds[-1], -torch.inf)
    return classes + 1, torch.cat(seeds)


def _further_seeds(
    scores: Tensor, overlaps: Tensor, labels: Tensor, seeds: Tensor, share: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Seeds beside the first of each class, where a picture shows several of it, after MIST (Ren et al. 2020).

    Candidates are the top `share` of a class's proposals, K of them and at least one. A seed is one that overlaps no
    better candidate by `APART` or more, be that one a seed or not, as in MIST's published code: it needs no loop.
    Beyond MIST, what another tagged class scores higher, or has as its first seed, is left to that class; scores below
    0 rule a proposal out.

    scores [B, C], the proposals' overlaps [B, B], labels 1…C and first seeds [T] → labels and indices of candidates,
    whether they are seeds [T K].
    """
    own = scores[:, labels - 1]  # [B, T]
    ranked = own.topk(max(1, int(share * len(scores))), dim=0).indices.T  # [T, K], the best first
    overlap = overlaps[ranked[:, :, None], ranked[:, None]]  # [T, K, K]
    apart = overlap.tril(-1).amax(dim=2) < APART  # [T, K]
    likeliest = own.argmax(dim=1)[ranked] == torch.arange(len(labels), device=labels.device)[:, None]
    taken = torch.zeros(len(scores), dtype=torch.bool, device=scores.device).index_fill(0, seeds, True)
    further = apart & likeliest & ~taken[ranked] & (own.T.gather(1, ranked) >= 0)
    return labels[:, None].expand_as(ranked).flatten(), ranked.flatten(), further.flatten()


def refinement_loss(logits: Tensor, targets: Targets) -> Tensor:
    """Cross-entropy of the proposals, weighted by their seeds' scores: [B, C + 1] and Targets → [].

    Divided by the sum of the weights. WSDDN's top scores are tiny at first, and a plain mean would learn nothing; so
    the scores say how much a seed counts beside the image's others, and every image counts the same. Objects have a
    quarter of the weight, or their natural share where that is more: beside hundreds of parts and surroundings the few
    proposals that match a seed would be called background like all the rest.
    """
    losses = functional.cross_entropy(logits.float(), targets.labels, reduction="none")  # [B]
    is_object = targets.labels > 0
    objects, others = targets.weights * is_object, targets.weights * ~is_object
    tiny = torch.finfo(torch.float32).tiny
    total, some, rest = (part.sum().clamp(min=tiny) for part in (targets.weights, objects, others))
    share = (some / total).clamp(min=OBJECTS)
    weights = share * objects / some + (1 - share) * others / rest
    return (weights * losses).sum() / weights.sum().clamp(min=tiny)


def regression_loss(offsets: Tensor, boxes: Tensor, targets: Targets, coding: Weights = PLAIN) -> Tensor:
    """Smooth L1 from the foreground's offsets to its seeds, weighted likewise: [B, C + 1, 4], [B, 4], Targets → [].

    `coding` is the box encoding's, the same as everywhere else in a run.
    """
    weights = targets.weights * (targets.labels > 0)  # [B]
    chosen = offsets.float()[torch.arange(len(boxes), device=boxes.device), targets.labels]  # [B, 4]
    wanted = encode(boxes[targets.seeds].float(), boxes.float(), coding)
    losses = functional.smooth_l1_loss(chosen, wanted, reduction="none").sum(dim=1)  # [B]
    return (weights * losses).sum() / weights.sum().clamp(min=torch.finfo(torch.float32).tiny)


class MilLosses(NamedTuple):
    """Of one image, each []; the engine weighs and adds them."""

    wsddn: Tensor
    refined: tuple[Tensor, ...]
    regression: Tensor | None


def mil_losses(
    outputs: MilOutputs,
    boxes: Tensor,
    tags: Tensor,
    coding: Weights = PLAIN,
    *,
    share: float = 0.0,
    known: KnownSeeds | None = None,
) -> MilLosses:
    """All losses of an image with proposals [B, 4] and tags bool[C]: each branch learns from the one before.

    share: of a class's proposals, those that can be seeds; known: what a person has said (`refinement_targets`).
    """
    scores = wsddn_scores(outputs.class_logits, outputs.proposal_logits)
    first, refined, regression = wsddn_loss(scores, tags), [], None
    overlaps = box_iou(boxes, boxes) if share and outputs.refined else None
    for branch, logits in enumerate(outputs.refined):
        targets = refinement_targets(scores, boxes, tags, share=share, known=known, overlaps=overlaps)
        refined.append(refinement_loss(logits, targets))
        if outputs.offsets is not None and branch == len(outputs.refined) - 1:
            regression = regression_loss(outputs.offsets, boxes, targets, coding)
        scores = logits.float().softmax(dim=1)[:, 1:]
    return MilLosses(first, tuple(refined), regression)


def refined_scores(outputs: MilOutputs) -> Tensor:
    """The warm start's probabilities at test time, the mean of its refinement branches → [B, C + 1]."""
    return torch.stack([logits.float().softmax(dim=1) for logits in outputs.refined]).mean(dim=0)


class MilHead(nn.Module):
    """Linear layers on a proposal's vector: WSDDN's two, the refinement branches, and box regression if wanted."""

    def __init__(self, *, dim: int, classes: int, branches: int = 3, regression: bool = False) -> None:
        super().__init__()
        self.classification = nn.Linear(dim, classes)
        self.detection = nn.Linear(dim, classes)
        self.refinements = nn.ModuleList(nn.Linear(dim, classes + 1) for _ in range(branches))
        self.regression = nn.Linear(dim, 4 * (classes + 1)) if regression else None
        for name, parameter in self.named_parameters():
            spread = 0.001 if name.startswith("regression") else 0.01  # Fast R-CNN's
            nn.init.normal_(parameter, std=spread) if parameter.dim() > 1 else nn.init.zeros_(parameter)

    def forward(self, vectors: Tensor) -> MilOutputs:
        """[B, dim] → MilOutputs."""
        offsets = None if self.regression is None else self.regression(vectors).unflatten(1, (-1, 4))
        refined = tuple(branch(vectors) for branch in self.refinements)
        return MilOutputs(self.classification(vectors), self.detection(vectors), refined, offsets)


class MilNet(nn.Module):
    """Trunk and RoI head, as in the two nets, and the heads of the warm start."""

    def __init__(
        self, *, trunk: Trunk, head: RoIHead, classes: int, branches: int = 3, regression: bool = False
    ) -> None:
        super().__init__()
        self.trunk, self.head, self.classes = trunk, head, classes
        self.mil = MilHead(dim=head.dim, classes=classes, branches=branches, regression=regression)

    def forward(self, images: Tensor, boxes: Sequence[Tensor]) -> MilOutputs:
        """images: [N, 3, H, W], RGB in 0–255; boxes: N times [B_i, 4] → MilOutputs over ΣB_i: `split` them by image."""
        return self.from_features(self.trunk.features(images), boxes)

    def from_features(self, features: Tensor, boxes: Sequence[Tensor]) -> MilOutputs:
        """The same from the trunk's maps [N, C', h, w]."""
        return self.from_pooled(self.head.pool(features, boxes))

    def from_pooled(self, pooled: Tensor) -> MilOutputs:
        """The same from pooled features [ΣB_i, C', size, size]."""
        outputs: MilOutputs = self.mil(self.head(pooled))
        return outputs


def prediction_from_mil(warm: MilNet) -> PredictionNet:
    """A prediction net that starts as the warm start's last branch, with copies of its head and trunk."""
    net = PredictionNet(trunk=deepcopy(warm.trunk), head=deepcopy(warm.head), classes=warm.classes)
    _take_last_branch(net.predictor, warm.mil)
    return net


def conditional_from_mil(warm: MilNet, *, noise_spread: float = 0.1) -> ConditionalNet:
    """A conditional net that starts the same way: with zero noise it gives what the prediction net gives."""
    trunk, head = deepcopy(warm.trunk), deepcopy(warm.head)
    net = ConditionalNet(trunk=trunk, head=head, classes=warm.classes, noise_spread=noise_spread)
    _take_last_branch(net.predictor, warm.mil)
    return net


def _take_last_branch(predictor: BoxPredictor, mil: MilHead) -> None:
    """Without a regression branch the offsets start at 0, so that both nets begin with the proposals as they are."""
    predictor.scores.load_state_dict(mil.refinements[-1].state_dict())
    with torch.no_grad():
        if mil.regression is None:
            nn.init.zeros_(predictor.offsets.weight)
        else:
            predictor.offsets.load_state_dict(mil.regression.state_dict())
