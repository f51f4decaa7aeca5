"""One demo picture: a backdrop, things glued on it one over another, and what can still be seen of each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.data.demo_backdrop import texture
from tag2box.data.demo_drawing import PENUMBRA, Colour, Sprite, darker, hex_colour, lighter, mix, render
from tag2box.data.demo_patterns import PALETTE, Drawing, Paints
from tag2box.data.demo_props import CLUTTER, DISTRACTORS, bush
from tag2box.data.demo_scenes import backdrop
from tag2box.data.demo_things import CLASSES

SHORT_SIDE = 192
LONG_SIDES = (240, 256, 256, 272, 288)
SMALLEST, LARGEST = 0.15, 0.70  # a thing's longer side, as a share of the picture's short side
MOST_HIDDEN = 0.35  # by the things and clutter in front; a few are hidden further on purpose
OCCLUDED, DIFFICULT = 0.05, 0.60  # hidden shares from which VOC's flags are set

GREENS = tuple(hex_colour(code) for code in ("4f7a4a", "7d8f45", "3f6e66", "a9793d", "8a4f3d"))


@dataclass(frozen=True, slots=True)
class Thing:
    """An object of a class, as the annotation tells it."""

    name: str
    box: tuple[int, int, int, int]
    """Around what can be seen of it, as VOC asks: x0, y0, x1, y1, 0-based, half-open."""
    visible: NDArray[np.bool_]
    """Its pixels that can be seen [H, W]."""
    telling: NDArray[np.bool_]
    """Where its striking part lies [H, W], seen or not."""
    truncated: bool
    occluded: bool
    difficult: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """Pixels uint8 [H, W, 3] and the things in them."""

    pixels: NDArray[np.uint8]
    things: tuple[Thing, ...]


@dataclass(slots=True)
class _Glued:
    """A thing on the board, with what later ones leave to be seen of it."""

    name: str
    area: int  # pixels, also those beyond the border
    inside: int  # pixels within the picture
    visible: NDArray[np.bool_]
    telling: NDArray[np.bool_]

    def hidden(self, cover: NDArray[np.bool_]) -> float:
        """The share that cannot be seen once `cover` [H, W] lies over it, too."""
        return 1 - float(np.count_nonzero(self.visible & ~cover)) / self.inside

    def told(self) -> Thing:
        rows, columns = (np.flatnonzero(self.visible.any(axis=axis)) for axis in (1, 0))
        box = int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
        hidden = self.hidden(np.zeros_like(self.visible))
        truncated = self.inside < 0.98 * self.area
        return Thing(self.name, box, self.visible, self.telling, truncated, hidden >= OCCLUDED, hidden > DIFFICULT)


class _Board:
    """The picture while it is made."""

    def __init__(self, rng: np.random.Generator, width: int, height: int) -> None:
        self.rng, self.width, self.height = rng, width, height
        self.pixels = backdrop(rng, width, height)  # [H, W, 3]
        self.glued: list[_Glued] = []
        self.light = -1 if rng.random() < 0.5 else 1  # shadows fall to the left or to the right
        self.relief = rng.uniform(0.3, 0.6)
        self.shade = rng.uniform(0.25, 0.4)

    def local_colour(self, x: int, y: int, size: float) -> Colour:
        """What the picture looks like around a place."""
        r = max(8, int(size / 2))
        spot = self.pixels[max(0, y - r) : max(0, y + r), max(0, x - r) : max(0, x + r)]
        red, green, blue = (int(v) for v in spot.mean(axis=(0, 1)))
        return red, green, blue

    def sprite(self, drawing: Drawing, paints: Paints, size: float, lean: float = 0.22) -> Sprite:
        """A thing in this picture's light, a little turned, either way round."""
        patches = drawing(self.rng, paints)
        flip, turn = bool(self.rng.random() < 0.5), self.rng.uniform(-lean, lean)
        return render(patches, size, turn=turn, flip=flip).lit((self.light, 1), self.relief)

    def window(self, shape: Sequence[int], x: int, y: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
        """Where an array with its top left corner at (x, y) meets the picture: slices of the picture, of the array."""
        top, left = max(0, y), max(0, x)
        bottom, right = max(top, min(self.height, y + shape[0])), max(left, min(self.width, x + shape[1]))
        return (slice(top, bottom), slice(left, right)), (slice(top - y, bottom - y), slice(left - x, right - x))

    def cover(self, sprite: Sprite, x: int, y: int) -> NDArray[np.bool_]:
        """The picture's pixels a sprite takes [H, W]."""
        found = np.zeros((self.height, self.width), dtype=bool)
        here, there = self.window(sprite.coverage.shape, x, y)
        found[here] = sprite.mask[there]
        return found

    def spares(self, cover: NDArray[np.bool_], limit: float) -> bool:
        """Whether everything glued so far stays visible but for `limit`."""
        return all(thing.hidden(cover) <= limit for thing in self.glued)

    def glue(self, sprite: Sprite, x: int, y: int, name: str | None = None) -> None:
        """Put a sprite on top, its shadow first; with a name it is an object to be annotated."""
        shadow = sprite.shadow(3.0)
        here, there = self.window(shadow.shape, x - PENUMBRA + 3 * self.light, y - PENUMBRA + 4)
        self.pixels[here] *= 1 - self.shade * shadow[there][..., None]
        here, there = self.window(sprite.coverage.shape, x, y)
        self.pixels[here] = self.pixels[here] * (1 - sprite.coverage[there][..., None]) + sprite.colour[there]
        cover = self.cover(sprite, x, y)
        for thing in self.glued:
            thing.visible &= ~cover
        if name is not None:
            telling = np.zeros_like(cover)
            telling[here] = sprite.telling[there]
            area = int(np.count_nonzero(sprite.mask))
            self.glued.append(_Glued(name, area, int(np.count_nonzero(cover)), cover, telling))


def draw_picture(rng: np.random.Generator) -> Picture:
    """Draw one picture. All of it follows from the generator's state."""
    long_side = LONG_SIDES[rng.integers(len(LONG_SIDES))]
    upright = rng.random() < 0.12
    width, height = (SHORT_SIDE, long_side) if upright else (long_side, SHORT_SIDE)
    names = pick_classes(rng)
    board = _Board(rng, width, height)
    for _ in range(int(rng.integers(1, 5))):
        _add_distractor(board)
    for name in names:
        _add_thing(board, name, len(names))
    _add_clutter(board)
    if len(board.glued) > 1 and rng.random() < 0.08:  # never the only one, which would leave a picture without a tag
        _hide_one(board)
    return Picture(_developed(rng, board.pixels), tuple(thing.told() for thing in board.glued))


def pick_classes(rng: np.random.Generator) -> list[str]:
    """One to three classes, each drawn without regard to the others, so that none comes in company."""
    count = rng.choice((1, 2, 3), p=(0.4, 0.38, 0.22))
    return [list(CLASSES)[i] for i in rng.integers(len(CLASSES), size=count)]


def _add_thing(board: _Board, name: str, company: int) -> None:
    rng = board.rng
    limit = MOST_HIDDEN if rng.random() < 0.7 else 0.02
    for attempt in range(20):
        share = SMALLEST + (LARGEST - SMALLEST) * rng.beta(2.4, 1.2 + 0.5 * company + 0.25 * attempt)
        size = share * SHORT_SIDE
        x, y = _place(board, size)
        paints = _paints_against(rng, board.local_colour(x, y, size))
        sprite = board.sprite(CLASSES[name], paints, size)
        left, top = x - sprite.coverage.shape[1] // 2, y - sprite.coverage.shape[0] // 2
        cover = board.cover(sprite, left, top)
        if np.count_nonzero(cover) > 0.6 * np.count_nonzero(sprite.mask) and board.spares(cover, limit):
            board.glue(sprite, left, top, name)
            return  # in a crowded picture it may not come to this, and one thing less is drawn


def _place(board: _Board, size: float) -> tuple[int, int]:
    """A centre: mostly so that all of the thing is inside, sometimes so that the border may cut it."""
    room = size * (0.15 if board.rng.random() < 0.22 else 0.52)
    x, y = board.rng.uniform((room, room), (board.width - room, board.height - room))
    return int(x), int(y)


def _paints_against(rng: np.random.Generator, ground: Colour) -> Paints:
    """Colours that stand out from the ground: from the one palette, whatever the class."""
    bodies = [c for c in PALETTE if _distance(c, ground) > 95]
    body = bodies[rng.integers(len(bodies))]
    accents = [c for c in PALETTE if _distance(c, body) > 90 and _distance(c, ground) > 60]
    accent = accents[rng.integers(len(accents))]
    # Pale parts on a pale ground would melt into it.
    wash = rng.uniform(0.25, 0.5) if sum(ground) > 540 else rng.uniform(0.6, 0.85)
    return Paints(body, accent, lighter(accent if rng.random() < 0.5 else body, wash))


def _distance(a: Colour, b: Colour) -> float:
    return float(np.linalg.norm(np.subtract(a, b)))


def _add_distractor(board: _Board) -> None:
    rng = board.rng
    size = rng.uniform(0.12, 0.36) * SHORT_SIDE
    x, y = (int(v) for v in rng.uniform((0, 0), (board.width, board.height)))
    ground = board.local_colour(x, y, size)
    body, accent = (mix(PALETTE[i], ground, 0.25) for i in rng.choice(len(PALETTE), 2, replace=False))
    drawing = list(DISTRACTORS.values())[rng.integers(len(DISTRACTORS))]
    sprite = board.sprite(drawing, Paints(body, accent, lighter(accent, 0.6)), size)
    board.glue(sprite, x - sprite.coverage.shape[1] // 2, y - sprite.coverage.shape[0] // 2)


def _add_clutter(board: _Board) -> None:
    """Up to two pieces before everything, where they do not hide too much."""
    rng = board.rng
    for _ in range(int(rng.choice((0, 1, 2), p=(0.35, 0.4, 0.25)))):
        kind = list(CLUTTER)[rng.integers(len(CLUTTER))]
        for _ in range(6):
            sprite, x, y = _clutter(board, kind)
            if board.spares(board.cover(sprite, x, y), MOST_HIDDEN):
                board.glue(sprite, x, y)
                break


def _clutter(board: _Board, kind: str) -> tuple[Sprite, int, int]:
    rng = board.rng
    green = darker(GREENS[rng.integers(len(GREENS))], rng.uniform(0, 0.25))
    accent = PALETTE[rng.integers(len(PALETTE))]
    body = accent if kind == "post" else green
    paints = Paints(body, lighter(accent, 0.8), lighter(green, 0.4))
    share = {"branch": (0.5, 0.85), "reeds": (0.3, 0.6), "post": (0.5, 0.9), "bush": (0.25, 0.5)}[kind]
    sprite = board.sprite(CLUTTER[kind], paints, rng.uniform(*share) * SHORT_SIDE, lean=0.08)
    height, width = sprite.coverage.shape
    x = int(rng.uniform(-0.2 * width, board.width - 0.8 * width))
    if kind == "branch":  # it grows in from a side, in the upper half
        x = -width // 5 if rng.random() < 0.5 else board.width - width * 4 // 5
        return sprite, x, int(rng.uniform(-0.3, 0.35) * board.height)
    return sprite, x, board.height - int(height * rng.uniform(0.7, 0.95))


def _hide_one(board: _Board) -> None:
    """A bush grows before one thing and hides most of it: VOC's difficult objects."""
    rng = board.rng
    thing = board.glued[rng.integers(len(board.glued))]
    rows, columns = np.nonzero(thing.visible)
    size = max(np.ptp(rows), np.ptp(columns)) * rng.uniform(0.95, 1.15)
    sprite = board.sprite(bush, Paints(*[GREENS[rng.integers(len(GREENS))]] * 3), size)
    x, y = int(columns.mean()) - sprite.coverage.shape[1] // 2, int(rows.mean()) - sprite.coverage.shape[0] // 3
    if board.spares(board.cover(sprite, x, y), 0.85):
        board.glue(sprite, x, y)


def _developed(rng: np.random.Generator, pixels: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Light over the whole picture: vividness, brightness, warmth, a fall-off to one side, dark corners, grain."""
    height, width = pixels.shape[:2]
    x = np.linspace(-1, 1, width, dtype=np.float32)[None, :, None]  # [1, W, 1]
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None, None]  # [H, 1, 1]
    turn, slope, warmth = rng.uniform((0, 0, -0.05), (2 * np.pi, 0.13, 0.05)).tolist()
    fall = 1 + slope * (math.cos(turn) * x + math.sin(turn) * y) - 0.06 * (x * x + y * y)  # [H, W, 1]
    gain = np.array([1 + warmth, 1, 1 - warmth], dtype=np.float32) * np.float32(rng.uniform(0.94, 1.12))
    grain = texture(rng, width, height) + rng.standard_normal((height, width), dtype=np.float32)
    grey = (pixels[..., :1] + pixels[..., 1:2] + pixels[..., 2:]) / np.float32(3)  # [H, W, 1]
    vivid = pixels + np.float32(rng.uniform(0.0, 0.3)) * (pixels - grey)
    lit: NDArray[np.float32] = vivid * fall * gain + 2 * grain[..., None]
    return lit.clip(0, 255).astype(np.uint8)
