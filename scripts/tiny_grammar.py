"""Categories from a grammar: an outline, parts around it and an emblem on it, all drawn once from a seed.

What makes a category is which outline, which parts where, and which emblem. Each instance of it then has its own
colours, pattern and proportions, so that structure tells it and colour does not, as in the demo pictures.

Nothing here may resemble the demo's own classes: `invent` throws such combinations away.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tag2box.data.demo_drawing import Colour, Patch, Points, darker, ellipse, moved, polygon, ribbon, smooth
from tag2box.data.demo_patterns import AMBER, INK, PALETTE, RED, WHITE, Paints, bar, dimmed, pattern

Rng = np.random.Generator
_TURN = np.linspace(0, 2 * np.pi, 72, endpoint=False)

# ---- outlines: about the unit disc, from the category's own numbers


def _polar(radius: Points, turn: Points = _TURN) -> Points:
    return np.stack([radius * np.sin(turn), -radius * np.cos(turn)], axis=1)


def _superellipse(rng: Rng) -> Points:
    power, wide = 2 / rng.uniform(1.2, 6), rng.uniform(0.55, 1)
    x, y = np.cos(_TURN), np.sin(_TURN)
    points = np.stack([np.sign(x) * np.abs(x) ** power, np.sign(y) * np.abs(y) ** power], axis=1)
    return points * ((wide, 1) if rng.random() < 0.5 else (1, wide))


def _regular(rng: Rng) -> Points:
    turn = np.arange(k := int(rng.integers(3, 9))) * 2 * np.pi / k
    return _polar(np.ones(k), turn + rng.choice((0, np.pi / k)))


def _star(rng: Rng) -> Points:
    turn = np.arange(2 * (k := int(rng.integers(4, 9)))) * np.pi / k
    return _polar(np.where(np.arange(2 * k) % 2, rng.uniform(0.4, 0.75), 1), turn)


def _gear(rng: Rng) -> Points:
    teeth = np.sin(_TURN * rng.integers(5, 10)) > 0
    return _polar(np.where(teeth, 1, rng.uniform(0.7, 0.82)))


def _petals(rng: Rng) -> Points:
    return _polar(0.8 + rng.uniform(0.12, 0.25) * np.cos(_TURN * rng.integers(3, 8)))


def _blob(rng: Rng) -> Points:
    waves = [rng.uniform(0.05, 0.16) * np.cos(k * _TURN + rng.uniform(0, 7)) for k in (2, 3, 4)]
    return _polar(0.8 + np.sum(waves, axis=0))


def _drop(rng: Rng) -> Points:
    side = rng.choice((-1, 1))
    return smooth((0, -1), (0.3, -0.3), (0.6, 0.4), (0, 0.9), (-0.6, 0.4), (-0.3, -0.3)) * (1, side)


def _heart(rng: Rng) -> Points:
    return smooth(
        (0, 0.9), (0.65, 0.3), (0.9, -0.3), (0.5, -0.75), (0, -0.4), (-0.5, -0.75), (-0.9, -0.3), (-0.65, 0.3)
    )


def _crescent(rng: Rng) -> Points:
    bite = rng.uniform(0.1, 0.45)
    moon = smooth((0.3, -0.95), (-0.5, -0.7), (-0.85, 0), (-0.5, 0.7), (0.3, 0.95), (bite - 0.4, 0.45), (bite - 0.5, 0),
                  (bite - 0.4, -0.45))  # fmt: skip
    return moved(moon, 0, 0, turn=float(rng.choice((0, 0.8, 1.57, 2.4))))


def _trapezoid(rng: Rng) -> Points:
    top, bottom, tall = rng.uniform(0.3, 1), rng.uniform(0.3, 1), rng.uniform(0.5, 0.95)
    return polygon((-top, -tall), (top, -tall), (bottom, tall), (-bottom, tall))


def _cross(rng: Rng) -> Points:
    a, b = rng.uniform(0.25, 0.45), rng.uniform(0.7, 1)
    return polygon((-a, -1), (a, -1), (a, -a), (b, -a), (b, a), (a, a), (a, 1), (-a, 1), (-a, a), (-b, a), (-b, -a),
                   (-a, -a))  # fmt: skip


def _turned(rng: Rng) -> Points:
    """As from a lathe: vases, skittles, bulbs."""
    heights, radii = np.linspace(-0.95, 0.95, 6), rng.uniform(0.22, 0.8, 6)
    right = list(zip(radii, heights, strict=True))
    return smooth(*right, *[(-r, y) for r, y in right[::-1]])


def _lens(rng: Rng) -> Points:
    leaf = smooth((0, -1), (rng.uniform(0.3, 0.5), -0.35), (0.4, 0.4), (0, 1), (-0.4, 0.4), (-0.45, -0.35))
    return moved(leaf, 0, 0, turn=float(rng.choice((0, 0.7, -0.7))))


OUTLINES: tuple[Callable[[Rng], Points], ...] = (
    _superellipse, _regular, _star, _gear, _petals, _blob, _drop, _heart, _crescent, _trapezoid, _cross, _turned, _lens,
)  # fmt: skip

# ---- parts: rooted at the origin, pointing up, about half a unit long


def _spike(rng: Rng) -> list[Points]:
    wide = rng.uniform(0.1, 0.3)
    return [polygon((-wide, 0.1), (rng.uniform(-0.15, 0.15), -0.6), (wide, 0.1))]


def _leaf(rng: Rng) -> list[Points]:
    wide = rng.uniform(0.12, 0.3)
    return [smooth((0, 0.1), (wide, -0.25), (rng.uniform(-0.2, 0.2), -0.65), (-wide, -0.25))]


def _knob(rng: Rng) -> list[Points]:
    reach = rng.uniform(0.2, 0.5)
    return [ribbon((0, 0.1), (0, -reach), width=0.09), ellipse(0, -reach, rng.uniform(0.11, 0.2))]


def _hook(rng: Rng) -> list[Points]:
    side = rng.choice((-1, 1))
    return [
        ribbon((0, 0.1), (0, -0.3), (side * 0.15, -0.5), (side * 0.4, -0.45), width=rng.uniform(0.1, 0.18), end=0.06)
    ]


def _loop(rng: Rng) -> list[Points]:
    wide = rng.uniform(0.18, 0.35)
    return [ribbon((-wide, 0.08), (-wide, -0.25), (0, -0.45), (wide, -0.25), (wide, 0.08), width=0.11)]


def _fork(rng: Rng) -> list[Points]:
    spread = rng.uniform(0.15, 0.35)
    return [ribbon((0, 0.1), (s * spread * 0.4, -0.25), (s * spread, -0.6), width=0.11, end=0.07) for s in (-1, 1)]


def _fan(rng: Rng) -> list[Points]:
    leaf = smooth((0, 0), (0.1, -0.25), (0, -0.5), (-0.1, -0.25))
    return [moved(leaf, 0, 0.05, turn=t) for t in (-0.7, 0, 0.7)]


def _block(rng: Rng) -> list[Points]:
    wide, tall = rng.uniform(0.12, 0.3), rng.uniform(0.2, 0.45)
    return [bar(-wide, -tall, 2 * wide, tall + 0.1)]


def _wheel(rng: Rng) -> list[Points]:
    return [ellipse(0, -0.05, rng.uniform(0.2, 0.32))]


PARTS: tuple[Callable[[Rng], list[Points]], ...] = (_spike, _leaf, _knob, _hook, _loop, _fork, _fan, _block, _wheel)

# ---- emblems: about the unit disc, from dark, light and bright

Looks = tuple[Colour, Colour, Colour]


def _rings(looks: Looks) -> list[Patch]:
    return [Patch(ellipse(0, 0, r), looks[i]) for i, r in enumerate((1, 0.7, 0.35))]


def _plus(looks: Looks) -> list[Patch]:
    bars = bar(-0.75, -0.22, 1.5, 0.44), bar(-0.22, -0.75, 0.44, 1.5)
    return [Patch(ellipse(0, 0, 1), looks[0]), *(Patch(outline, looks[1]) for outline in bars)]


def _asterisk(looks: Looks) -> list[Patch]:
    turn = np.arange(10) * np.pi / 5
    return [Patch(ellipse(0, 0, 1), looks[1]), Patch(_polar(np.where(np.arange(10) % 2, 0.4, 0.9), turn), looks[2])]


def _pane(looks: Looks) -> list[Patch]:
    panes = [bar(x, y, 0.55, 0.55) for x in (-0.7, 0.15) for y in (-0.7, 0.15)]
    return [Patch(bar(-0.9, -0.9, 1.8, 1.8), looks[0]), *(Patch(pane, looks[2]) for pane in panes)]


def _blossom(looks: Looks) -> list[Patch]:
    petals = [Patch(moved(ellipse(0.6, 0, 0.38, 0.3), 0, 0, turn=t), looks[2]) for t in np.arange(5) * 2 * np.pi / 5]
    return [*petals, Patch(ellipse(0, 0, 0.36), looks[0])]


def _dots(looks: Looks) -> list[Patch]:
    return [Patch(ellipse(x, y, 0.34), looks[1]) for x, y in ((0, -0.55), (0.6, 0.45), (-0.6, 0.45))]


def _chevrons(looks: Looks) -> list[Patch]:
    arrow = polygon((-0.8, 0.2), (0, -0.35), (0.8, 0.2), (0.8, 0.5), (0, -0.05), (-0.8, 0.5))
    return [Patch(moved(arrow, 0, y), looks[i]) for i, y in enumerate((-0.5, 0, 0.5))]


def _keyhole(looks: Looks) -> list[Patch]:
    slot = polygon((-0.15, 0), (0.15, 0), (0.3, 0.6), (-0.3, 0.6))
    return [Patch(ellipse(0, 0, 0.75, 1), looks[2]), Patch(ellipse(0, -0.2, 0.3), looks[0]), Patch(slot, looks[0])]


def _checks(looks: Looks) -> list[Patch]:
    tiles = [bar(-0.9 + 0.6 * i, -0.9 + 0.6 * j, 0.6, 0.6) for i in range(3) for j in range(3) if (i + j) % 2]
    return [Patch(bar(-0.9, -0.9, 1.8, 1.8), looks[1]), *(Patch(tile, looks[0]) for tile in tiles)]


def _bolt(looks: Looks) -> list[Patch]:
    zigzag = polygon((0.2, -0.9), (-0.5, 0.1), (-0.05, 0.1), (-0.25, 0.9), (0.5, -0.15), (0.05, -0.15))
    return [Patch(_polar(np.ones(6), np.arange(6) * np.pi / 3), looks[0]), Patch(zigzag, looks[2])]


def _halves(looks: Looks) -> list[Patch]:
    disc = ellipse(0, 0, 0.95)
    return [Patch(disc, looks[1]), Patch(bar(0, -1, 1, 2), looks[0], inside=disc)]


def _diamond(looks: Looks) -> list[Patch]:
    return [
        Patch(polygon((0, -s), (s * 0.8, 0), (0, s), (-s * 0.8, 0)), looks[i]) for i, s in enumerate((1, 0.65, 0.3))
    ]


def _grille(looks: Looks) -> list[Patch]:
    bars = [Patch(bar(x, -0.6, 0.2, 1.2), looks[1]) for x in (-0.6, -0.1, 0.4)]
    return [Patch(bar(-0.9, -0.8, 1.8, 1.6), looks[0]), *bars]


def _face(looks: Looks) -> list[Patch]:
    eyes = [Patch(ellipse(s * 0.5, -0.2, r), c) for r, c in ((0.3, WHITE), (0.15, INK)) for s in (-1, 1)]
    return [*eyes, Patch(ribbon((-0.4, 0.4), (0, 0.62), (0.4, 0.4), width=0.14), INK)]


EMBLEMS: tuple[Callable[[Looks], list[Patch]], ...] = (
    _rings, _plus, _asterisk, _pane, _blossom, _dots, _chevrons, _keyhole, _checks, _bolt, _halves, _diamond, _grille,
    _face,
)  # fmt: skip

# ---- a category


@dataclass(frozen=True, slots=True)
class Group:
    """One part, glued on in several places of the body's edge."""

    outlines: tuple[Points, ...]
    turns: tuple[float, ...]
    """Where, in radians clockwise from the top."""
    scale: float
    behind: bool


