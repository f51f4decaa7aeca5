"""One cut-out or one backdrop of the bank, each from the seed and its own number."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tiny_bank import BACKDROP, CLUTTER, DISTRACTOR, TILE
from tiny_categories import INVENTED, categories

from tag2box.data.demo_drawing import MARGIN, lighter, render
from tag2box.data.demo_patterns import PALETTE, Drawing, Paints
from tag2box.data.demo_props import CLUTTER as CLUTTERING
from tag2box.data.demo_props import DISTRACTORS
from tag2box.data.demo_scenes import backdrop

INSTANCES_OF_NO_CATEGORY = 30


class Order(NamedTuple):
    """What is to be drawn."""

    seed: int
    label: int
    instance: int
    name: str = ""
    invented: int = INVENTED

    def generator(self) -> np.random.Generator:
        """A stream of its own for each drawing."""
        kind = sum(ord(letter) << 8 * (i % 4) for i, letter in enumerate(self.name))
        return np.random.Generator(np.random.PCG64([self.seed, kind, self.label + 2, self.instance]))


def orders_of(seed: int, instances: int, invented: int | None) -> tuple[tuple[str, ...], list[Order]]:
    """The categories' names, and every cut-out there is to draw."""
    count = INVENTED if invented is None else invented
    names = tuple(categories(count))
    found = [Order(seed, c, i, name, count) for c, name in enumerate(names) for i in range(instances)]
    for label, kinds in ((DISTRACTOR, DISTRACTORS), (CLUTTER, CLUTTERING)):
        found += [
            Order(seed, label, i, name) for name in kinds for i in range(min(instances, INSTANCES_OF_NO_CATEGORY))
        ]
    return names, found


@cache
def _drawings(invented: int) -> dict[str, Drawing]:
    return categories(invented) | DISTRACTORS | CLUTTERING


def draw_sprite(order: Order) -> NDArray[np.uint8]:
    """A cut-out in the middle of its tile [TILE, TILE, 4], as large as the tile allows."""
    rng = order.generator()
    patches = _drawings(order.invented)[order.name](rng, _paints(rng))
    side = int(rng.integers(2)) * 2 - 1
    sprite = render(patches, TILE - 2 * MARGIN - 1).lit((side, 1), rng.uniform(0.3, 0.6))
    height, width = sprite.coverage.shape
    top, left = (TILE - height) // 2, (TILE - width) // 2
    tile = np.zeros((TILE, TILE, 4), dtype=np.uint8)
    pixels = np.concatenate([sprite.colour, 255 * sprite.coverage[..., None]], axis=2)
    tile[top : top + height, left : left + width] = pixels.round()
    return tile


def _paints(rng: np.random.Generator) -> Paints:
    """Three colours of the demo's palette that can be told apart."""
    body = PALETTE[rng.integers(len(PALETTE))]
    others = [c for c in PALETTE if np.linalg.norm(np.subtract(c, body)) > 90]
    accent = others[rng.integers(len(others))]
    return Paints(body, accent, lighter(accent if rng.random() < 0.5 else body, rng.uniform(0.25, 0.85)))


def draw_backdrop(order: Order) -> NDArray[np.uint8]:
    """An empty scene [H, W, 3]."""
    rng = np.random.Generator(np.random.PCG64([order.seed, 3, order.label]))
    return backdrop(rng, *BACKDROP).clip(0, 255).astype(np.uint8)
