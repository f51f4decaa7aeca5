"""What the demo's trunk is pretrained to tell apart: things drawn by hand, and many more from a grammar.

None is a class of the demo or looks like one, nor is it one of the demo's distractors, which stay what they are there:
things of no category.
"""

import numpy as np
from tiny_grammar import Rng, invent

from tag2box.data.demo_drawing import Patch, Points, darker, ellipse, lighter, moved, polygon, ribbon, smooth
from tag2box.data.demo_patterns import AMBER, INK, WHITE, WOOD, Drawing, Paints, bar, dimmed, pattern

INVENTED = 100
LEFT_OUT = frozenset({30, 65, 82, 92})
"""Inventions that a look at the contact sheet found too close to a toadstool (30) or a fish (the others)."""


def _clad(rng: Rng, outline: Points, paints: Paints) -> list[Patch]:
    """A body with its pattern, its shaded side and a gloss."""
    return [Patch(outline, paints.body), *pattern(rng, outline, paints.accent), dimmed(outline, 0.3, 0.25, 0.16)]


def _wheel(x: float, y: float, r: float) -> list[Patch]:
    return [Patch(ellipse(x, y, r), INK), Patch(ellipse(x, y, r * 0.55), lighter(INK, 0.7))]


def car(rng: Rng, paints: Paints) -> list[Patch]:
    """A car from the side."""
    high = rng.uniform(-0.62, -0.45)
    cabin = smooth((-0.6, 0), (-0.4, high), (0.2, high), (0.55, 0), (0, 0.05))
    body = smooth((-0.98, 0.3), (-0.9, -0.02), (0, -0.08), (0.85, 0), (1, 0.3), (0.8, 0.42), (-0.8, 0.42))
    panes = [Patch(moved(bar(x, -0.34, 0.3, 0.26), 0, 0), WHITE) for x in (-0.42, -0.05)]
    return [Patch(cabin, paints.accent), *panes, *_clad(rng, body, paints), *_wheel(-0.52, 0.42, 0.24),
            *_wheel(0.52, 0.42, 0.24), Patch(ellipse(0.92, 0.14, 0.07), AMBER)]  # fmt: skip


def bus(rng: Rng, paints: Paints) -> list[Patch]:
    """A bus with a row of windows."""
    body = bar(-1, -0.55, 2, 1.05)
    panes = [Patch(bar(x, -0.4, 0.26, 0.34), lighter(paints.pale, 0.4)) for x in (-0.88, -0.52, -0.16, 0.2, 0.56)]
    return [*_clad(rng, body, paints), Patch(bar(-1, 0.12, 2, 0.12), paints.pale), *panes, *_wheel(-0.55, 0.5, 0.2),
            *_wheel(0.55, 0.5, 0.2)]  # fmt: skip


def tractor(rng: Rng, paints: Paints) -> list[Patch]:
    """A tractor: one large and one small wheel."""
    hood, cab = bar(-0.95, -0.15, 1.1, 0.45), bar(0.05, -0.8, 0.65, 1.1)
    pipe = Patch(bar(-0.7, -0.55, 0.1, 0.45), INK)
    return [pipe, *_clad(rng, hood, paints), Patch(cab, paints.accent), Patch(bar(0.15, -0.68, 0.42, 0.4), WHITE),
            *_wheel(0.45, 0.42, 0.5), *_wheel(-0.65, 0.6, 0.28)]  # fmt: skip


def rocket(rng: Rng, paints: Paints) -> list[Patch]:
    """A rocket with a porthole."""
    hull = smooth((0, -1), (0.32, -0.5), (0.34, 0.4), (0.2, 0.62), (-0.2, 0.62), (-0.34, 0.4), (-0.32, -0.5))
    fins = [Patch(polygon((s * 0.25, 0.1), (s * 0.72, 0.8), (s * 0.2, 0.6)), paints.accent) for s in (-1, 1)]
    flame = smooth((-0.16, 0.6), (0.16, 0.6), (0, rng.uniform(0.9, 1.1)))
    nose = Patch(bar(-1, -1.1, 2, 0.5), paints.accent, inside=hull)
    hole = [Patch(ellipse(0, -0.2, r), c) for r, c in ((0.2, INK), (0.14, lighter(paints.pale, 0.3)))]
    return [Patch(flame, AMBER), *fins, *_clad(rng, hull, paints), nose, *hole]


