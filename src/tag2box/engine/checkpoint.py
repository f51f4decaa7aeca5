"""A run's state in one file, so that it is whole or not there: safetensors, with JSON in its header for the rest."""

import json
from collections.abc import Mapping
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from tag2box.config import Recipe
from tag2box.data.records import Dataset
from tag2box.errors import InputError
from tag2box.files import atomic_path

LITTER = (".*.safetensors", ".tmp*")
"""What a kill leaves half-written among the weights: our own temporary files, and those of safetensors."""


def save_state(
    path: Path, nets: Mapping[str, nn.Module], optimiser: Optimizer | None, state: Mapping[str, Any]
) -> None:
    """Write the learnt tensors of the nets by name, the optimiser's, and `state`, which must be fit for JSON."""
    tensors = {f"{name}.{key}": value for name, net in nets.items() for key, value in net.state_dict().items()}
    if optimiser is not None:
        tensors |= _optimiser_tensors(optimiser)
    kept = {key: value.detach().cpu().contiguous().clone() for key, value in tensors.items()}
    with atomic_path(path) as temporary:
        save_file(kept, temporary, metadata={"state": json.dumps(state)})


def read_state(path: Path, *, tensors: bool = True) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors, or none of them, and the state, on the CPU."""
    try:
        with safe_open(path, framework="pt") as file:
            kept = {key: file.get_tensor(key) for key in file.keys()} if tensors else {}  # noqa: SIM118 — no dictionary
            return kept, json.loads(file.metadata()["state"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"cannot go on from {path}: {error}") from None


def load_net(net: nn.Module, name: str, tensors: Mapping[str, Tensor]) -> None:
    """Fill a net with the tensors saved under its name."""
    own = {key.removeprefix(f"{name}."): value for key, value in tensors.items() if key.startswith(f"{name}.")}
    net.load_state_dict(own)


def load_optimiser(optimiser: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Fill a fresh optimiser over the same parameters with what was saved of it."""
    saved = optimiser.state_dict()
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimiser."):
            _, number, name = key.split(".", 2)
            state.setdefault(int(number), {})[name] = value
    optimiser.load_state_dict({**saved, "state": state})


def _optimiser_tensors(optimiser: Optimizer) -> dict[str, Tensor]:
    state = optimiser.state_dict()["state"]
    return {
        f"optimiser.{number}.{name}": torch.as_tensor(value)
        for number, values in state.items()
        for name, value in values.items()
        if value is not None
    }


def sweep(weights: Path) -> None:
    """Remove what a kill has left half-written."""
    for litter in chain.from_iterable(weights.glob(pattern) for pattern in LITTER):
        litter.unlink(missing_ok=True)


def fingerprint(dataset: Dataset, *, tags: bool = True) -> str:
    """Of what a run learns from: the classes, and the pictures with their tags or without them, in order."""
    content = repr((dataset.classes, [(one.id, one.size, one.tags if tags else ()) for one in dataset]))
    return blake2b(content.encode(), digest_size=8).hexdigest()


def plain(recipe: Recipe) -> Any:
    """The recipe as it comes back from JSON."""
    return json.loads(json.dumps(recipe.as_dict()))