@dataclass(frozen=True, slots=True)
class Category:
    """What its instances have in common. Calling it draws one, as the demo's drawings do."""

    body: Points
    head: Points | None
    groups: tuple[Group, ...]
    emblem: Callable[[Looks], list[Patch]]
    place: tuple[float, float]
    size: float
    looks: Looks | None
    """The emblem's colours where they are always the same, as those of the demo's striking parts are."""

    def __call__(self, rng: Rng, paints: Paints) -> list[Patch]:
        """One instance: its own proportions and pattern, in the given colours."""
        stretch = rng.uniform(0.88, 1.12, 2)
        body = self.body * stretch
        parts = [(group, self._parts(rng, group, body, paints)) for group in self.groups]
        heads = [] if self.head is None else [Patch(self.head * stretch, paints.pale)]
        return [
            *(patch for group, patches in parts if group.behind for patch in patches),
            *heads,
            Patch(body, paints.body),
            *pattern(rng, body, paints.accent),
            dimmed(body, 0.3, 0.25, 0.16),
            Patch(ellipse(-0.35, -0.4, 0.1, 0.24, 0.6), WHITE, inside=body, opacity=0.35),
            *(patch for group, patches in parts if not group.behind for patch in patches),
            *self._badge(rng, stretch, paints),
        ]

    def _parts(self, rng: Rng, group: Group, body: Points, paints: Paints) -> list[Patch]:
        scale = group.scale * rng.uniform(0.85, 1.15)
        colours = paints.accent, darker(paints.accent, 0.2)
        found = []
        for turn in group.turns:
            x, y = _edge(body, turn)
            found += [Patch(moved(o, x, y, scale, turn), colours[i % 2]) for i, o in enumerate(group.outlines)]
        return found

    def _badge(self, rng: Rng, stretch: Points, paints: Paints) -> list[Patch]:
        looks = self.looks or (darker(paints.accent, 0.45), paints.pale, paints.accent)
        x, y = np.array(self.place) * stretch + rng.uniform(-0.06, 0.06, 2)
        size = self.size * rng.uniform(0.88, 1.12)
        return [Patch(moved(p.outline, x, y, size), p.colour, inside=_placed(p.inside, x, y, size))
                for p in self.emblem(looks)]  # fmt: skip


