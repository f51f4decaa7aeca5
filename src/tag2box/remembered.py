"""Hints that a run keeps beside its weights: found once, read again when it goes on and when its pictures are labelled.

A detector that has learnt from few pictures forgets some of what its seeds knew. For the very pictures that it learnt
from that is still there, and weighs as much as it did when the nets taught each other (`rounds.promise`).
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from tag2box.errors import InputError
from tag2box.files import atomic_path

FILE = "hints.safetensors"
Recall = Callable[[str, NDArray[Any]], Tensor | None]
"""A picture's id and proposals [B, 4] → how much speaks for each being all of an object of each class [B, C], −1…1."""


def save_places(
    path: Path,
    places: Sequence[Tensor],
    boxes: Sequence[Tensor],
    ids: Sequence[str],
    found: Sequence[Tensor] | None = None,
) -> None:
    """Keep what speaks for the first regions of pictures: N times [R_i, C], N times [R_i, 4], their names.

    found: boxes that a net found in them, N times [F_i, 4]; then the first F_i of `places` are theirs.
    """
    tensors = {f"places.{index}": own.contiguous() for index, own in enumerate(places)}
    tensors |= {f"boxes.{index}": own.short().cpu().contiguous() for index, own in enumerate(boxes)}
    tensors |= {f"found.{index}": own.contiguous() for index, own in enumerate(found or ())}
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, {"ids": json.dumps([*ids])})


def load_places(path: Path) -> tuple[list[Tensor], list[Tensor] | None]:
    """What speaks for regions and, where there are any, the boxes that were found, in the order they were kept in."""
    with _opened(path) as kept:
        names = set(kept.keys())
        number = max(sum(name.startswith("places.") for name in names), 1)  # of none at all it misses the first
        places = [kept.get_tensor(f"places.{index}") for index in range(number)]
        return places, [kept.get_tensor(f"found.{index}") for index in range(number)] if "found.0" in names else None


def require_regions(path: Path, proposals: Sequence[NDArray[Any]]) -> None:
    """What was kept is of the first of these proposals, N times [B_i, 4], in their order."""
    with _opened(path) as kept:
        names = set(kept.keys())
        for index, own in enumerate(proposals):
            boxes = kept.get_tensor(f"boxes.{index}").numpy() if f"boxes.{index}" in names else None
            if boxes is None or not np.array_equal(own[: len(boxes)], boxes):
                raise InputError(f"{path}: expected hints for the same proposals, found those of others")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    with _told_of(path), safe_open(path, "pt") as kept:
        yield kept


@contextmanager
def _told_of(path: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: expected hints that a run has kept, found something else ({error})") from None


def recall_of(run: Path) -> Recall:
    """What a run remembers of its pictures; of other pictures, or of these with other proposals, it is nothing."""
    path = run / "weights" / FILE
    if not path.is_file():
        return lambda id, proposals: None
    with _told_of(path):
        kept: Any = safe_open(path, "pt")  # it stays open: to read what is in it takes longer than a picture on a GPU
    ids = json.loads((kept.metadata() or {}).get("ids", "[]"))  # before it was for labels too, names were not kept
    numbers = {id: index for index, id in enumerate(ids)}

    def recall(id: str, proposals: NDArray[Any]) -> Tensor | None:
        if id not in numbers:
            return None
        with _told_of(path):
            places, boxes = (kept.get_tensor(f"{name}.{numbers[id]}") for name in ("places", "boxes"))
        places = places[len(places) - len(boxes) :]  # boxes that were found come first
        if len(proposals) < len(boxes) or not np.array_equal(proposals[: len(boxes)], boxes.numpy()):
            return None
        return functional.pad(places.float(), (0, 0, 0, len(proposals) - len(places)), value=-1.0)

    return recall


def favoured(probabilities: Tensor, places: Tensor | None, weight: float) -> Tensor:
    """Probabilities [B, C + 1], of each class lowered by how much less speaks for a proposal than for the best [B, C].

    What speaks for a proposal is added to the logarithm, so many times as the weight says.
    """
    if places is None or not weight or not len(places):
        return probabilities
    places = places.to(probabilities)
    factors = (weight * (places - places.amax(dim=0, keepdim=True))).exp()
    return torch.cat([probabilities[:, :1], probabilities[:, 1:] * factors], dim=1)
