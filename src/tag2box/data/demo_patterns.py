"""The colours and patterns of the demo pictures, shared by every class, so that they tell none of them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tag2box.data.demo_drawing import Colour, Patch, Points, ellipse, hex_colour, moved, polygon

PALETTE: tuple[Colour, ...] = tuple(
    hex_colour(code)
    for code in (
        "e2563b", "f0a93b", "17898a", "2f6fb3", "74bad6", "e5799b",
        "7d4478", "629c4b", "f4e3c3", "2c3c5c", "b5523c", "9fd0b4",
    )
)  # fmt: skip

INK = hex_colour("2a2b45")
WHITE = hex_colour("fdf8ec")
WOOD = hex_colour("a9713f")
AMBER = hex_colour("f6b73c")
RED = hex_colour("d8402f")


@dataclass(frozen=True, slots=True)
class Paints:
    """The colours of one thing."""

    body: Colour
    accent: Colour
    pale: Colour


Drawing = Callable[[np.random.Generator, Paints], list[Patch]]


def pattern(rng: np.random.Generator, on: Points, colour: Colour, plain: float = 0.25) -> list[Patch]:
    """Spots, stripes, bands or nothing, within an outline."""
    (x0, y0), (x1, y1) = on.min(axis=0), on.max(axis=0)
    width, height = x1 - x0, y1 - y0
    if rng.random() < plain:
        return []
    kind = rng.integers(3)
    if kind == 0:
        return spots(rng, on, colour)
    if kind == 1:
        n = int(rng.integers(3, 6))
        edges = x0 + width * (np.arange(n) + 0.25) / n
        return [Patch(bar(x, y0, width / n / 2, height), colour, inside=on) for x in edges]
    n = int(rng.integers(2, 5))
    edges = y0 + height * (np.arange(n) + 0.25) / n
    return [Patch(bar(x0, y, width, height / n / 2), colour, inside=on) for y in edges]


def spots(rng: np.random.Generator, on: Points, colour: Colour) -> list[Patch]:
    """Round spots on a jittered lattice, within an outline."""
    (x0, y0), (x1, y1) = on.min(axis=0), on.max(axis=0)
    step = max(x1 - x0, y1 - y0) / rng.uniform(3.2, 4.6)
    found = []
    for row, y in enumerate(np.arange(y0 + step * 0.35, y1, step * 0.8)):
        for x in np.arange(x0 + step * (0.3 + 0.5 * (row % 2)), x1, step):
            dx, dy = rng.uniform(-0.12, 0.12, 2) * step
            found.append(Patch(ellipse(x + dx, y + dy, step * rng.uniform(0.17, 0.27)), colour, inside=on))
    return found


def bar(x: float, y: float, width: float, height: float) -> Points:
    """An upright rectangle from its top left corner."""
    return polygon((x, y), (x + width, y), (x + width, y + height), (x, y + height))


def dimmed(on: Points, x: float, y: float, strength: float = 0.22) -> Patch:
    """The shaded side of a body: where its own outline, shifted, still lies on it."""
    return Patch(moved(on, x, y), INK, inside=on, opacity=strength)