def fir(rng: Rng, paints: Paints) -> list[Patch]:
    """A fir in three tiers."""
    tiers = [polygon((0, y - 0.62), (w, y), (-w, y)) for y, w in ((0.7, 0.75), (0.3, 0.6), (-0.1, 0.45))]
    return [Patch(bar(-0.12, 0.6, 0.24, 0.4), WOOD), *(p for tier in tiers for p in _clad(rng, tier, paints))]


def cactus(rng: Rng, paints: Paints) -> list[Patch]:
    """A cactus with two arms."""
    arms = [ribbon((s * 0.2, y), (s * 0.6, y), (s * 0.62, y - 0.5), width=0.24) for s, y in ((-1, 0.1), (1, 0.35))]
    trunk = smooth((-0.24, 1), (-0.26, -0.6), (0, -0.95), (0.26, -0.6), (0.24, 1))
    ribs = [Patch(ribbon((x, -0.7), (x, 0.9), width=0.04), INK, inside=trunk, opacity=0.4) for x in (-0.1, 0.1)]
    return [*(Patch(a, darker(paints.body, 0.12)) for a in arms), *_clad(rng, trunk, paints), *ribs,
            Patch(ellipse(0, -0.92, 0.13), paints.accent)]  # fmt: skip


def tulip(rng: Rng, paints: Paints) -> list[Patch]:
    """A flower on its stalk."""
    bloom = smooth((-0.45, -0.9), (-0.2, -0.6), (0, -1), (0.2, -0.6), (0.45, -0.9), (0.42, -0.2), (0, 0), (-0.42, -0.2))
    leaves = [smooth((0, 0.9), (s * 0.35, 0.4), (s * 0.45, 0), (s * 0.12, 0.4)) for s in (-1, 1)]
    return [Patch(ribbon((0, -0.1), (0, 1), width=0.1), paints.accent), *(Patch(x, paints.accent) for x in leaves),
            *_clad(rng, bloom, paints)]  # fmt: skip


def key(rng: Rng, paints: Paints) -> list[Patch]:
    """A key."""
    teeth = [Patch(bar(0.15, y, 0.3, 0.13), paints.body) for y in (0.5, 0.74)]
    return [Patch(ellipse(0, -0.55, 0.45), paints.body), Patch(ellipse(0, -0.55, 0.2), INK),
            Patch(bar(-0.1, -0.2, 0.22, 1.2), paints.body), *teeth]  # fmt: skip


def lamp(rng: Rng, paints: Paints) -> list[Patch]:
    """A table lamp."""
    shade = polygon((-0.32, -0.95), (0.32, -0.95), (0.7, -0.1), (-0.7, -0.1))
    foot = smooth((-0.5, 0.95), (-0.2, 0.75), (0.2, 0.75), (0.5, 0.95))
    return [Patch(bar(-0.06, -0.2, 0.12, 1.05), INK), *_clad(rng, shade, paints), Patch(foot, paints.accent)]


def snail(rng: Rng, paints: Paints) -> list[Patch]:
    """A snail with its house."""
    foot = smooth((-1, 0.5), (-0.85, 0), (-0.65, 0.2), (0.2, 0.35), (0.95, 0.62), (-0.4, 0.68))
    horns = [Patch(ribbon((-0.85, 0.1), (x, -0.35), width=0.05), INK) for x in (-0.98, -0.72)]
    turns = [Patch(ellipse(0.15 - 0.05 * i, -0.02 + 0.05 * i, r), (paints.accent, paints.body)[i % 2])
             for i, r in enumerate((0.42, 0.27, 0.13))]  # fmt: skip
    return [*horns, Patch(foot, paints.pale), Patch(ellipse(0.15, -0.02, 0.56), paints.body), *turns]


