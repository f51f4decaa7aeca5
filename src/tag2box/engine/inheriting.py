"""The warm start of another run, taken over: rounds can be tried in several ways from one and the same beginning.

Or begin again with what a person has said meanwhile: decisions and tags may be others than those it learnt from.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from tag2box import remembered
from tag2box.config import Recipe, differences
from tag2box.data.records import Dataset
from tag2box.engine.checkpoint import fingerprint, plain, read_state
from tag2box.engine.plan import phases
from tag2box.errors import InputError, name_some
from tag2box.proposals.store import ProposalStore

FREE = ("rounds", "inference", "seed")
"""Parts of a recipe in which the two runs may differ: no warm start has to do with them, but for how it is drawn."""
FILE = "warm.safetensors"
"""In `weights`, of a run that went on to its rounds: its state before them."""
FINDING = ("scales", "flip")
"""Of `inference` what a warm start that is learnt anew does have to do with: so it looks for what it learns from."""


def require_warm_start(other: Path, recipe: Recipe) -> None:
    """Another run has its warm start still, by the same settings, and rounds are to follow; without its pictures."""
    if not recipe.rounds.number:
        raise InputError("expected --rounds.number 1 or more after another run's warm start, found 0")
    checkpoint = _checkpoint(other)
    if not checkpoint.is_file():
        raise InputError(f"expected a run to take the warm start of, found no {checkpoint}")
    _, state = read_state(checkpoint, tensors=False)
    own, theirs = _without_free(plain(recipe)), _without_free(state["recipe"])
    if own != theirs:
        where = name_some(differences(theirs, own), 3)
        raise InputError(f"expected the settings of {other} but for its rounds, found others: {where}")
    stages = [row["stage"] for row in state["record"]["rows"]]
    if state["step"] or "prediction" in state["nets"] or "refined" not in stages:
        raise InputError(f"{other}: expected a run that has kept its warm start, found none")


def require_same_data(other: Path, recipe: Recipe, dataset: Dataset, store: ProposalStore, *, decided: bool) -> None:
    """And it has learnt from these pictures and proposals.

    decided: whether a person's decisions are known to the new run. Without them nobody could tell that boxes have
    reached it, where the warm start has learnt from some.
    """
    require_warm_start(other, recipe)
    _, state = read_state(_checkpoint(other), tensors=False)
    same = state.get("pictures") == fingerprint(dataset, tags=False)
    if not same and state.get("data") != fingerprint(dataset):  # by which older runs know them
        found = f"{len(dataset):,} pictures of {len(dataset.classes)} classes"
        raise InputError(f"expected the classes and pictures that {other} has learnt from, found others ({found})")
    if state.get("known") and not decided:
        raise InputError(f"{other} has learnt from a person's decisions: expected --reviewed, found none")
    if state["phase"] != sum(not phase.round for phase in phases(recipe, len(dataset))):
        raise InputError(f"{other}: expected a run that has kept its warm start, found none")
    if recipe.warm.again or (recipe.teacher.name and recipe.teacher.hints):
        remembered.require_regions(other / "weights" / remembered.FILE, [store[id] for id in dataset.ids])


def finished_warm_start(
    other: Path, recipe: Recipe, dataset: Dataset, store: ProposalStore, *, decided: bool = False
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What is kept of such a run: tensors and state.

    The state's record is without the detector that the warm start made by itself: it is the rounds' that is to be.
    """
    require_same_data(other, recipe, dataset, store, decided=decided)
    tensors, state = read_state(_checkpoint(other))
    rows = [row for row in state["record"]["rows"] if not row["stage"].startswith("round")]
    return tensors, {**state, "record": {**state["record"], "rows": rows, "best": float("-inf"), "seconds": 0.0}}


def _checkpoint(run: Path) -> Path:
    kept = run / "weights" / FILE
    return kept if kept.is_file() else run / "weights" / "state.safetensors"


def _without_free(recipe: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in recipe.items() if name not in FREE}
    if recipe["warm"].get("again"):
        kept["inference"] = {name: recipe["inference"].get(name) for name in FINDING}
    return kept