def _placed(outline: Points | None, x: float, y: float, scale: float) -> Points | None:
    return None if outline is None else moved(outline, x, y, scale)


def _edge(outline: Points, turn: float) -> Points:
    """Where a ray from the middle, clockwise from the top, leaves the outline; a little inside it."""
    direction = np.array([np.sin(turn), -np.cos(turn)])
    after = np.roll(outline, -1, axis=0)
    line = outline[None] + np.linspace(0, 1, 8, endpoint=False)[:, None, None] * (after - outline)[None]  # [8, N, 2]
    points = line.reshape(-1, 2)
    along, across = points @ direction, points @ np.array([direction[1], -direction[0]])  # [8 N] each
    near = np.abs(across) < 0.12
    best = np.argmax(np.where(near, along, -np.inf)) if near.any() else np.argmax(along)
    edge: Points = points[best] * 0.94
    return edge


def _turns(rng: Rng) -> tuple[float, ...]:
    """Places around the body: a mirrored pair, a ring, three on top, or a single one."""
    kind = rng.integers(5)
    if kind < 2:
        t = rng.uniform(0.3, 2.9)
        return t, -t
    if kind == 2:
        k = int(rng.integers(3, 8))
        return tuple(np.arange(k) * 2 * np.pi / k)
    if kind == 3:
        return -0.6, 0.0, 0.6
    return (float(rng.choice((0, 0.8, 1.57, 2.4, 3.14, 4.71))),)


