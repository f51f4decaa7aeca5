"""The prediction net, Pr_p(y|x): Fast R-CNN. It does not know the tags; it is the detector that ships."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor, nn

from tag2box.nets.backbone import Trunk
from tag2box.nets.proposer import Proposer
from tag2box.nets.roi_head import RoIHead


class Outputs(NamedTuple):
    """What a net says of each proposal; of the conditional net with the samples in front, [K, B, …]."""

    scores: Tensor
    """Logits [B, C + 1]; column 0 is the background, column c + 1 class c."""
    offsets: Tensor
    """Fast R-CNN's box encoding for each label [B, C + 1, 4]: see `tag2box.disco.offsets`. Row 0 is never used."""


class BoxPredictor(nn.Module):
    """The two linear layers at the end: C + 1 class scores and class-specific box regression."""

    def __init__(self, *, dim: int, classes: int) -> None:
        super().__init__()
        self.scores = nn.Linear(dim, classes + 1)
        self.offsets = nn.Linear(dim, 4 * (classes + 1))
        for layer, spread in ((self.scores, 0.01), (self.offsets, 0.001)):  # Fast R-CNN's
            nn.init.normal_(layer.weight, std=spread)
            nn.init.zeros_(layer.bias)

    def forward(self, vectors: Tensor) -> Outputs:
        """[..., dim] → scores [..., C + 1] and offsets [..., C + 1, 4]."""
        return Outputs(self.scores(vectors), self.offsets(vectors).unflatten(-1, (-1, 4)))


class PredictionNet(nn.Module):
    """Trunk, RoI head and predictor. Its distribution factorises: a softmax over C + 1 labels for each proposal."""

    def __init__(self, *, trunk: Trunk, head: RoIHead, classes: int) -> None:
        super().__init__()
        self.trunk, self.head, self.classes = trunk, head, classes
        self.predictor = BoxPredictor(dim=head.dim, classes=classes)
        self.proposer: Proposer | None = None
        """Where objects could be, where it has learnt that as well (`tag2box rpn`)."""

    def forward(self, images: Tensor, boxes: Sequence[Tensor]) -> Outputs:
        """Pr_p(y|x) as logits, with boxes (the first factor of eq. 13's diversities).

        images: [N, 3, H, W], RGB in 0–255; boxes: N times [B_i, 4] in pixels → Outputs over ΣB_i proposals, image
        after image.
        """
        return self.from_features(self.trunk.features(images), boxes)

    def from_features(self, features: Tensor, boxes: Sequence[Tensor]) -> Outputs:
        """The same from the trunk's maps [N, C', h, w]."""
        return self.from_pooled(self.head.pool(features, boxes))

    def from_pooled(self, pooled: Tensor) -> Outputs:
        """The same from pooled features [ΣB_i, C', size, size]."""
        outputs: Outputs = self.predictor(self.head(pooled))
        return outputs
