"""Lessons from another net, before the warm start: what would it make of each region, cut out of the picture?

VGG16's fully connected layers are nine tenths of what it learnt on ImageNet, and often only its convolutions are at
hand. A net that was trained to its end elsewhere can stand in: it looks at proposals one by one, cut out and enlarged,
and the layers that start at random learn to make the same of the proposal's part of the map. That takes neither boxes
nor tags. And since the teacher sees nothing beside the region, they learn to speak of the region alone, where the
map's cells also see what surrounds it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.ops import roi_align

from tag2box.engine.views import View, padded
from tag2box.errors import InputError
from tag2box.mil import MilNet
from tag2box.nets.architectures import parts_of
from tag2box.nets.layout import as_the_device_likes
from tag2box.nets.weights import fill, read_weights

SOFTNESS = 2.0
"""What logits are divided by: of classes that the teacher finds unlikely it still says which are the less so."""


class TeacherNet(nn.Module):
    """A whole net, fixed, on regions cut out of pictures."""

    mean: Tensor
    std: Tensor

    def __init__(self, name: str, weights: str, size: int) -> None:
        super().__init__()
        parts = parts_of(name)
        if parts.top is None or parts.classifier is None:
            raise InputError(f"teacher.name: expected resnet…, mobilenet… or efficientnet_lite4, found {name}")
        values = read_weights(name, weights, "teacher")
        fill(parts.body, values, parts.prefix)
        fill(parts.top, values, parts.prefix)
        fill(parts.classifier, values, parts.classifier_prefix)
        self.body, self.top, self.classifier, self.size = parts.body, parts.top, parts.classifier, size
        self.classes = [one.out_features for one in parts.classifier.modules() if isinstance(one, nn.Linear)][-1]
        self.register_buffer("mean", torch.tensor(parts.mean).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(parts.std).view(3, 1, 1))
        self.eval().requires_grad_(False)

    @torch.no_grad()
    def forward(self, images: Tensor, boxes: Sequence[Tensor]) -> Tensor:
        """Logits of regions: pictures [N, 3, H, W] in 0–255, N times [R_i, 4] in their pixels → [ΣR_i, classes]."""
        crops = roi_align(images.float(), [one.float() for one in boxes], self.size, sampling_ratio=2, aligned=True)
        maps = self.top(self.body(as_the_device_likes((crops - self.mean) / self.std)))
        logits: Tensor = self.classifier(maps.mean((2, 3)))
        return logits.float()


def lesson_loss(logits: Tensor, taught: Tensor) -> Tensor:
    """KL divergence from the teacher's distribution to ours, both softened: [R, D], [R, D] → [] (Hinton et al. 2015).

    The factor keeps gradients as large as they would be without softening.
    """
    ours, wanted = (logits.float() / SOFTNESS).log_softmax(-1), (taught / SOFTNESS).log_softmax(-1)
    return SOFTNESS**2 * functional.kl_div(ours, wanted, reduction="batchmean", log_target=True)


def taught_regions(view: View, number: int, generator: torch.Generator) -> Tensor:
    """The whole of a view, then proposals at random, `number` in all where it has as many → boxes in its pixels [R, 4].

    All of them are within the view, which on a GPU is followed by padding.
    """
    drawn = torch.randperm(len(view.boxes), generator=generator)[: number - 1]
    whole = torch.tensor([[0.0, 0, *view.size]])
    chosen = view.boxes[drawn.to(view.boxes.device, non_blocking=True)]
    return torch.cat([whole.to(view.boxes.device, non_blocking=True), chosen])


class TeacherStep(nn.Module):
    """The warm start's trunk and head learn what the teacher makes of regions."""

    def __init__(self, net: MilNet, lesson: nn.Linear) -> None:
        """lesson: from a proposal's vector to the teacher's classes; thrown away afterwards."""
        super().__init__()
        self.trunk, self.head, self.lesson = net.trunk, net.head, lesson

    def forward(
        self, views: Sequence[View], boxes: Sequence[Tensor], taught: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The mean loss of regions, for each view [R_i, 4] in its pixels; `taught`: the teacher's logits [ΣR_i, D]."""
        images = padded([view.pixels for view in views if view.pixels is not None])
        vectors = self.head(self.head.pool(self.trunk.features(images), boxes))  # [ΣR, dim]
        loss = lesson_loss(self.lesson(vectors), taught)
        return loss, {"loss_teacher": loss}