def guitar(rng: Rng, paints: Paints) -> list[Patch]:
    """A guitar."""
    body = smooth((0, 0), (0.34, 0.12), (0.26, 0.38), (0.48, 0.72), (0, 1), (-0.48, 0.72), (-0.26, 0.38), (-0.34, 0.12))
    return [
        Patch(bar(-0.07, -0.95, 0.14, 1.1), WOOD),
        Patch(bar(-0.13, -1.1, 0.26, 0.28), INK),
        *_clad(rng, body, paints),
        Patch(ellipse(0, 0.45, 0.14), INK),
        Patch(bar(-0.16, 0.72, 0.32, 0.08), INK),
    ]


def chair(rng: Rng, paints: Paints) -> list[Patch]:
    """A chair from the side."""
    back = bar(-0.55, -1, 0.2, 1.1)
    legs = [Patch(bar(x, 0.1, 0.15, 0.9), darker(paints.body, 0.2)) for x in (-0.55, 0.4)]
    return [*legs, *_clad(rng, back, paints), Patch(bar(-0.6, 0, 1.2, 0.22), paints.accent)]


def crown(rng: Rng, paints: Paints) -> list[Patch]:
    """A crown with three points."""
    band = polygon((-0.9, 0.6), (-1, -0.5), (-0.5, 0), (0, -0.7), (0.5, 0), (1, -0.5), (0.9, 0.6))
    gems = [Patch(ellipse(x, 0.4, 0.11), paints.pale) for x in (-0.5, 0, 0.5)]
    tips = [Patch(ellipse(x, y, 0.12), paints.accent) for x, y in ((-1, -0.52), (0, -0.72), (1, -0.52))]
    return [*_clad(rng, band, paints), Patch(bar(-0.92, 0.25, 1.84, 0.32), paints.accent), *gems, *tips]


def anchor(rng: Rng, paints: Paints) -> list[Patch]:
    """An anchor."""
    arms = ribbon((-0.75, 0.3), (-0.5, 0.8), (0, 0.95), (0.5, 0.8), (0.75, 0.3), width=0.18)
    flukes = [Patch(polygon((s * 0.95, 0.4), (s * 0.72, 0.05), (s * 0.5, 0.38)), paints.body) for s in (-1, 1)]
    return [Patch(ellipse(0, -0.8, 0.24), paints.accent), Patch(ellipse(0, -0.8, 0.11), INK),
            Patch(bar(-0.09, -0.6, 0.18, 1.55), paints.body), Patch(bar(-0.45, -0.45, 0.9, 0.16), paints.accent),
            Patch(arms, paints.body), *flukes]  # fmt: skip


def bell(rng: Rng, paints: Paints) -> list[Patch]:
    """A bell with its clapper."""
    cup = smooth((0, -0.85), (0.4, -0.6), (0.5, 0.1), (0.85, 0.6), (0, 0.66), (-0.85, 0.6), (-0.5, 0.1), (-0.4, -0.6))
    return [Patch(ellipse(0, 0.72, 0.17), INK), Patch(ellipse(0, -0.9, 0.14), paints.accent), *_clad(rng, cup, paints),
            Patch(bar(-1, 0.42, 2, 0.13), paints.accent, inside=cup)]  # fmt: skip


