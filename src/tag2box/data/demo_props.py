"""What is in the demo pictures and of no class: things to be told from the classes, and what stands before them all.

They wear the colours and patterns of the classes, and a few carry shapes that come close to a striking part: a ring, a
disc in a disc, a basket's weave, a lit window.
"""

import numpy as np

from tag2box.data.demo_drawing import Patch, darker, ellipse, hex_colour, lighter, moved, polygon, ribbon, smooth
from tag2box.data.demo_patterns import INK, WHITE, WOOD, Drawing, Paints, pattern


def kite(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A kite with its tail."""
    sheet = polygon((0, -1), (0.6, -0.3), (0, 0.65), (-0.6, -0.3))
    tail = ribbon((0, 0.6), (0.2, 0.85), (-0.15, 1.1), (0.15, 1.4), width=0.05)
    half = polygon((0, -1), (0.6, -0.3), (0, 0.65))
    bows = [Patch(ellipse(x, y, 0.13, 0.07, 0.6), paints.accent) for x, y in ((0.17, 0.85), (-0.12, 1.1), (0.12, 1.36))]
    return [
        Patch(tail, INK),
        *bows,
        Patch(sheet, paints.body),
        *pattern(rng, sheet, paints.accent),
        Patch(half, INK, inside=sheet, opacity=0.15),
    ]


def parasol(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A sunshade: a cap like a toadstool's, on a stick."""
    dome = smooth(
        (0, -0.75), (0.6, -0.5), (0.95, 0.02), (0.5, -0.06), (0, 0.03), (-0.5, -0.06), (-0.95, 0.02), (-0.6, -0.5)
    )
    gores = [Patch(dome * (share, 1), (paints.accent, paints.body)[i % 2]) for i, share in enumerate((0.66, 0.3))]
    hook = ribbon((0, -0.1), (0, 0.85), (0.12, 1.0), (0.24, 0.85), width=0.07)
    return [Patch(hook, WOOD), Patch(dome, paints.body), *gores, Patch(ellipse(0, -0.76, 0.05), paints.accent)]


def ball(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A striped ball."""
    skin = ellipse(0, 0, 1)
    lean = rng.uniform(-0.6, 0.6)
    gores = [Patch(ellipse(0, 0, r, 1, lean), c) for r, c in ((0.68, paints.accent), (0.3, paints.pale))]
    return [Patch(skin, paints.body), *gores, Patch(ellipse(0.55, 0.5, 0.9), INK, inside=skin, opacity=0.15)]


def plate(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """Rings in rings, as an eye has them, without the eye's colours."""
    radii = np.sort(rng.uniform(0.2, 0.85, int(rng.integers(2, 4))))[::-1]
    rings = [Patch(ellipse(0, 0, r), (paints.accent, paints.pale)[i % 2]) for i, r in enumerate(radii)]
    return [Patch(ellipse(0, 0, 1), paints.body), *rings]


def wreath(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A ring of leaves and berries: a lifebuoy's shape without its stripes."""
    turns = np.arange(14) * 2 * np.pi / 14
    leaves = [Patch(moved(ellipse(0.75, 0, 0.17, 0.3, 0.5), 0, 0, turn=t), darker(paints.body, 0.2 * (i % 2)))
              for i, t in enumerate(turns)]  # fmt: skip
    berries = [Patch(moved(ellipse(0.75, 0, 0.1), 0, 0, turn=t), paints.accent) for t in turns[::3] + rng.uniform(0, 1)]
    return leaves + berries


def crate(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A wooden box with painted slats."""
    side = polygon((-0.9, -0.75), (0.9, -0.75), (0.9, 0.75), (-0.9, 0.75))
    slats = [
        Patch(ribbon((-0.9, y), (0.9, y), width=0.07), darker(paints.body, 0.4), inside=side)
        for y in (-0.35, 0.05, 0.42)
    ]
    brace = ribbon((-0.85, 0.7), (0.85, -0.7), width=0.22)
    posts = [polygon((x, -0.8), (x + 0.24, -0.8), (x + 0.24, 0.8), (x, 0.8)) for x in (-0.95, 0.71)]
    return [Patch(side, paints.body), *slats, *(Patch(p, lighter(WOOD, 0.25)) for p in (brace, *posts))]


def lantern(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A paper lantern with ribs."""
    paper = ellipse(0, 0, 0.8, 0.85)
    ribs = [
        Patch(ellipse(0, 0, r, 0.85), c)
        for r, c in ((0.55, lighter(paints.body, 0.2)), (0.25, lighter(paints.body, 0.4)))
    ]
    caps = [
        Patch(polygon((-0.3, y), (0.3, y), (0.3, y + 0.16), (-0.3, y + 0.16)), darker(paints.accent, 0.2))
        for y in (-0.95, 0.79)
    ]
    tassel = [Patch(ribbon((x, 0.9), (x * 1.6, 1.35), width=0.05), paints.accent) for x in (-0.08, 0, 0.08)]
    return [*tassel, Patch(paper, paints.body), *ribs, *caps]


def pear(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A fruit with a leaf: a balloon's outline, upside down and without a basket."""
    neck = rng.uniform(0.2, 0.6)
    skin = smooth(
        (0, -0.75), (neck, -0.6), (0.72, 0.25), (0.45, 0.85), (0, 0.9), (-0.45, 0.85), (-0.72, 0.25), (-neck, -0.6)
    )
    stalk = ribbon((0, -0.7), (0.08, -1.05), width=0.09)
    leaf = smooth((0.06, -0.88), (0.3, -1.12), (0.62, -1.0), (0.35, -0.82))
    gloss = Patch(ellipse(-0.32, 0.15, 0.1, 0.25, 0.3), WHITE, inside=skin, opacity=0.35)
    shade = Patch(ellipse(0.6, 0.4, 0.6, 0.9), INK, inside=skin, opacity=0.15)
    return [Patch(stalk, darker(WOOD, 0.4)), Patch(leaf, paints.accent), Patch(skin, paints.body), shade, gloss]


def pot(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A potted plant."""
    tub = polygon((-0.5, 0.1), (0.5, 0.1), (0.36, 0.95), (-0.36, 0.95))
    rim = polygon((-0.58, 0.02), (0.58, 0.02), (0.58, 0.24), (-0.58, 0.24))
    leaf = smooth((0, 0), (0.2, -0.5), (0, -1.05), (-0.2, -0.5))
    leaves = [
        Patch(moved(leaf, 0, 0.1, turn=turn), darker(paints.accent, 0.25 * (i % 2)))
        for i, turn in enumerate((-0.9, 0.9, -0.45, 0.45, 0))
    ]
    return [
        *leaves,
        Patch(tub, paints.body),
        *pattern(rng, tub, paints.pale, plain=0.6),
        Patch(rim, darker(paints.body, 0.15)),
    ]


def hut(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A beach hut with a lit window, square where a toadstool's is round."""
    wall = polygon((-0.6, -0.25), (0.6, -0.25), (0.6, 0.95), (-0.6, 0.95))
    roof = polygon((-0.8, -0.2), (0, -0.95), (0.8, -0.2))
    pane = polygon((-0.2, 0.05), (0.2, 0.05), (0.2, 0.42), (-0.2, 0.42))
    return [
        Patch(wall, paints.body),
        *pattern(rng, wall, paints.pale),
        Patch(roof, darker(paints.accent, 0.1)),
        Patch(moved(pane * 1.25, 0, -0.06), darker(WOOD, 0.5)),
        Patch(pane, hex_colour("ffdf7a")),
    ]


DISTRACTORS: dict[str, Drawing] = {
    "ball": ball,
    "crate": crate,
    "hut": hut,
    "kite": kite,
    "lantern": lantern,
    "parasol": parasol,
    "pear": pear,
    "plate": plate,
    "pot": pot,
    "wreath": wreath,
}


# ---- in front of everything


def branch(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A leafy branch that reaches in from the left."""
    bend = rng.uniform(-0.35, 0.35)
    line = smooth((-1, 0), (0, bend), (1, bend * 0.3), closed=False)
    leaf = smooth((0, 0), (0.13, -0.17), (0, -0.46), (-0.13, -0.17))
    found = [Patch(ribbon((-1, 0), (0, bend), (1, bend * 0.3), width=0.08, end=0.02), darker(WOOD, 0.5))]
    for i, (x, y) in enumerate(line[1:]):
        turn = (0.8 if i % 2 else 2.3) + rng.uniform(-0.3, 0.3)
        found.append(Patch(moved(leaf, x, y, rng.uniform(0.7, 1.0), turn), darker(paints.body, rng.uniform(0, 0.35))))
    return found


def reeds(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A tuft of blades, rooted below."""
    found = []
    for x in np.sort(rng.uniform(-0.5, 0.5, 9)):
        tip = (x * 1.6 + rng.uniform(-0.3, 0.3), rng.uniform(-1.0, -0.1))
        blade = ribbon((x, 1.0), (x * 1.1, 0.3), tip, width=0.11, end=0.01)
        found.append(Patch(blade, darker(paints.body, rng.uniform(0, 0.4))))
    return found


def post(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A painted mooring post."""
    pole = polygon((-0.1, -1), (0.1, -1), (0.1, 1), (-0.1, 1))
    turns = [Patch(polygon((-0.2, y), (0.2, y - 0.2), (0.2, y), (-0.2, y + 0.2)), paints.accent, inside=pole)
             for y in np.arange(-1, 1.2, 0.4)]  # fmt: skip
    return [Patch(pole, paints.body), *turns, Patch(ellipse(0, -1.02, 0.15), darker(paints.accent, 0.15))]


def bush(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A round bush: the only clutter that can hide most of a thing."""
    balls = [(-0.55, 0.25, 0.5), (0.55, 0.25, 0.5), (0.0, -0.1, 0.62), (0.0, 0.4, 0.5)]
    found = [Patch(ellipse(x, y, r), darker(paints.body, 0.12 * i)) for i, (x, y, r) in enumerate(balls)]
    tufts = rng.uniform((-0.7, -0.4), (0.7, 0.6), (14, 2))
    return found + [Patch(ellipse(x, y, 0.07), lighter(paints.body, 0.2)) for x, y in tufts]


CLUTTER: dict[str, Drawing] = {"branch": branch, "reeds": reeds, "post": post, "bush": bush}
