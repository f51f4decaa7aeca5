"""The warm start's net (METHOD §7): trunk and RoI head as in the two nets, WSDDN's layers and refinement branches."""

from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tag2box.nets.backbone import Trunk
from tag2box.nets.conditional import ConditionalNet
from tag2box.nets.prediction import BoxPredictor, PredictionNet
from tag2box.nets.roi_head import RoIHead


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

    def arranged(self, rows: Tensor) -> "MilOutputs":
        """With proposals picked and arranged by their numbers [N, B]: every field is then [N, B, …]."""
        return self._rows(rows)

    def _rows(self, rows: slice | Tensor) -> "MilOutputs":
        refined = tuple(logits[rows] for logits in self.refined)
        offsets = None if self.offsets is None else self.offsets[rows]
        return MilOutputs(self.class_logits[rows], self.proposal_logits[rows], refined, offsets)


class MilHead(nn.Module):
    """Linear layers on a proposal's vector: WSDDN's two, the refinement branches, and box regression if wanted.

    aside: what WSDDN learns does not reach the vectors.
    """

    def __init__(
        self, *, dim: int, classes: int, branches: int = 3, regression: bool = False, aside: bool = False
    ) -> None:
        super().__init__()
        self.aside = aside
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
        seen = vectors.detach() if self.aside else vectors
        return MilOutputs(self.classification(seen), self.detection(seen), refined, offsets)


class MilNet(nn.Module):
    """Trunk and RoI head, as in the two nets, and the heads of the warm start."""

    def __init__(
        self,
        *,
        trunk: Trunk,
        head: RoIHead,
        classes: int,
        branches: int = 3,
        regression: bool = False,
        aside: bool = False,
    ) -> None:
        super().__init__()
        self.trunk, self.head, self.classes = trunk, head, classes
        self.mil = MilHead(dim=head.dim, classes=classes, branches=branches, regression=regression, aside=aside)

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