def cat(rng: Rng, paints: Paints) -> list[Patch]:
    """A cat's head with whiskers."""
    head = smooth((0, -0.5), (0.6, -0.4), (0.85, 0.1), (0.45, 0.7), (0, 0.8), (-0.45, 0.7), (-0.85, 0.1), (-0.6, -0.4))
    ears = [polygon((s * 0.8, -0.95), (s * 0.82, -0.1), (s * 0.2, -0.45)) for s in (-1, 1)]
    eyes = [Patch(ellipse(s * 0.34, -0.02, 0.11, 0.17), INK) for s in (-1, 1)]
    whiskers = [Patch(ribbon((s * 0.2, 0.35), (s * 0.95, y), width=0.035), INK) for s in (-1, 1) for y in (0.2, 0.42)]
    return [*(Patch(e, paints.accent) for e in ears), *_clad(rng, head, paints), *eyes, *whiskers,
            Patch(polygon((-0.1, 0.22), (0.1, 0.22), (0, 0.36)), paints.pale)]  # fmt: skip


def rabbit(rng: Rng, paints: Paints) -> list[Patch]:
    """A sitting rabbit, long-eared."""
    ears = [ellipse(s * 0.16 - 0.35, -0.72, 0.11, 0.34, s * 0.2) for s in (-1, 1)]
    body = smooth((-0.3, 0), (0.3, -0.1), (0.75, 0.4), (0.6, 0.95), (-0.5, 0.95))
    return [
        *(Patch(e, paints.accent) for e in ears),
        Patch(ellipse(0.72, 0.72, 0.18), WHITE),
        *_clad(rng, body, paints),
        Patch(ellipse(-0.35, -0.15, 0.36, 0.32), paints.body),
        Patch(ellipse(-0.48, -0.2, 0.06), INK),
    ]


def ice_cream(rng: Rng, paints: Paints) -> list[Patch]:
    """Three scoops in a cone."""
    cone = polygon((-0.45, 0), (0.45, 0), (0, 1.1))
    lines = [Patch(ribbon((s * 0.5, y), (-s * 0.5, y + 0.5), width=0.05), darker(WOOD, 0.4), inside=cone)
             for s in (-1, 1) for y in (-0.2, 0.1, 0.4)]  # fmt: skip
    scoops = ((-0.25, -0.15, paints.accent), (0.25, -0.15, paints.pale), (0, -0.52, paints.body))
    return [Patch(cone, lighter(WOOD, 0.3)), *lines, *(Patch(ellipse(x, y, 0.34), c) for x, y, c in scoops)]


def clock(rng: Rng, paints: Paints) -> list[Patch]:
    """An alarm clock."""
    bells = [Patch(ellipse(s * 0.5, -0.68, 0.27), paints.accent) for s in (-1, 1)]
    feet = [Patch(ribbon((s * 0.4, 0.6), (s * 0.65, 0.98), width=0.14), INK) for s in (-1, 1)]
    hands = [Patch(ribbon((0, 0), (np.sin(t) * r, -np.cos(t) * r), width=0.08), INK)
             for t, r in zip(rng.uniform(0, 6, 2), (0.35, 0.48), strict=True)]  # fmt: skip
    return [*bells, *feet, Patch(ellipse(0, 0, 0.8), paints.body), Patch(ellipse(0, 0, 0.62), WHITE), *hands]


def boot(rng: Rng, paints: Paints) -> list[Patch]:
    """A boot."""
    leg = smooth((-0.5, -0.9), (0.1, -0.9), (0.12, 0.1), (0.75, 0.4), (0.8, 0.75), (-0.5, 0.78))
    return [
        *_clad(rng, leg, paints),
        Patch(bar(-0.6, 0.7, 1.45, 0.18), INK),
        Patch(bar(-0.6, -1, 0.8, 0.26), paints.pale),
    ]


def hat(rng: Rng, paints: Paints) -> list[Patch]:
    """A top hat with a band."""
    top = polygon((-0.52, -0.85), (0.52, -0.85), (0.45, 0.45), (-0.45, 0.45))
    return [*_clad(rng, top, paints), Patch(bar(-0.6, 0.12, 1.2, 0.24), paints.accent, inside=top),
            Patch(ellipse(0, 0.5, 1, 0.2), darker(paints.body, 0.15))]  # fmt: skip


