"""Where the demo pictures play: eight places in five moods of light, any of them for any class."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tag2box.data.demo_backdrop import (
    MOODS,
    Sheet,
    paint_grass,
    paint_sky,
    paint_stones,
    paint_trees,
    pick,
    ridge,
    texture,
)
from tag2box.data.demo_drawing import darker, ellipse, hex_colour, lighter, mix, moved, polygon, ribbon, smooth

Scene = Callable[[np.random.Generator, Sheet], None]

WOODS = hex_colour("8a6f5c")


def hills(rng: np.random.Generator, sheet: Sheet) -> None:
    """Layers of hills, the far ones hazy."""
    paint_sky(rng, sheet)
    land = pick(rng, "7f9a62", "a5a05c", "6c9483", "b08a63")
    for depth in (0.15, 0.45, 0.75, 1.0):
        line = ridge(rng, sheet.height * (0.3 + 0.5 * depth), sheet.height * 0.09)
        colour = mix(sheet.mood.bottom, sheet.mood.tone(darker(land, 0.3 * depth)), 0.25 + 0.75 * depth)
        paint_trees(rng, sheet, line, colour, int(rng.integers(4, 12)))
        sheet.below(line, colour)
    paint_grass(rng, sheet, sheet.height * 0.84, colour, 90)


def sea(rng: np.random.Generator, sheet: Sheet) -> None:
    """Rows of paper waves."""
    paint_sky(rng, sheet)
    water = sheet.mood.tone(pick(rng, "4f8f9e", "5a86a8", "5f9a90"))
    horizon = rng.uniform(0.35, 0.55) * sheet.height
    sheet.below(ridge(rng, horizon - 4, 9), mix(water, sheet.mood.bottom, 0.55))
    phase = np.linspace(0, 2 * np.pi, 160)
    for depth in np.linspace(0, 1, 7):
        crest = 2 + 6 * depth
        line = horizon + (sheet.height - horizon) * depth * 0.95
        scallops = line - crest * np.abs(np.sin(phase * (9 - 5 * depth) + rng.uniform(0, 7)))
        sheet.below(scallops, mix(lighter(water, 0.45), darker(water, 0.3), depth))
        sheet.below(scallops + 1.6, mix(lighter(water, 0.25), darker(water, 0.4), depth))


def town(rng: np.random.Generator, sheet: Sheet) -> None:
    """A row of houses with windows, and a paved street."""
    paint_sky(rng, sheet)
    w, h, x = sheet.width, sheet.height, -5.0
    base = h * rng.uniform(0.68, 0.8)
    while x < w:
        wide, tall = rng.uniform(0.12, 0.22) * w, rng.uniform(0.3, 0.62) * h
        wall = sheet.mood.tone(pick(rng, "c9a58a", "b7b0a2", "a8b5b0", "c2b29a", "a99aa6"))
        top = base - tall
        sheet.fill(polygon((x, base), (x, top), (x + wide, top), (x + wide, base)), wall)
        roof = polygon((x - 2, top), (x + wide * 0.5, top - wide * 0.5), (x + wide + 2, top))
        sheet.fill(roof, darker(wall, 0.35))
        for row in np.arange(top + 8, base - 12, 19):
            for column in np.arange(x + 6, x + wide - 9, 14):
                pane = (0, 0), (7, 0), (7, 10), (0, 10)
                lit = hex_colour("f3d58c") if rng.random() < 0.3 else darker(wall, 0.45)
                sheet.fill(moved(polygon(*pane), column, row), lit)
        x += wide + 1
    paint_stones(rng, sheet, base)


def cobbles(rng: np.random.Generator, sheet: Sheet) -> None:
    """A square seen from above: nothing but stones."""
    paint_stones(rng, sheet, -8)


def meadow(rng: np.random.Generator, sheet: Sheet) -> None:
    """Grass with tulips."""
    paint_sky(rng, sheet)
    green = sheet.mood.tone(pick(rng, "8aa866", "9aa55f", "78a07a"))
    top = rng.uniform(0.15, 0.5) * sheet.height
    line = ridge(rng, top, 8)
    paint_trees(rng, sheet, line, mix(green, sheet.mood.bottom, 0.35), 14)
    sheet.below(line, green)
    paint_grass(rng, sheet, top + 8, green, 320)
    petal = sheet.mood.tone(pick(rng, "d9787a", "e0b25a", "a583b5", "e3ded0"))
    for y in np.sort(rng.uniform(top + 14, sheet.height, 22)):
        x, s = rng.uniform(0, sheet.width), 2 + 4 * (y - top) / sheet.height
        sheet.fill(ribbon((x, y), (x + 1, y + s * 3), width=1.2), darker(green, 0.35))
        sheet.fill(smooth((x - s, y - s), (x, y - s * 0.4), (x + s, y - s), (x, y + s)), petal)


def forest(rng: np.random.Generator, sheet: Sheet) -> None:
    """Trunks behind trunks, and crowns."""
    w, h = sheet.width, sheet.height
    leaf = pick(rng, "7d9a6a", "b98d55", "6f9488", "a8685a")
    for depth in (0.2, 0.5, 0.85):
        bark = mix(sheet.mood.bottom, sheet.mood.tone(darker(WOODS, 0.35 * depth)), 0.3 + 0.6 * depth)
        crown = mix(sheet.mood.bottom, sheet.mood.tone(darker(leaf, 0.3 * depth)), 0.35 + 0.6 * depth)
        for x in rng.uniform(0, w, int(rng.integers(4, 8))):
            wide = (3 + 11 * depth) * rng.uniform(0.7, 1.2)
            sheet.fill(ribbon((x, -5), (x + rng.uniform(-6, 6), h * 0.5), (x, h), width=wide, end=wide * 1.5), bark)
        for x in np.arange(-10.0, w + 20, 22):
            y, r = rng.uniform(-0.08, 0.12) * h, rng.uniform(0.08, 0.16) * h
            sheet.fill(ellipse(x, y, r * 1.2, r), mix(crown, lighter(crown, 0.25), rng.random()))
        sheet.below(ridge(rng, h * (0.66 + 0.28 * depth), 5), crown)
    paint_grass(rng, sheet, h * 0.78, crown, 120)


def parlour(rng: np.random.Generator, sheet: Sheet) -> None:
    """Wallpaper of scales, and a table."""
    paper = sheet.mood.tone(pick(rng, "a9bcb4", "cdb49a", "b3aac2", "c7c1a4", "9fb3c4"))
    step, other = rng.uniform(16, 26), darker(paper, 0.14)
    for row, y in enumerate(np.arange(sheet.height + step, -step, -step * 0.5)):
        for x in np.arange(-step * 0.5 * (row % 2), sheet.width + step, step):
            sheet.fill(ellipse(x, y - step * 0.5, step * 0.5), other)
            sheet.fill(ellipse(x, y - step * 0.5, step * 0.42), lighter(paper, 0.12 * rng.random()))
    wood, top = sheet.mood.tone(pick(rng, "a98563", "8c7260", "b89b7c")), sheet.height * rng.uniform(0.68, 0.85)
    sheet.below(np.full(2, top), lighter(wood, 0.2))
    sheet.below(np.full(2, top + 4), wood)
    for y in rng.uniform(top + 8, sheet.height, 9):
        x, long = rng.uniform(0, sheet.width), rng.uniform(20, 80)
        sheet.fill(ribbon((x, y), (x + long / 2, y + 1.5), (x + long, y), width=1.5, end=0.5), darker(wood, 0.25))


def reef(rng: np.random.Generator, sheet: Sheet) -> None:
    """Under water: rays, weed, bubbles, sand."""
    w, h = sheet.width, sheet.height
    water = sheet.mood.tone(pick(rng, "4f93a3", "5c8fb0", "62a394"))
    sheet.below(np.zeros(2), water)
    for x in rng.uniform(-0.2, 1.1, 5) * w:
        lean, wide = rng.uniform(20, 70), rng.uniform(12, 36)
        sheet.fill(polygon((x, 0), (x + wide, 0), (x + wide * 1.8 + lean, h), (x + lean, h)), lighter(water, 0.5), 0.22)
    for depth in (0.3, 0.65, 1.0):
        ground = mix(water, sheet.mood.tone(hex_colour("d2bd94")), 0.2 + 0.6 * depth)
        line = ridge(rng, h * (0.6 + 0.3 * depth), 9)
        for x in rng.uniform(0, w, int(rng.integers(3, 7))):
            y, tall, sway = h * (0.68 + 0.3 * depth), rng.uniform(0.2, 0.45) * h, rng.uniform(-9, 9)
            weed = ribbon(
                (x, y), (x + sway, y - tall * 0.35), (x - sway, y - tall * 0.7), (x, y - tall), width=8, end=1
            )
            sheet.fill(weed, mix(water, darker(hex_colour("5f8f6a"), 0.25), 0.3 + 0.5 * depth))
        sheet.below(line, ground)
    for x, y in rng.uniform((0, 0), (w, h * 0.8), (14, 2)):
        r = rng.uniform(1.5, 5)
        sheet.fill(ellipse(x, y, r), lighter(water, 0.6), 0.5)
        sheet.fill(ellipse(x, y, r * 0.7), water, 0.7)


SCENES: dict[str, Scene] = {
    "cobbles": cobbles,
    "forest": forest,
    "hills": hills,
    "meadow": meadow,
    "parlour": parlour,
    "reef": reef,
    "sea": sea,
    "town": town,
}


def backdrop(rng: np.random.Generator, width: int, height: int) -> NDArray[np.float32]:
    """A place in some light, with the tooth of paper [H, W, 3], 0–255."""
    mood = MOODS[rng.integers(len(MOODS))]
    scene = list(SCENES.values())[rng.integers(len(SCENES))]
    sheet = Sheet(width, height, mood)
    scene(rng, sheet)
    return sheet.pixels() * (1 + 0.04 * texture(rng, width, height)[..., None])