def _group(rng: Rng) -> Group:
    part = PARTS[rng.integers(len(PARTS))]
    return Group(tuple(part(rng)), _turns(rng), rng.uniform(0.7, 1.4), bool(rng.random() < 0.7))


def invent(rng: Rng) -> Category:
    """A new category; all of it follows from the generator's state."""
    outline = OUTLINES[rng.integers(len(OUTLINES))]
    emblem = EMBLEMS[rng.integers(len(EMBLEMS))]
    groups = tuple(_group(rng) for _ in range(int(rng.integers(1, 4))))
    head = None
    if rng.random() < 0.35:
        side = float(rng.choice((0, 0, 0, 0.8, 3.14)))
        body = OUTLINES[rng.integers(len(OUTLINES))](rng) * rng.uniform(0.4, 0.6)
        head = body + 1.1 * np.array([np.sin(side), -np.cos(side)])
    looks = None
    if rng.random() < 0.5:
        bright = (AMBER, RED, *PALETTE)
        looks = INK, WHITE, bright[rng.integers(len(bright))]
    place = rng.uniform(-0.25, 0.25), rng.uniform(-0.3, 0.3)
    made = Category(outline(rng), head, groups, emblem, place, rng.uniform(0.25, 0.42), looks)
    # Two eyes and ears or wings would be an owl, a lens with an eye a fish: those are the demo's to know.
    if (emblem is _face and any(len(g.turns) == 2 for g in groups)) or (
        outline is _lens and emblem in (_rings, _halves)
    ):
        return invent(rng)
    return made