def letter(rng: Rng, paints: Paints) -> list[Patch]:
    """An envelope with a seal."""
    sheet = bar(-1, -0.65, 2, 1.3)
    flap = polygon((-1, -0.65), (1, -0.65), (0, 0.15))
    return [
        *_clad(rng, sheet, paints),
        Patch(flap, darker(paints.body, 0.2)),
        Patch(ellipse(0, 0.12, 0.16), paints.accent),
    ]


def gift(rng: Rng, paints: Paints) -> list[Patch]:
    """A parcel with a bow."""
    loops = [Patch(ellipse(s * 0.27, -0.68, 0.28, 0.16, s * 0.5), paints.accent) for s in (-1, 1)]
    box = bar(-0.75, -0.5, 1.5, 1.4)
    return [*loops, *_clad(rng, box, paints), Patch(bar(-0.13, -0.5, 0.26, 1.4), paints.accent),
            Patch(bar(-0.85, -0.55, 1.7, 0.3), paints.pale)]  # fmt: skip


def candle(rng: Rng, paints: Paints) -> list[Patch]:
    """A candle in its holder."""
    stick = bar(-0.22, -0.45, 0.44, 1.1)
    flame = smooth((0, -1), (0.15, -0.65), (0, -0.48), (-0.15, -0.65))
    return [Patch(flame, AMBER), *_clad(rng, stick, paints), Patch(ellipse(0, 0.72, 0.7, 0.2), paints.accent)]


def drum(rng: Rng, paints: Paints) -> list[Patch]:
    """A drum with laces."""
    side = smooth((-0.8, -0.4), (0.8, -0.4), (0.8, 0.55), (0, 0.75), (-0.8, 0.55))
    laces = [Patch(ribbon((x, -0.35), (x + 0.2, 0.65), (x + 0.4, -0.35), width=0.05), WHITE, inside=side)
             for x in np.arange(-0.8, 0.8, 0.4)]  # fmt: skip
    return [Patch(side, paints.body), *laces, Patch(ellipse(0, -0.42, 0.82, 0.26), paints.accent),
            Patch(ellipse(0, -0.44, 0.7, 0.19), paints.pale)]  # fmt: skip


def butterfly(rng: Rng, paints: Paints) -> list[Patch]:
    """A butterfly."""
    upper = [smooth((0, -0.1), (s * 0.4, -0.8), (s * 0.98, -0.75), (s * 0.8, -0.1)) for s in (-1, 1)]
    lower = [smooth((0, 0), (s * 0.7, 0.05), (s * 0.65, 0.7), (s * 0.2, 0.55)) for s in (-1, 1)]
    return [*(Patch(w, paints.accent) for w in lower), *(p for w in upper for p in _clad(rng, w, paints)),
            Patch(ellipse(0, 0, 0.09, 0.55), INK)]  # fmt: skip


def ladybird(rng: Rng, paints: Paints) -> list[Patch]:
    """A beetle from above."""
    legs = [Patch(ribbon((0, y), (s * 0.95, y + 0.1), width=0.07), INK) for s in (-1, 1) for y in (-0.25, 0.1, 0.45)]
    shell = ellipse(0, 0.15, 0.72, 0.78)
    return [
        *legs,
        Patch(ellipse(0, -0.62, 0.36), INK),
        *_clad(rng, shell, paints),
        Patch(bar(-0.03, -0.6, 0.06, 1.6), INK),
    ]


def crab(rng: Rng, paints: Paints) -> list[Patch]:
    """A crab with its claws up."""
    arms = [Patch(ribbon((s * 0.5, 0.2), (s * 0.9, 0), (s * 0.8, -0.4), width=0.12), paints.accent) for s in (-1, 1)]
    claws = [Patch(polygon((s * 0.62, -0.45), (s * 0.6, -0.95), (s * 0.8, -0.6), (s * 1.02, -0.9), (s * 1, -0.42)),
                   paints.accent) for s in (-1, 1)]  # fmt: skip
    legs = [Patch(ribbon((0, 0.3), (s * 0.8, y), width=0.09), INK) for s in (-1, 1) for y in (0.5, 0.75)]
    return [*legs, *arms, *claws, *_clad(rng, ellipse(0, 0.2, 0.66, 0.42), paints)]


