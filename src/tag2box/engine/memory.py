"""Where a step takes more memory than there is: its pictures go through the net in parts, or here is what to try."""

from collections.abc import Sequence
from typing import TypeVar

from tag2box.config import Recipe

Item = TypeVar("Item")


def in_parts(items: Sequence[Item], most: int | None) -> list[Sequence[Item]]:
    """One after the other, at most so many at once; None: all.

    >>> in_parts([1, 2, 3, 4, 5], most=2), in_parts([1, 2], most=None)
    ([[1, 2], [3, 4], [5]], [[1, 2]])
    """
    most = most or len(items)
    return [items[start : start + most] for start in range(0, len(items), most)]


def less_memory(recipe: Recipe, processes: int, at_once: int | None = None) -> str:
    """Options with which a step takes less memory and a run learns much the same, where there are such.

    at_once: so many pictures go through a net together already; by default all that a process has in a step.

    >>> less_memory(Recipe(), processes=1)
    '--optimiser.images 1 --optimiser.accumulate 2 --optimiser.warmup 200'
    >>> less_memory(Recipe(), processes=2), less_memory(Recipe(), processes=1, at_once=1)
    ('fewer --data.max_proposals or smaller --data.scales', 'fewer --data.max_proposals or smaller --data.scales')
    """
    own, data = recipe.optimiser, recipe.data
    kept = " or --data.cache false" if data.cache else ""
    times = 2 if own.images % (2 * processes) == 0 else own.images // processes
    if times == 1 or at_once == 1:
        return f"fewer --data.{'drawn' if data.drawn_proposals else 'max'}_proposals or smaller --data.scales{kept}"
    fewer = {"images": own.images // times, "accumulate": times * own.accumulate, "warmup": times * own.warmup}
    options = [f"--optimiser.{name} {value}" for name, value in fewer.items()]
    if recipe.warm.least_steps:
        options.append(f"--warm.least_steps {times * recipe.warm.least_steps}")
    return " ".join(options) + kept
