"""The six classes of the demo pictures.

Every class is drawn in every colour of one palette, with patterns that the others wear too, so that shape tells it and
colour does not. Each has one small striking part of fixed looks (`telling=True`), which a weakly supervised detector
is tempted to take for the whole.
"""

import numpy as np

from tag2box.data.demo_drawing import Patch, darker, ellipse, hex_colour, lighter, moved, polygon, ribbon, smooth
from tag2box.data.demo_patterns import AMBER, INK, RED, WHITE, WOOD, Drawing, Paints, bar, dimmed, pattern, spots


def balloon(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A hot-air balloon; its basket tells it."""
    wide = rng.uniform(0.70, 0.82)
    envelope = smooth(
        (0, -1.0), (wide * 0.7, -0.82), (wide, -0.32), (wide * 0.72, 0.14), (0.17, 0.5),
        (-0.17, 0.5), (-wide * 0.72, 0.14), (-wide, -0.32), (-wide * 0.7, -0.82),
    )  # fmt: skip
    ropes = [Patch(ribbon((s * 0.15, 0.46), (s * 0.22, 0.72), width=0.035), INK) for s in (-1, 1)]
    skin = [Patch(envelope, paints.body)]
    if rng.random() < 0.5:  # gores: the outline again and again, narrower
        shares = (0.74, 0.45, 0.16)
        skin += [Patch(envelope * (share, 1), (paints.accent, paints.body)[i % 2]) for i, share in enumerate(shares)]
    else:
        skin += pattern(rng, envelope, paints.accent)
    skin.append(Patch(bar(-1, 0.36, 2, 0.2), darker(paints.accent, 0.15), inside=envelope))
    skin.append(Patch(ellipse(wide * 0.75, -0.25, wide * 0.6, 0.95), INK, inside=envelope, opacity=0.16))
    skin.append(Patch(ellipse(-wide * 0.45, -0.55, 0.12, 0.26, 0.5), WHITE, inside=envelope, opacity=0.35))
    return [*ropes, *skin, *_basket()]


def _basket() -> list[Patch]:
    tub = polygon((-0.27, 0.68), (0.27, 0.68), (0.21, 1.04), (-0.21, 1.04))
    weave = [
        Patch(bar(-0.3 + 0.12 * i + 0.06 * (j % 2), 0.74 + 0.1 * j, 0.06, 0.1), darker(WOOD, 0.45), inside=tub)
        for j in range(3)
        for i in range(6)
    ]
    rim = ribbon((-0.3, 0.69), (0.3, 0.69), width=0.09)
    return [Patch(tub, WOOD, telling=True), *weave, Patch(rim, lighter(WOOD, 0.45), telling=True)]


def fish(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A fish that looks left; its ringed eye tells it."""
    tall = rng.uniform(0.48, 0.62)
    body = smooth((-0.98, 0.04), (-0.72, -tall * 0.7), (-0.2, -tall), (0.35, -tall * 0.6), (0.68, -0.1),
                  (0.68, 0.1), (0.35, tall * 0.6), (-0.2, tall), (-0.72, tall * 0.75))  # fmt: skip
    fork = rng.uniform(0.45, 0.6)
    tail = smooth((0.58, 0), (0.8, -fork * 0.75), (1.05, -fork), (0.93, 0), (1.05, fork), (0.8, fork * 0.75))
    dorsal = smooth((-0.4, -tall * 0.85), (-0.1, -tall - 0.27), (0.4, -tall - 0.18), (0.42, -tall * 0.4))
    belly = smooth((-0.15, tall * 0.85), (0.02, tall + 0.2), (0.3, tall + 0.16), (0.22, tall * 0.6))
    fin = smooth((-0.12, 0.1), (0.22, -0.02), (0.34, 0.2), (0.16, 0.36))
    head = ellipse(-1.0, 0, 0.62, tall * 1.5)
    return [
        *(Patch(part, paints.accent) for part in (tail, dorsal, belly)),
        *(Patch(ribbon((0.68, 0), (1.0, s), width=0.03), darker(paints.accent, 0.35), inside=tail)
          for s in (-0.4, -0.2, 0, 0.2, 0.4)),
        Patch(body, paints.body),
        *pattern(rng, body, paints.accent),
        Patch(head, paints.pale, inside=body),
        Patch(ellipse(-0.1, tall * 1.25, 1.1, tall * 0.9), INK, inside=body, opacity=0.16),
        Patch(fin, darker(paints.accent, 0.15)),
        Patch(ribbon((-0.97, 0.17), (-0.82, 0.2), (-0.74, 0.12), width=0.05), INK, inside=body),
        *_fish_eye(),
    ]  # fmt: skip


def _fish_eye() -> list[Patch]:
    rings = ((0.22, INK), (0.185, AMBER), (0.13, WHITE), (0.09, INK))
    eye = [Patch(ellipse(-0.58, -0.1, r), colour, telling=True) for r, colour in rings]
    return [*eye, Patch(ellipse(-0.61, -0.13, 0.03), WHITE)]


def owl(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """An owl from the front; its face tells it."""
    wide = rng.uniform(0.6, 0.72)
    body = smooth((0, -0.78), (wide * 0.62, -0.72), (wide * 0.95, -0.3), (wide, 0.3), (wide * 0.6, 0.85), (0, 0.95),
                  (-wide * 0.6, 0.85), (-wide, 0.3), (-wide * 0.95, -0.3), (-wide * 0.62, -0.72))  # fmt: skip
    tuft = rng.uniform(0.94, 1.08)
    ears = [polygon((s * wide * 0.96, -tuft), (s * wide * 0.92, -0.42), (s * wide * 0.15, -0.74)) for s in (-1, 1)]
    lift = rng.uniform(0.0, 0.16)
    wings = [
        smooth(
            (s * wide * 0.9, -0.22), (s * (wide + 0.1 + lift), 0.2), (s * (wide - 0.02 + lift), 0.72), (s * 0.32, 0.4)
        )
        for s in (-1, 1)
    ]
    breast = ellipse(0, 0.42, wide * 0.68, 0.5)
    feathers = [
        Patch(ribbon((x - 0.07, y), (x, y + 0.08), (x + 0.07, y), width=0.04), paints.accent, inside=breast)
        for row, y in enumerate((0.2, 0.38, 0.56, 0.74))
        for x in np.arange(-3, 4) * 0.2 + 0.1 * (row % 2)
    ]
    feet = [Patch(ellipse(s * 0.2, 0.96, 0.13, 0.08), darker(AMBER, 0.2)) for s in (-1, 1)]
    return [
        *feet,
        *(Patch(ear, darker(paints.body, 0.15)) for ear in ears),
        Patch(body, paints.body),
        Patch(breast, paints.pale, inside=body),
        *feathers,
        *(p for wing in wings for p in (Patch(wing, paints.accent), *pattern(rng, wing, darker(paints.accent, 0.25)))),
        *_owl_face(),
    ]


def _owl_face() -> list[Patch]:
    rings = ((0.27, WHITE), (0.18, AMBER), (0.11, INK))
    eyes = [Patch(ellipse(s * 0.24, -0.36, r), colour, telling=True) for r, colour in rings for s in (-1, 1)]
    shine = [Patch(ellipse(s * 0.24 - 0.04, -0.4, 0.035), WHITE) for s in (-1, 1)]
    beak = smooth((-0.1, -0.27), (0, -0.31), (0.1, -0.27), (0, -0.04))
    return [*eyes, *shine, Patch(beak, darker(AMBER, 0.12), telling=True)]


def sailboat(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A sailing boat; the lifebuoy on its hull tells it."""
    top = rng.uniform(-1.0, -0.85)
    hull = smooth((-0.98, 0.36), (-0.5, 0.42), (0.4, 0.42), (0.92, 0.33), (0.72, 0.72), (0.4, 0.92), (-0.45, 0.92),
                  (-0.78, 0.7))  # fmt: skip
    main = smooth((0.05, top + 0.06), (0.52, -0.35), (0.78, 0.24), (0.4, 0.31), (0.05, 0.3))
    jib = smooth((-0.07, top + 0.2), (-0.07, -0.2), (-0.07, 0.26), (-0.45, 0.31), (-0.82, 0.26), (-0.4, -0.24))
    flag = polygon((0, top - 0.14), (0.3, top - 0.04), (0, top + 0.06))
    return [
        Patch(flag, paints.accent),
        Patch(ribbon((0, top - 0.14), (0, 0.45), width=0.075), darker(WOOD, 0.35)),
        Patch(main, paints.body),
        *pattern(rng, main, paints.accent),
        Patch(jib, paints.pale),
        *pattern(rng, jib, paints.accent, plain=0.7),
        Patch(moved(main, 0.33, 0.1), INK, inside=main, opacity=0.14),
        Patch(hull, paints.body if rng.random() < 0.5 else paints.accent),
        Patch(bar(-1, 0.3, 2, 0.17), paints.pale, inside=hull),
        Patch(bar(-1, 0.78, 2, 0.2), INK, inside=hull, opacity=0.35),
        *_lifebuoy(rng.uniform(-0.35, 0.35), 0.62),
    ]


def _lifebuoy(x: float, y: float) -> list[Patch]:
    ring = ellipse(x, y, 0.25)
    wedges = [polygon((x, y), *((x + np.cos(t) * 0.5, y + np.sin(t) * 0.5) for t in (k, k + 0.45, k + 0.9)))
              for k in np.arange(4) * np.pi / 2 + 0.33]  # fmt: skip
    return [
        Patch(ellipse(x, y, 0.27), darker(WHITE, 0.5)),
        Patch(ring, WHITE, telling=True),
        *(Patch(wedge, RED, inside=ring) for wedge in wedges),
        Patch(ellipse(x, y, 0.11), INK),
    ]


def teapot(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A teapot with its spout to the left; the daisy on its belly tells it."""
    tall = rng.uniform(0.5, 0.62)
    body = smooth((0, -tall), (0.42, -tall * 0.86), (0.64, -0.1), (0.56, 0.35), (0.32, 0.6),
                  (-0.32, 0.6), (-0.56, 0.35), (-0.64, -0.1), (-0.42, -tall * 0.86))  # fmt: skip
    spout = ribbon((-0.42, 0.3), (-0.72, 0.16), (-0.82, -0.18), (-1.02, -0.4), width=0.36, end=0.17)
    handle = ribbon((0.5, -0.32), (0.84, -0.42), (1.0, -0.1), (0.86, 0.24), (0.5, 0.36), width=0.14)
    lid = smooth(
        (-0.36, -tall * 0.9), (-0.2, -tall - 0.14), (0.2, -tall - 0.14), (0.36, -tall * 0.9), (0, -tall * 0.82)
    )
    return [
        Patch(handle, paints.accent),
        Patch(spout, paints.body),
        dimmed(spout, 0.08, 0.1),
        Patch(bar(-0.36, 0.5, 0.72, 0.16), darker(paints.accent, 0.1)),
        Patch(body, paints.body),
        *pattern(rng, body, paints.pale if rng.random() < 0.5 else paints.accent),
        Patch(ellipse(0.55, 0.3, 0.5, 0.95, 0.3), INK, inside=body, opacity=0.15),
        Patch(ellipse(-0.4, -0.22, 0.07, 0.2, 0.5), WHITE, inside=body, opacity=0.45),
        Patch(ellipse(0, -tall - 0.2, 0.11), darker(paints.accent, 0.1)),
        Patch(lid, paints.accent),
        *_daisy(0.02, 0.06),
    ]


def _daisy(x: float, y: float) -> list[Patch]:
    plate = Patch(ellipse(x, y, 0.34), hex_colour("37614a"), telling=True)
    petals = [Patch(moved(ellipse(0.19, 0, 0.12, 0.062), x, y, turn=t), WHITE) for t in np.arange(9) * 2 * np.pi / 9]
    return [plate, *petals, Patch(ellipse(x, y, 0.1), AMBER)]


def toadstool(rng: np.random.Generator, paints: Paints) -> list[Patch]:
    """A toadstool somebody lives in; its door tells it."""
    flat, stem_width = rng.uniform(0.75, 1.0), rng.uniform(0.3, 0.38)
    cap = smooth((0, -0.95 * flat), (0.55, -0.8 * flat), (0.92, -0.22), (0.96, 0.06), (0.5, 0.16),
                 (-0.5, 0.16), (-0.96, 0.06), (-0.92, -0.22), (-0.55, -0.8 * flat))  # fmt: skip
    stem = smooth((-stem_width * 0.85, 0.05), (stem_width * 0.85, 0.05), (stem_width, 0.5), (stem_width + 0.16, 0.9),
                  (0, 0.97), (-stem_width - 0.16, 0.9), (-stem_width, 0.5))  # fmt: skip
    skin = spots(rng, cap, paints.pale) if rng.random() < 0.6 else pattern(rng, cap, paints.accent)
    return [
        Patch(stem, paints.pale),
        Patch(bar(0.1, 0, 1, 1), INK, inside=stem, opacity=0.14),
        Patch(ellipse(0, 0.16, stem_width + 0.3, 0.16), INK, inside=stem, opacity=0.25),
        *_door(),
        Patch(cap, paints.body),
        *skin,
        Patch(ellipse(0, 0.13, 0.95, 0.14), darker(paints.accent, 0.2), inside=cap),
        Patch(ellipse(0.75, -0.1, 0.55, 0.9), INK, inside=cap, opacity=0.15),
        Patch(ellipse(-0.5, -0.5 * flat, 0.08, 0.22, 0.8), WHITE, inside=cap, opacity=0.35),
    ]


def _door() -> list[Patch]:
    arch = smooth((-0.24, 0.94), (-0.24, 0.45), (0, 0.24), (0.24, 0.45), (0.24, 0.94), (0, 0.96))
    return [
        Patch(arch, darker(WOOD, 0.55), telling=True),
        Patch(moved(arch, 0, 0.15, 0.78), WOOD),
        Patch(ellipse(0, 0.53, 0.115), darker(WOOD, 0.65)),
        Patch(ellipse(0, 0.53, 0.085), hex_colour("ffdf7a")),
        Patch(ribbon((0, 0.42), (0, 0.64), width=0.03), darker(WOOD, 0.65)),
        Patch(ellipse(0.11, 0.75, 0.035), AMBER),
    ]


CLASSES: dict[str, Drawing] = {
    "balloon": balloon,
    "fish": fish,
    "owl": owl,
    "sailboat": sailboat,
    "teapot": teapot,
    "toadstool": toadstool,
}