def turtle(rng: Rng, paints: Paints) -> list[Patch]:
    """A tortoise from the side."""
    shell = smooth((-0.7, 0.35), (-0.5, -0.25), (0, -0.5), (0.5, -0.25), (0.7, 0.35))
    legs = [Patch(bar(x, 0.3, 0.24, 0.4), paints.accent) for x in (-0.55, 0.3)]
    return [*legs, Patch(ellipse(-0.88, 0.08, 0.24, 0.2), paints.accent), Patch(ellipse(-0.94, 0.04, 0.05), INK),
            *_clad(rng, shell, paints)]  # fmt: skip


def snowman(rng: Rng, paints: Paints) -> list[Patch]:
    """A snowman with hat and buttons."""
    balls = [Patch(ellipse(0, y, r), paints.pale) for y, r in ((0.6, 0.48), (-0.05, 0.34), (-0.52, 0.25))]
    buttons = [Patch(ellipse(0, y, 0.05), INK) for y in (-0.1, 0.08, 0.4, 0.6)]
    hat = [Patch(bar(-0.36, -0.76, 0.72, 0.1), INK), Patch(bar(-0.22, -1.1, 0.44, 0.36), paints.body)]
    nose = Patch(polygon((0, -0.55), (0.35, -0.48), (0, -0.45)), AMBER)
    return [*balls, *buttons, Patch(bar(-0.3, -0.34, 0.6, 0.14), paints.accent), *hat, nose]


def robot(rng: Rng, paints: Paints) -> list[Patch]:
    """A robot."""
    limbs = [
        Patch(bar(x, y, 0.2, 0.6), paints.accent) for x, y in ((-0.85, -0.05), (0.65, -0.05), (-0.4, 0.6), (0.2, 0.6))
    ]
    eyes = [Patch(bar(s * 0.2 - 0.09, -0.72, 0.18, 0.16), WHITE) for s in (-1, 1)]
    aerial = [Patch(ribbon((0, -0.9), (0, -1.15), width=0.05), INK), Patch(ellipse(0, -1.15, 0.08), AMBER)]
    panel = [Patch(bar(-0.3, 0.05, 0.6, 0.3), INK), Patch(ellipse(-0.12, 0.2, 0.08), AMBER)]
    return [
        *limbs,
        *aerial,
        *_clad(rng, bar(-0.58, -0.25, 1.16, 0.95), paints),
        *panel,
        Patch(bar(-0.42, -0.92, 0.84, 0.6), paints.accent),
        *eyes,
        Patch(bar(-0.24, -0.48, 0.48, 0.07), INK),
    ]


def lighthouse(rng: Rng, paints: Paints) -> list[Patch]:
    """A lighthouse."""
    tower = polygon((-0.28, -0.5), (0.28, -0.5), (0.45, 1), (-0.45, 1))
    return [
        *_clad(rng, tower, paints),
        Patch(bar(-0.4, -0.58, 0.8, 0.12), INK),
        Patch(bar(-0.22, -0.85, 0.44, 0.28), AMBER),
        Patch(polygon((-0.32, -0.85), (0, -1.15), (0.32, -0.85)), paints.accent),
    ]


def windmill(rng: Rng, paints: Paints) -> list[Patch]:
    """A windmill; its vanes stand somewhere."""
    tower = polygon((-0.25, -0.3), (0.25, -0.3), (0.42, 1), (-0.42, 1))
    vane, start = polygon((0, -0.06), (0.8, -0.2), (0.8, 0.06), (0, 0.06)), rng.uniform(0, 1.5)
    vanes = [Patch(moved(vane, 0, -0.3, turn=start + k * np.pi / 2), paints.accent) for k in range(4)]
    return [
        *_clad(rng, tower, paints),
        Patch(bar(-0.12, 0.6, 0.24, 0.4), INK),
        *vanes,
        Patch(ellipse(0, -0.3, 0.1), INK),
    ]


