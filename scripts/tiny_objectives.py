"""What the trunk is pretrained to do: say what is in a picture, or what is in a region of one."""

from abc import ABC, abstractmethod

import torch
from tiny_scenes import Composer, Scenes
from torch import Tensor, nn
from torch.nn import functional
from torchvision.ops import roi_align

from tag2box.nets.architectures import IMAGENET_MEAN, IMAGENET_STD
from tag2box.nets.tiny import CHANNELS, STRIDE, tiny_body

CELLS = 4  # the demo's RoI head pools to 4×4
SMOOTHING = 0.1


class Objective(nn.Module, ABC):
    """The trunk with a head that is thrown away afterwards."""

    mean: Tensor
    std: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.none = classes
        self.body = tiny_body(batch_norm=True)
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(IMAGENET_STD).view(3, 1, 1))

    def features(self, images: Tensor) -> Tensor:
        """[N, 3, S, S] in 0–255 → [N, 128, S/8, S/8]."""
        normal = ((images - self.mean) / self.std).to(memory_format=torch.channels_last)
        features: Tensor = self.body(normal)
        return features

    @abstractmethod
    def compose(self, composer: Composer, count: int, kind: str = "train") -> Scenes:
        """A batch as this objective wants it."""

    @abstractmethod
    def loss(self, scenes: Scenes, composer: Composer) -> Tensor:
        """[]"""

    @abstractmethod
    def hits(self, scenes: Scenes) -> Tensor:
        """Which of the things are told right, bool [M]."""


def _mlp(classes: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(CHANNELS * CELLS * CELLS, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, classes)
    )


class Pictures(Objective):
    """Classification of pictures that hold one labelled thing; no boxes."""

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        self.flat, self.spatial = nn.Linear(CHANNELS, classes), _mlp(classes)

    def compose(self, composer: Composer, count: int, kind: str = "train") -> Scenes:
        """One thing, from a quarter of the picture to all of it."""
        return composer.compose(count, 128, things=1, sizes=(32, 130), kind=kind)

    def _logits(self, scenes: Scenes) -> tuple[Tensor, Tensor]:
        features = self.features(scenes.images)
        return self.flat(features.mean((2, 3))), self.spatial(functional.adaptive_avg_pool2d(features, CELLS))

    def loss(self, scenes: Scenes, composer: Composer) -> Tensor:
        """Of both heads: the average says what is there, the cells also how it is put together."""
        losses = [
            functional.cross_entropy(logits.float(), scenes.labels[:, 0], label_smoothing=SMOOTHING)
            for logits in self._logits(scenes)
        ]
        return losses[0] + losses[1]

    def hits(self, scenes: Scenes) -> Tensor:
        """By the sum of both heads."""
        seen = scenes.labels[:, 0] >= 0
        flat, spatial = self._logits(scenes)
        return ((flat + spatial).argmax(1) == scenes.labels[:, 0])[seen]


class Regions(Objective):
    """Classification of regions: boxes of the drawn categories, jittered, against parts of things and ground."""

    THINGS, CLOSE, PARTS, AROUND, ANYWHERE = 3, 3, 4, 2, 8

    def __init__(self, classes: int) -> None:
        super().__init__(classes)
        self.head = _mlp(classes + 1)  # the last one: none of them

    def compose(self, composer: Composer, count: int, kind: str = "train") -> Scenes:
        """Some things that may hide one another."""
        return composer.compose(count, 160, things=self.THINGS, sizes=(32, 125), kind=kind)

    def loss(self, scenes: Scenes, composer: Composer) -> Tensor:
        """Over regions close to the things, within them, around them, and anywhere."""
        with torch.no_grad():
            regions = self._regions(scenes, composer)  # [N, R, 4]
            labels = self._labels(scenes, regions)  # [N, R]
        logits = self._logits(scenes, regions)
        return functional.cross_entropy(logits.float(), labels.flatten(), label_smoothing=SMOOTHING)

    def hits(self, scenes: Scenes) -> Tensor:
        """By the things' own boxes."""
        labels = scenes.labels.flatten()
        return (self._logits(scenes, scenes.boxes).argmax(1) == labels)[labels >= 0]

    def _logits(self, scenes: Scenes, regions: Tensor) -> Tensor:
        features = self.features(scenes.images).float()
        pooled = roi_align(features, list(regions), CELLS, 1 / STRIDE, sampling_ratio=2, aligned=True)
        logits: Tensor = self.head(pooled)
        return logits

    def _regions(self, scenes: Scenes, composer: Composer) -> Tensor:
        count, side = len(scenes.images), scenes.images.shape[-1]
        centre = (scenes.boxes[..., :2] + scenes.boxes[..., 2:]) / 2  # [N, T, 2]
        size = scenes.boxes[..., 2:] - scenes.boxes[..., :2]  # [N, T, 2]
        found = []
        for number, low, high, shift in (
            (self.CLOSE, 0.85, 1.2, 0.08),
            (self.PARTS, 0.3, 0.8, 0.0),
            (self.AROUND, 1.3, 2.5, 0.3),
        ):
            for _ in range(number):
                scale = composer.uniform(low, high, *size.shape)
                # A part may lie anywhere within the thing; others are shifted by a share of its size.
                room = (1 - scale).clamp(min=0) / 2 + shift
                middle = centre + room * size * composer.uniform(-1, 1, *size.shape)
                found.append(torch.cat([middle - scale * size / 2, middle + scale * size / 2], 2))
        extent = composer.uniform(16, 110, count, self.ANYWHERE, 2)
        corner = composer.uniform(0, 1, count, self.ANYWHERE, 2) * (side - extent)
        found.append(torch.cat([corner, corner + extent], 2))
        return torch.cat(found, 1).clamp(0, side)

    def _labels(self, scenes: Scenes, regions: Tensor) -> Tensor:
        """A thing's category from IoU 0.6, none under 0.4, -100 between and where the thing can hardly be seen."""
        overlap = _overlap(regions, scenes.boxes)  # [N, R, T]
        best, nearest = overlap.max(2)
        labels = scenes.labels.gather(1, nearest)
        return torch.where(best >= 0.6, labels, torch.where(best < 0.4, self.none, -100))


def _overlap(a: Tensor, b: Tensor) -> Tensor:
    """IoU in whole batches: [N, R, 4], [N, T, 4] → [N, R, T]."""
    low = torch.maximum(a[:, :, None, :2], b[:, None, :, :2])
    high = torch.minimum(a[:, :, None, 2:], b[:, None, :, 2:])
    shared = (high - low).clamp(min=0).prod(3)
    areas = [(boxes[..., 2:] - boxes[..., :2]).prod(2) for boxes in (a, b)]
    return shared / (areas[0][:, :, None] + areas[1][:, None] - shared).clamp(min=1)


OBJECTIVES: dict[str, type[Objective]] = {"pictures": Pictures, "regions": Regions}
