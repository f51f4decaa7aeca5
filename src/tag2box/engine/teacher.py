"""Another net, trained to its end elsewhere, looks at each region, cut out of its picture. What it sees is used twice.

VGG16's fully connected layers are nine tenths of what it learnt on ImageNet, and often only its convolutions are at
hand. A net that has all its layers can stand in: it looks at proposals one by one, cut out and enlarged, and the layers
that start at random learn to make the same of the proposal's part of the map (lessons). That takes neither boxes nor
tags. And since the teacher sees nothing beside the region, they learn to speak of the region alone, where the map's
cells also see what surrounds it. What it sees also says where things are (`engine.hints`).

Looking costs far more than all that follows, so every region is looked at once, and what is seen is kept.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from tag2box.engine.loader import free_bytes
from tag2box.engine.plan import generator_for
from tag2box.engine.tags import regions
from tag2box.engine.views import Album, View, padded
from tag2box.errors import InputError
from tag2box.inference import resized
from tag2box.nets.architectures import parts_of
from tag2box.nets.mil import MilNet
from tag2box.nets.region_eye import RegionEye, coarse_blocks, maps_at, whole_net
from tag2box.nets.roi_head import CutHead
from tag2box.nets.weights import fill, read_weights
from tag2box.progress import progress

MAP_SIDE = 384
"""Short side in pixels at which the teacher sees a whole picture as a map."""
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
            raise InputError(f"teacher.name: expected resnet…, mobilenet… or efficientnet_lite…, found {name}")
        values = read_weights(name, weights, "teacher")
        self.eye = RegionEye(whole_net(name, values), size)
        self.levels = coarse_blocks(self.eye.net)
        fill(parts.classifier, values, parts.classifier_prefix)
        self.classifier, self.dim = parts.classifier.eval().requires_grad_(False), self.eye.channels
        self.classes = [one.out_features for one in parts.classifier.modules() if isinstance(one, nn.Linear)][-1]
        self.register_buffer("mean", torch.tensor(parts.mean).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(parts.std).view(3, 1, 1))

    @torch.no_grad()
    def forward(self, image: Tensor, boxes: Tensor) -> Tensor:
        """What it makes of regions: a picture [3, H, W] in 0–255 and [R, 4] in its pixels → vectors [R, dim]."""
        seen: Tensor = self.eye((image.float()[None] - self.mean) / self.std, [boxes])
        return seen.mean((2, 3))

    @torch.no_grad()
    def maps(self, image: Tensor) -> list[Tensor]:
        """Of a whole picture [3, H, W] in 0–255: see `maps_at`."""
        shown, _, _ = resized(image, MAP_SIDE, 2 * MAP_SIDE)
        return maps_at(self.eye.net, self.levels, (shown[None] - self.mean) / self.std)

    @torch.no_grad()
    def logits(self, vectors: Tensor) -> Tensor:
        """Which of its own classes regions are: their vectors [R, dim] → [R, classes]."""
        logits: Tensor = self.classifier(vectors)
        return logits.float()


class Looks(NamedTuple):
    """What the teacher saw of N pictures, in half precision: on the album's device or, where it is short, the CPU."""

    proposals: list[Tensor]
    """Of each picture's first proposals, in their order [R_i, dim]."""
    wholes: Tensor
    """Of the whole picture and large crops of it [N, V, dim]."""
    maps: list[list[Tensor]]
    """Of the whole picture on the CPU, the finer first [D, h, w] each (`maps_at`); none where nobody asks."""


def look(
    teacher: TeacherNet,
    album: Album,
    most: int,
    seed: int,
    autocast: Callable[[], AbstractContextManager[Any]],
    *,
    mapped: bool = False,
) -> Looks:
    """The teacher looks at every picture: at its first `most` proposals, and at the whole and large crops.

    mapped: at the whole as a map, too. autocast: under which it does so, as `Fabric.autocast`. What it sees stays on a
    GPU where it fits in a quarter of what is free there: fetched picture by picture, the GPU waited as long for the
    host as it worked.
    """
    proposals, wholes, maps = list[Tensor](), list[Tensor](), list[list[Tensor]]()
    most = min(most, album.data.max_proposals)
    stays = 4 * (2 * teacher.dim * most * len(album)) <= free_bytes(album.device)  # two bytes a number
    with progress("the teacher looks", len(album), unit="images") as count_one:
        for index in range(len(album)):
            boxes, size = album.proposals(index)[:most], album.dataset[index].size
            generator = generator_for(seed, -4, index)
            large = torch.cat([regions(size, generator), regions(size, generator)[1:]])
            cut = torch.cat([large.to(boxes, non_blocking=True), boxes])
            number = len(cut) if album.device.type != "cuda" else holding(len(cut), len(large) + most)
            filled = torch.cat([cut, cut[:1].expand(number - len(cut), -1)])
            with autocast():
                seen = teacher(album.picture(index), filled)[: len(cut)].half()
                maps.append(teacher.maps(album.picture(index)) if mapped else [])
            seen = seen if stays else seen.cpu().pin_memory()
            wholes.append(seen[: len(large)].clone())
            proposals.append(seen[len(large) :])
            count_one()
    return Looks(proposals, torch.stack(wholes), maps)


@torch.no_grad()
def look_of_nets(net: MilNet, album: Album, most: int, seed: int, scale: int, *, mapped: bool = False) -> Looks:
    """The same by the nets' own (`CutHead`), before it has learnt: what it sees of proposals is kept in the album."""
    head = net.eval().head
    assert isinstance(head, CutHead)
    net_of_wholes = nn.Sequential(*head.eye.net, *cast("nn.Sequential", head.layers))
    places = coarse_blocks(net_of_wholes)
    proposals, wholes, maps = list[Tensor](), list[Tensor](), list[list[Tensor]]()
    most = min(most, album.data.max_proposals)
    with progress("looking at regions", len(album), unit="images") as count_one:
        for index in range(len(album)):
            kept, whole = album.view(index, scale), album.view(index, scale, fresh=True)
            assert kept.pooled is not None
            assert whole.pixels is not None
            generator = generator_for(seed, -4, index)
            large = torch.cat([regions(kept.size, generator), regions(kept.size, generator)[1:]]).to(kept.boxes)
            picture = net.trunk.features(whole.pixels[None])
            wholes.append(head(head.pool(picture, [large])).half())
            proposals.append(head(kept.pooled[:most].float()).half())
            maps.append(maps_at(net_of_wholes, places, picture) if mapped else [])
            count_one()
    return Looks(proposals, torch.stack(wholes), maps)


def holding(number: int, full: int) -> int:
    """The least of `full`, its half, its quarter and so on that is `number` or more.

    Every new number of regions makes cuDNN think for two seconds, and pictures with few proposals have one each.

    >>> [holding(number, 407) for number in (407, 300, 203, 12, 0)]
    [407, 407, 203, 12, 0]
    """
    while number <= full // 2 and full:
        full //= 2
    return full


def lesson_loss(logits: Tensor, taught: Tensor) -> Tensor:
    """KL divergence from the teacher's distribution to ours, both softened: [R, D], [R, D] → [] (Hinton et al. 2015).

    The factor keeps gradients as large as they would be without softening.
    """
    ours, wanted = (logits.float() / SOFTNESS).log_softmax(-1), (taught / SOFTNESS).log_softmax(-1)
    return SOFTNESS**2 * functional.kl_div(ours, wanted, reduction="sum", log_target=True) / max(len(ours), 1)


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
