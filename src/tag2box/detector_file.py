"""A detector in one safetensors file: weights, classes, recipe, licence note. Loading one runs no code of its own."""

import json
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from tag2box import __version__
from tag2box.config import Recipe, recipe_from_values
from tag2box.errors import InputError, did_you_mean
from tag2box.files import atomic_path
from tag2box.nets import TRUNKS, PredictionNet, build_trunk_and_head
from tag2box.nets.backbone import Trunk
from tag2box.nets.conditional import ConditionalNet
from tag2box.nets.proposer import Proposer
from tag2box.nets.roi_head import RoIHead

Net = TypeVar("Net", bound=nn.Module)
FORMAT = "tag2box detector 1"
TEACHER = "tag2box conditional net 1"
LICENCE_NOTE = (
    "Made with tag2box (Apache-2.0). The weights derive from the trunk named in the recipe and from the pictures they "
    "were trained on; the terms of both apply to them."
)


def build_prediction_net(recipe: Recipe, classes: int, *, weights: str | None = None) -> PredictionNet:
    """A prediction net as the recipe says; `weights` in place of the recipe's, "none" where a file will fill it."""
    trunk, head = build_parts(recipe, weights=weights)
    return PredictionNet(trunk=trunk, head=head, classes=classes)


def build_parts(recipe: Recipe, *, weights: str | None = None) -> tuple[Trunk, RoIHead]:
    """The trunk and the head that every net of a run is made of."""
    backbone, head = recipe.backbone, recipe.head
    if backbone.name not in TRUNKS:  # before its weights are looked for
        hint = did_you_mean(backbone.name, TRUNKS)
        raise InputError(f"expected a backbone ({', '.join(TRUNKS)}), found '{backbone.name}'{hint}")
    return build_trunk_and_head(
        backbone.name,
        weights=backbone.weights if weights is None else weights,
        dilated=backbone.dilated,
        frozen=backbone.frozen,
        head=head.kind,
        pooling=head.pooling,
        size=head.size,
        width=head.width,
        pixels=head.pixels,
        dropout=head.dropout,
    )


def build_conditional_net(recipe: Recipe, classes: int, *, weights: str | None = None) -> ConditionalNet:
    """A conditional net as the recipe says; the noise's first weights are not its final ones."""
    trunk, head = build_parts(recipe, weights=weights)
    return ConditionalNet(trunk=trunk, head=head, classes=classes)


def save_detector(
    path: Path,
    net: PredictionNet | ConditionalNet,
    recipe: Recipe,
    classes: Sequence[str],
    *,
    half: bool = True,
    licence: str = LICENCE_NOTE,
) -> None:
    """Write the whole detector, or its teacher, as one safetensors file: weights, classes, recipe and licence note.

    half: matrices and convolutions in half precision. Biases and batch norms stay as they are: they are few, and
    running variances can be too large or too small for it.
    """
    kind = TEACHER if isinstance(net, ConditionalNet) else FORMAT
    about = {"format": kind, "version": __version__, "classes": list(classes), "recipe": recipe.as_dict()}
    tensors = {key: _for_file(tensor, half) for key, tensor in net.state_dict().items()}
    with atomic_path(path) as temporary:
        # One key only: safetensors writes several in no certain order, and equal runs should leave equal files.
        save_file(tensors, temporary, metadata={"tag2box": json.dumps({**about, "licence": licence})})


def _for_file(tensor: Tensor, half: bool) -> Tensor:
    tensor = tensor.detach().cpu().contiguous().clone()
    if not half or tensor.dim() < 2 or not tensor.is_floating_point():
        return tensor
    small = tensor.half()
    return small if bool(small.isfinite().all()) else tensor


def read_detector(path: Path) -> tuple[PredictionNet, Recipe, tuple[str, ...]]:
    """The net, recipe and classes in a file that `save_detector` has written; on the CPU, in single precision."""
    return _open(path, FORMAT, "detector", build_prediction_net)


def read_teacher(path: Path) -> tuple[ConditionalNet, Recipe, tuple[str, ...]]:
    """The same of a conditional net."""
    return _open(path, TEACHER, "conditional net", build_conditional_net)


def _open(path: Path, form: str, kind: str, build: Callable[..., Net]) -> tuple[Net, Recipe, tuple[str, ...]]:
    about, tensors = _read(path, form, kind)
    classes, values = about["classes"], _known(Recipe, about["recipe"])
    recipe = recipe_from_values(values, f"{path} (tag2box {about['version']})")
    with torch.random.fork_rng(devices=[]):  # building draws numbers that the file then replaces
        net = build(recipe, len(classes), weights="none")
    if isinstance(net, PredictionNet) and any(name.startswith("proposer.") for name in tensors):
        net.proposer = Proposer(channels=net.trunk.channels, stride=net.trunk.stride)
    try:
        net.load_state_dict(tensors)
    except RuntimeError as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: expected the weights of {recipe.backbone.name}, found others ({why})") from None
    return net, recipe, tuple(classes)


def _known(kind: type, values: Any) -> Any:
    """The values without fields that this version does not have: how it was trained is not needed to look."""
    if not is_dataclass(kind) or not isinstance(values, dict):
        return values
    hints = get_type_hints(kind)
    return {name: _known(hints[name], value) for name, value in values.items() if name in hints}


def _read(path: Path, form: str, kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What the file says of itself, and its tensors."""
    if not path.is_file():
        raise InputError(f"expected a {kind}'s file, found none at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["tag2box"])
            if about["format"] != form or not all(isinstance(name, str) for name in about["classes"]):
                raise ValueError(about["format"])
            _ = about["recipe"], about["version"]
            return about, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dictionary
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except (SafetensorError, LookupError, TypeError, ValueError):
        raise InputError(f"{path}: expected a {kind} written by tag2box, found something else") from None
