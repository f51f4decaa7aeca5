"""The order of a run: which net learns, for how many steps, from which pictures. All of it follows from the recipe.

Every step draws its randomness from the seed, its phase and its number alone. So a run that goes on from a checkpoint
sees the same pictures, noise and dropout as one that was never stopped, without any generator's state being saved.
"""

import math
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

import torch

from tag2box.config import Optimiser, Recipe

Kind = Literal["lessons", "tags", "warm", "conditional", "prediction"]


@dataclass(frozen=True, slots=True)
class Phase:
    """One net learning while the others stand still."""

    kind: Kind
    round: int
    """From 1; 0 for the warm start and what comes before it."""
    steps: int
    rate: float
    anew: int = 0
    """How often the warm start was learnt before."""

    @property
    def name(self) -> str:
        """As progress shows it."""
        warm = f"warm start, anew {self.anew}" if self.anew else "warm start"
        before = {"lessons": "lessons", "tags": "tags", "warm": warm}
        return before.get(self.kind, f"round {self.round}, {self.kind} net")

    @property
    def net(self) -> str:
        """Which net learns: a teacher and the tags teach layers of the warm start's."""
        return "warm" if self.round == 0 else self.kind


def phases(recipe: Recipe, images: int) -> list[Phase]:
    """A teacher's lessons and the tags where asked for, the warm start, then each round's two halves (METHOD §8)."""
    per_epoch = images / recipe.optimiser.images
    rounds, warm = recipe.rounds, recipe.warm
    plan, teacher = list[Phase](), recipe.teacher
    if teacher.name and teacher.epochs:
        plan.append(Phase("lessons", 0, _steps(teacher.epochs, per_epoch), teacher.rate))
    if warm.tag_epochs:
        plan.append(Phase("tags", 0, _steps(warm.tag_epochs, per_epoch), warm.tag_rate))
    steps = max(_steps(warm.epochs, per_epoch), warm.least_steps)
    plan += [Phase("warm", 0, steps, warm.rate, anew) for anew in range(1 + warm.again)]
    for number in range(1, rounds.number + 1):
        done = (number - 1) / max(rounds.number - 1, 1)
        rate = rounds.conditional_rate * (1 - (1 - rounds.conditional_decay) * done)
        plan.append(Phase("conditional", number, _steps(rounds.conditional_epochs, per_epoch), rate))
        rate = rounds.prediction_rate * (1 - (1 - rounds.prediction_decay) * done)
        plan.append(Phase("prediction", number, _steps(rounds.prediction_epochs, per_epoch), rate))
    return plan


def _steps(epochs: float, per_epoch: float) -> int:
    return max(1, round(epochs * per_epoch))


def rate_at(step: int, phase: Phase, settings: Optimiser) -> float:
    """The learning rate of a step."""
    warmup = min(1.0, (step + 1) / settings.warmup) if settings.warmup else 1.0
    done = step / phase.steps
    shape = {
        "constant": 1.0,
        "cosine": 0.5 * (1 + math.cos(math.pi * done)),
        "step": 1.0 if done < 2 / 3 else 0.1,
    }
    return phase.rate * warmup * shape[settings.schedule]


@dataclass(frozen=True, slots=True)
class Showing:
    """Which picture is shown, and how."""

    index: int
    scale: int
    mirrored: bool


def showings(recipe: Recipe, images: int, phase: int, step: int) -> list[Showing]:
    """The pictures of a step, over all processes. Each epoch goes through all pictures in an order of its own.

    They share a scale: beside a large picture a small one would be mostly padding.
    """
    size, data = recipe.optimiser.images, recipe.data
    generator = generator_for(recipe.seed, phase, step)
    chosen: list[Showing] = []
    for position in range(step * size, (step + 1) * size):
        order = _order(recipe.seed, phase, position // images, images)
        scale = data.scales[int(torch.randint(len(data.scales), (), generator=generator))]
        scale = chosen[0].scale if chosen else scale
        mirrored = data.flip and bool(torch.rand((), generator=generator) < 0.5)
        chosen.append(Showing(order[position % images], scale, mirrored))
    return chosen


_orders: dict[tuple[int, int, int, int], list[int]] = {}


def _order(seed: int, phase: int, epoch: int, images: int) -> list[int]:
    key = (seed, phase, epoch, images)
    if key not in _orders:
        if len(_orders) > 4:  # two epochs meet in a step; older ones do not come back
            _orders.clear()
        generator = generator_for(seed, phase, -1 - epoch)
        _orders[key] = torch.randperm(images, generator=generator).tolist()
    return _orders[key]


def seed_for(*numbers: int) -> int:
    """A seed from several numbers; near ones give unrelated seeds."""
    return int.from_bytes(blake2b(repr(numbers).encode(), digest_size=7).digest(), "big")


def generator_for(*numbers: int) -> torch.Generator:
    """A CPU generator of its own for a place in the run."""
    return torch.Generator().manual_seed(seed_for(*numbers))