def tent(rng: Rng, paints: Paints) -> list[Patch]:
    """A tent with its flap open."""
    side = polygon((0, -0.75), (1, 0.75), (-1, 0.75))
    return [*_clad(rng, side, paints), Patch(polygon((0, -0.4), (0.35, 0.75), (-0.35, 0.75)), INK),
            Patch(polygon((0, -0.4), (-0.35, 0.75), (-0.6, 0.75)), paints.pale)]  # fmt: skip


def shirt(rng: Rng, paints: Paints) -> list[Patch]:
    """A shirt."""
    cloth = polygon((-0.3, -0.8), (0.3, -0.8), (0.98, -0.35), (0.72, 0.05), (0.5, -0.12), (0.5, 0.85), (-0.5, 0.85),
                    (-0.5, -0.12), (-0.72, 0.05), (-0.98, -0.35))  # fmt: skip
    return [*_clad(rng, cloth, paints), Patch(ellipse(0, -0.82, 0.24, 0.18), INK, inside=cloth)]


def cherries(rng: Rng, paints: Paints) -> list[Patch]:
    """Two cherries."""
    stalks = [Patch(ribbon((x, 0.4), (x * 0.4, -0.3), (0.1, -0.9), width=0.06), WOOD) for x in (-0.5, 0.5)]
    leaf = smooth((0.1, -0.88), (0.45, -1), (0.85, -0.75), (0.45, -0.62))
    return [*stalks, Patch(leaf, paints.accent), *_clad(rng, ellipse(-0.5, 0.5, 0.42), paints),
            *_clad(rng, ellipse(0.5, 0.55, 0.4), paints)]  # fmt: skip


def pencil(rng: Rng, paints: Paints) -> list[Patch]:
    """A pencil on its point."""
    return [*_clad(rng, bar(-0.2, -0.75, 0.4, 1.3), paints), Patch(bar(-0.2, -1, 0.4, 0.26), paints.accent),
            Patch(polygon((-0.2, 0.55), (0.2, 0.55), (0, 1.05)), lighter(WOOD, 0.4)),
            Patch(polygon((-0.08, 0.85), (0.08, 0.85), (0, 1.05)), INK)]  # fmt: skip


def cake(rng: Rng, paints: Paints) -> list[Patch]:
    """A cake of two tiers, with candles."""
    sticks = [Patch(bar(x, -0.95, 0.08, 0.35), paints.accent) for x in (-0.3, -0.04, 0.22)]
    flames = [Patch(ellipse(x + 0.04, -1, 0.05, 0.09), AMBER) for x in (-0.3, -0.04, 0.22)]
    return [
        *sticks,
        *flames,
        *_clad(rng, bar(-0.5, -0.6, 1, 0.6), paints),
        *_clad(rng, bar(-0.85, 0, 1.7, 0.75), paints),
        Patch(bar(-0.85, -0.02, 1.7, 0.16), paints.pale),
        Patch(bar(-0.5, -0.62, 1, 0.14), paints.pale),
    ]


DRAWN: dict[str, Drawing] = {
    drawing.__name__: drawing
    for drawing in (
        anchor, bell, boot, bus, butterfly, cactus, cake, candle, car, cat, chair, cherries, clock, crab, crown, drum,
        fir, gift, guitar, hat, ice_cream, key, ladybird, lamp, letter, lighthouse, pencil, rabbit, robot, rocket,
        shirt, snail, snowman, tent, tractor, tulip, turtle, windmill,
    )
}  # fmt: skip


def categories(invented: int = INVENTED) -> dict[str, Drawing]:
    """All categories by name, in order; the first so many of the invented ones."""
    numbers = [n for n in range(invented) if n not in LEFT_OUT]
    return DRAWN | {f"invented-{n:03d}": invent(np.random.Generator(np.random.PCG64([0, 2, n]))) for n in numbers}
