"""Learning the tags, before the warm start: which classes does the picture show, as a whole?

WSDDN has to find out at once what the classes look like and where they are. Where the layers after the trunk start at
random, the first is learnt here, on the whole picture and large crops of it, each pooled as a proposal is. The layers
stay as they are learnt, and the linear layer is WSDDN's own over classes.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from tag2box.engine.views import View, padded
from tag2box.nets.mil import MilNet

CROPS, LEAST_AREA, MOST_ODD = 3, 0.3, 4 / 3
"""Crops of a picture beside the whole; the least share of its area; by how much a side's share may exceed the other's.
"""


def regions(size: tuple[int, int], generator: torch.Generator) -> Tensor:
    """The whole of a view of that width and height, then random crops → boxes in its pixels [1 + CROPS, 4]."""
    area, odd, left, top = torch.rand(4, CROPS, generator=generator)
    area = LEAST_AREA + (1 - LEAST_AREA) * area
    width = (area * MOST_ODD ** (2 * odd - 1)).sqrt().maximum(area).clamp(max=1)  # no side longer than the picture's
    height = (area / width).clamp(max=1)
    left, top = left * (1 - width), top * (1 - height)
    shares = torch.stack([left, top, left + width, top + height], dim=1)  # [CROPS, 4]
    return torch.cat([torch.tensor([[0.0, 0, 1, 1]]), shares]) * torch.tensor([*size, *size])


def tags_loss(logits: Tensor, tags: Tensor) -> Tensor:
    """Cross-entropy between tags and the regions' log-mean-exp, summed over classes: [R, C], bool [C] → [].

    A crop may miss the object that a tag speaks of, so no crop has to show every tag. The log-mean-exp lies between
    the regions' mean and their maximum: one region that shows a tag is enough, those that show it best learn most, and
    yet, unlike under the maximum, all of them learn. What is not tagged is in no crop: there the surest is pushed
    down most. The sum is as in WSDDN's loss, so that like rates have like effects.
    """
    whole = logits.float().logsumexp(dim=0) - math.log(len(logits))  # [C]
    wanted = tags.to(logits.device, non_blocking=True).float()
    return functional.binary_cross_entropy_with_logits(whole, wanted, reduction="sum")


class TagStep(nn.Module):
    """The warm start's trunk, head and layer over classes, on the tags. What does not learn here is no part of it."""

    def __init__(self, net: MilNet) -> None:
        super().__init__()
        self.trunk, self.head, self.classification = net.trunk, net.head, net.mil.classification

    def forward(self, views: Sequence[View], boxes: Sequence[Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """The mean loss of the views, of which pixels are needed; `boxes` are the `regions` of each [R, 4]."""
        images = padded([view.pixels for view in views if view.pixels is not None])
        vectors = self.head(self.head.pool(self.trunk.features(images), boxes))  # [ΣR, dim]
        logits = self.classification(vectors).split([len(one) for one in boxes])
        losses = [tags_loss(one, view.tags) for one, view in zip(logits, views, strict=True)]
        loss = torch.stack(losses).mean()
        return loss, {"loss_tags": loss}
