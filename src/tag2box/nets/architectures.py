"""The nets by name, each cut in two where its map leaves stride 16: a trunk, and what a RoI head can take after it."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast

import torch
from torch import nn
from torchvision.models import get_model
from torchvision.ops import FrozenBatchNorm2d

from tag2box.errors import InputError, did_you_mean
from tag2box.nets.efficientnet_lite import FACTORS, LAST, efficientnet_lite
from tag2box.nets.tiny import CHANNELS, STRIDE, tiny_body

Pooling = Literal["max", "align"]
IMAGENET_MEAN, IMAGENET_STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
"""Of torchvision's nets, (0.485, 0.456, 0.406) and (0.229, 0.224, 0.225), in units of 0–255."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A net in parts, without numbers yet: its tensors are on the meta device."""

    body: nn.Sequential
    """The trunk, up to the last layer before its map would shrink further."""
    channels: int
    stride: int = 16
    early: tuple[nn.Module, ...]
    """Parts of `body` that stay fixed by default: up to stride 4, the paper's conv1–conv2."""
    late: tuple[nn.Module, ...] = ()
    """Parts of `body` from the last stride on: what dilation changes."""
    top: nn.Sequential | None = None
    """What follows the trunk and can be the RoI head, convolutions only."""
    top_channels: int = 0
    classifier: nn.Module | None = None
    """From `top`'s channels, averaged over the map, to ImageNet's classes, for a net that teaches another."""
    classifier_prefix: str = ""
    whole_cells: bool = False
    """Pictures are padded to whole cells first: where padding depends on the size, one pixel more moves all cells."""
    prefix: str = ""
    """What the names of `body` and `top` are preceded by in a weights file."""
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    pooling: Pooling = "align"
    size: int = 14
    """Cells a side of a pooled proposal."""
    width: int = 4096
    """Of the fully connected layers, where the head is made of them."""


def parts_of(name: str) -> Parts:
    """The parts of the net called `name`."""
    if name not in TRUNKS:
        raise InputError(f"backbone: expected one of {', '.join(TRUNKS)}, found '{name}'{did_you_mean(name, TRUNKS)}")
    with torch.device("meta"):
        parts = TRUNKS[name]()
        for part in (parts.body, parts.top):
            freeze_batch_norm(part)
    return parts


def freeze_batch_norm(module: nn.Module | None) -> None:
    """Replace every batch norm below by a fixed one: a step sees one or two images, too few for statistics."""
    for name, child in module.named_children() if module is not None else ():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, FrozenBatchNorm2d(child.num_features, child.eps))
        else:
            freeze_batch_norm(child)


def dilate(stages: Iterable[nn.Module]) -> None:
    """Take the one stride of these layers out and spread the kernels that follow it, so that each sees what it saw."""
    passed = False
    for layer in (layer for stage in stages for layer in stage.modules()):
        if isinstance(layer, nn.MaxPool2d):
            layer.kernel_size = layer.stride = 1  # the identity; in VGG it stands for the stride
            passed = True
        elif isinstance(layer, nn.Conv2d) and layer.stride != (1, 1):
            layer.stride = (1, 1)
            passed = True
        elif isinstance(layer, nn.Conv2d) and passed and layer.kernel_size != (1, 1):
            layer.dilation = (2, 2)
            if not isinstance(layer.padding, str):
                layer.padding = tuple(2 * pixels for pixels in layer.padding)


def _layers(name: str, part: str = "features") -> nn.Sequential:
    return cast("nn.Sequential", get_model(name, weights=None).get_submodule(part))


def _vgg(name: str) -> Parts:
    layers = _layers(name)
    pools = [i for i, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]
    body = layers[: pools[4]]  # without the last pooling, as in Fast R-CNN: RoI pooling takes its place
    early, late = tuple(body[: pools[1] + 1]), tuple(body[pools[3] :])
    return Parts(body=body, channels=512, early=early, late=late, prefix="features.", pooling="max", size=7)


def _resnet(name: str, channels: int) -> Parts:
    *before, layer3, layer4, _, (_, classifier) = get_model(name, weights=None).named_children()
    body = nn.Sequential(OrderedDict([*before, layer3]))  # stem, layer1, layer2, layer3
    top = nn.Sequential(OrderedDict([layer4]))
    return Parts(
        body=body,
        channels=channels // 2,
        early=tuple(body[:5]),
        late=(layer3[1],),
        top=top,
        top_channels=channels,
        classifier=classifier,
        classifier_prefix="fc.",
    )


def _mobilenet(name: str, early: int, late: int, end: int, channels: int, top_channels: int) -> Parts:
    layers = _layers(name)
    body = layers[:end]
    return Parts(
        body=body,
        channels=channels,
        early=tuple(body[:early]),
        late=tuple(body[late:]),
        top=layers[end:],  # a slice keeps the children's names
        top_channels=top_channels,
        classifier=_layers(name, "classifier"),
        classifier_prefix="classifier.",
        prefix="features.",
    )


def _efficientnet_lite(name: str) -> Parts:
    cut = efficientnet_lite(name)
    grey, spread = (127.0,) * 3, (128.0,) * 3
    return Parts(
        body=cut.trunk,
        channels=cut.channels,
        early=cut.early,
        late=cut.late,
        top=cut.top,
        top_channels=LAST,
        classifier=nn.Linear(LAST, 1000),
        classifier_prefix="fc.",
        whole_cells=True,
        mean=grey,
        std=spread,
    )


def _tiny() -> Parts:
    body = tiny_body()
    return Parts(body=body, channels=CHANNELS, stride=STRIDE, early=tuple(body[:3]), size=4, width=256)


TRUNKS: dict[str, Callable[[], Parts]] = {
    **{f"vgg{depth}{norm}": partial(_vgg, f"vgg{depth}{norm}") for depth in (11, 13, 16) for norm in ("", "_bn")},
    "resnet18": partial(_resnet, "resnet18", 512),
    "resnet50": partial(_resnet, "resnet50", 2048),
    "mobilenet_v3_small": partial(_mobilenet, "mobilenet_v3_small", 2, 4, 9, 48, 576),
    "mobilenet_v3_large": partial(_mobilenet, "mobilenet_v3_large", 4, 7, 13, 112, 960),
    **{name: partial(_efficientnet_lite, name) for name in FACTORS},
    "tiny": _tiny,
}
