"""The trunk: convolutions that turn a picture into the map that proposals are pooled from (the paper's conv1–conv5)."""

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from tag2box.errors import InputError
from tag2box.nets.architectures import Parts, dilate, parts_of
from tag2box.nets.weights import PRETRAINED, Weights, fill, read_weights

Frozen = Literal["early", "all", "none"]


class Trunk(nn.Module):
    """Convolutions with their normalisation inside. Batch norm is fixed, so `train()` and `eval()` give the same."""

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        *,
        body: nn.Module,
        channels: int,
        stride: int,
        mean: tuple[float, float, float],
        std: tuple[float, float, float],
        whole_cells: bool = False,
    ) -> None:
        super().__init__()
        self.body, self.channels, self.stride, self.whole_cells = body, channels, stride, whole_cells
        # With channels innermost cuDNN builds depthwise kernels for every size of picture: seconds, and no gain.
        self.depthwise = any(one.groups > 1 for one in body.modules() if isinstance(one, nn.Conv2d))
        # Given by the trunk's name, so they need no place in a checkpoint, where half precision would round them.
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(3, 1, 1), persistent=False)

    def features(self, images: Tensor) -> Tensor:
        """The map of conv5 that both nets start from.

        images: [N, 3, H, W], RGB in 0–255, uint8 or floating point; → [N, C', H/stride, W/stride].
        """
        pixels = (images.float() - self.mean) / self.std
        if self.whole_cells:
            height, width = images.shape[2:]
            pixels = functional.pad(pixels, (0, -width % self.stride, 0, -height % self.stride))
        if pixels.is_cuda and not self.depthwise:  # a GPU has its fast convolutions for channels innermost
            pixels = pixels.contiguous(memory_format=torch.channels_last)
        features: Tensor = self.body(pixels)
        return features

    def forward(self, images: Tensor) -> Tensor:
        """The same as `features`."""
        return self.features(images)

    @property
    def frozen(self) -> bool:
        """Whether nothing in the trunk learns, so that its maps and pooled features can be kept (`--cache`)."""
        return not any(parameter.requires_grad for parameter in self.parameters())


def build_trunk(
    name: str,
    *,
    weights: str | Path | Weights | None = PRETRAINED,
    dilated: bool = False,
    frozen: Frozen = "early",
) -> Trunk:
    """The trunk called `name`, its last pooling removed.

    weights: `"pretrained"`, a file, or `"none"`, as in `read_weights`; or what that gave.
    dilated: stride 8 in place of 16, for small objects at four times the cost of the last stage: the last stride is
        taken out (VGG's pool4, or the one of ResNet's layer3 and its like), and the convolutions after it are dilated.
    frozen: `"early"` fixes all up to stride 4: conv1–conv2 of VGG as in the paper, stem and layer1 of ResNet.
    """
    parts = parts_of(name)
    if isinstance(weights, str | Path):
        weights = read_weights(name, weights)
    fill(parts.body, weights, parts.prefix)
    if dilated:
        _dilate(name, parts)
    for part in {"early": parts.early, "all": (parts.body,), "none": ()}[frozen]:
        part.requires_grad_(False)
    stride = parts.stride // 2 if dilated else parts.stride
    return Trunk(
        body=parts.body,
        channels=parts.channels,
        stride=stride,
        mean=parts.mean,
        std=parts.std,
        whole_cells=parts.whole_cells,
    )


def picture_trunk(name: str) -> Trunk:
    """In place of a trunk, where regions are cut out of the picture: the picture as the net called `name` takes it."""
    parts = parts_of(name)
    return Trunk(body=nn.Identity(), channels=3, stride=1, mean=parts.mean, std=parts.std)


def _dilate(name: str, parts: Parts) -> None:
    if not parts.late:
        raise InputError(f"backbone {name}: expected dilated false, found true; its stride is {parts.stride} as it is")
    dilate(parts.late)
