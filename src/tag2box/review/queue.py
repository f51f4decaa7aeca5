"""In which order pictures are reviewed, how far that is, and how long it will take."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

BREAK_S = 120.0
"""Whoever takes longer for a decision was elsewhere."""
ENOUGH = 5
"""Decisions before anybody can say how long the rest will take."""


def line_up(
    uncertainties: Mapping[int, float | None], begun: Collection[int] = (), most: int | None = None
) -> list[int]:
    """The pictures by number, the most uncertain first; before all others those that the nets can say nothing of.

    With `most`, so many in all: first those that somebody has begun with are among them, then the most uncertain.

    >>> line_up({0: 0.1, 1: 0.3, 2: None, 3: 0.3})
    [2, 1, 3, 0]
    >>> line_up({0: 0.1, 1: 0.3, 2: None, 3: 0.3}, begun={0}, most=2)
    [2, 0]
    """

    def doubt(number: int) -> float:
        value = uncertainties[number]
        return float("inf") if value is None else value

    order = sorted(uncertainties, key=lambda number: (-doubt(number), number))
    if most is None:
        return order
    room = max(most - len(begun), 0)
    fresh = [number for number in order if number not in begun][:room]
    return [number for number in order if number in begun or number in fresh]


def seconds_left(times: Sequence[float], decisions: int) -> float | None:
    """How long so many more decisions will take at the pace of those made at these times; breaks do not count.

    >>> seconds_left([0, 4, 8, 500, 506, 510, 512], decisions=10)
    40.0
    >>> seconds_left([0, 4], decisions=10) is None
    True
    """
    gaps = [later - earlier for earlier, later in pairwise(times) if 0 <= later - earlier <= BREAK_S]
    return decisions * sum(gaps) / len(gaps) if len(gaps) >= ENOUGH else None
