"""The two nets, and what they are built from: trunks by name, RoI heads, and their first weights."""

from pathlib import Path
from typing import Literal

from tag2box.nets.architectures import TRUNKS, Pooling
from tag2box.nets.backbone import Frozen, Trunk, build_trunk, picture_trunk
from tag2box.nets.conditional import ConditionalNet, draw_noise
from tag2box.nets.prediction import Outputs, PredictionNet
from tag2box.nets.roi_head import HeadKind, RoIHead, build_head
from tag2box.nets.weights import PRETRAINED, read_weights

__all__ = [
    "TRUNKS",
    "ConditionalNet",
    "Outputs",
    "PredictionNet",
    "RoIHead",
    "Trunk",
    "build_head",
    "build_trunk",
    "build_trunk_and_head",
    "draw_noise",
    "read_weights",
]


def build_trunk_and_head(
    name: str,
    *,
    weights: str | Path = PRETRAINED,
    dilated: bool = False,
    frozen: Frozen = "early",
    head: HeadKind = "auto",
    pooling: Pooling | Literal["auto"] = "auto",
    size: int | None = None,
    width: int | None = None,
    pixels: int = 128,
    dropout: float = 0.5,
) -> tuple[Trunk, RoIHead]:
    """A trunk and the head that goes with it, their weights read once: see `build_trunk` and `build_head`."""
    tensors = read_weights(name, weights)
    trunk = picture_trunk(name) if head == "cut" else build_trunk(name, weights=tensors, dilated=dilated, frozen=frozen)
    made = build_head(
        name,
        weights=tensors,
        stride=trunk.stride,
        kind=head,
        pooling=pooling,
        size=size,
        width=width,
        pixels=pixels,
        dropout=dropout,
    )
    return trunk, made
