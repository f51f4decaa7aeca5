"""Nets on views: whichever of pixels, map or pooled features a view holds."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tag2box.engine.views import View, padded
from tag2box.nets.conditional import ConditionalNet
from tag2box.nets.mil import MilNet, MilOutputs
from tag2box.nets.prediction import Outputs, PredictionNet


def warm_outputs(net: MilNet, views: Sequence[View]) -> MilOutputs:
    """The warm start's outputs for all proposals of the views: `split` them by view."""
    outputs: MilOutputs = _plain(net, views)
    return outputs


def prediction_outputs(net: PredictionNet, views: Sequence[View]) -> list[Outputs]:
    """The prediction net's outputs for each view."""
    outputs: Outputs = _plain(net, views)
    return _by_view(outputs, views, dim=0)


def conditional_outputs(net: ConditionalNet, views: Sequence[View], noise: Tensor) -> list[Outputs]:
    """The conditional net's outputs for each view, under noise [K, N, 1, h, w]: scores [K, B, C + 1] and offsets."""
    boxes = [view.boxes for view in views]
    if views[0].pooled is not None:
        outputs = net.from_pooled(_pooled(views), net.pool_noise(noise, boxes))
    elif views[0].map is not None:
        outputs = net.from_features(_maps(views), boxes, noise=noise)
    else:
        features = net.trunk.features(_pixels(views))
        # VGG's pooling drops a last row that does not fill a cell; the grid has it.
        height, width = net.head.cells(features).shape[2:]
        outputs = net.from_features(features, boxes, noise=noise[..., :height, :width])
    return _by_view(outputs, views, dim=1)


def noise_for(views: Sequence[View], samples: int, generator: torch.Generator) -> Tensor:
    """K fields of noise U[−½, ½] at the resolution of the maps [K, N, 1, h, w]; K = 0: one field of zeros (PW_c)."""
    height, width = max(view.grid[0] for view in views), max(view.grid[1] for view in views)
    shape = (max(samples, 1), len(views), 1, height, width)
    device = views[0].boxes.device
    pinned = device.type == "cuda"  # or the copy of so much would wait for what is queued there
    noise = torch.rand(shape, generator=generator, pin_memory=pinned).sub_(0.5) if samples else torch.zeros(shape)
    return noise.to(device, non_blocking=True)


def _plain(net: MilNet | PredictionNet, views: Sequence[View]) -> Any:
    if views[0].pooled is not None:
        return net.from_pooled(_pooled(views))
    boxes = [view.boxes for view in views]
    return net.from_features(_maps(views), boxes) if views[0].map is not None else net(_pixels(views), boxes)


def _by_view(outputs: Outputs, views: Sequence[View], dim: int) -> list[Outputs]:
    counts = [len(view.boxes) for view in views]
    parts = zip(torch.split(outputs.scores, counts, dim), torch.split(outputs.offsets, counts, dim), strict=True)
    return [Outputs(scores, offsets) for scores, offsets in parts]


def _pooled(views: Sequence[View]) -> Tensor:
    return torch.cat([view.pooled.float() for view in views if view.pooled is not None])  # CPU autocast joins no halves


def _maps(views: Sequence[View]) -> Tensor:
    return padded([view.map for view in views if view.map is not None]).float()


def _pixels(views: Sequence[View]) -> Tensor:
    return padded([view.pixels for view in views if view.pixels is not None])
