"""Paper cut-outs: coloured outlines in, a smooth-edged sprite out. The demo data is drawn with these few shapes.

Outlines are points [N, 2] in a unit of the drawing's own choosing, y down; `render` scales, turns and flips them.
Pillow draws them three times too large and averages down, which is what makes the edges smooth.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFilter

Points = NDArray[np.float64]
Colour = tuple[int, int, int]

SUPERSAMPLE = 3
MARGIN = 2  # empty pixels around a sprite, so that its edges can be shaded without wrapping around
PENUMBRA = 10  # pixels a shadow reaches beyond its sprite


@dataclass(frozen=True, slots=True)
class Patch:
    """One piece of coloured paper."""

    outline: Points
    colour: Colour
    inside: Points | None = None
    """Only what lies within this outline is glued on: stripes on a sail, spots on a cap."""
    opacity: float = 1.0
    telling: bool = False
    """It belongs to the small striking part that gives the class away."""


@dataclass(frozen=True, slots=True)
class Sprite:
    """A drawing in pixels, ready to be glued on a picture."""

    colour: NDArray[np.float32]
    """Colour times coverage [H, W, 3], 0–255."""
    coverage: NDArray[np.float32]
    """How much of each pixel is covered [H, W], 0–1."""
    telling: NDArray[np.bool_]
    """Where the striking part lies [H, W]."""

    @property
    def mask(self) -> NDArray[np.bool_]:
        """The pixels that count as the thing's own [H, W]."""
        return self.coverage >= 0.5

    def lit(self, direction: tuple[float, float], strength: float) -> Self:
        """The same, with a light rim towards the light and a dark one away from it: paper with some thickness."""
        size = max(self.coverage.shape)
        soft = _blurred(self.coverage, size * 0.05)
        shift = [round(d * size * 0.05) for d in direction]
        towards = np.roll(soft, (shift[1], shift[0]), axis=(0, 1))  # [H, W]
        away = np.roll(soft, (-shift[1], -shift[0]), axis=(0, 1))  # [H, W]
        gain = 1 + strength * (away - towards)[..., None]
        lit = np.minimum(self.colour * gain, 255 * self.coverage[..., None])
        return type(self)(lit.astype(np.float32), self.coverage, self.telling)

    def shadow(self, softness: float) -> NDArray[np.float32]:
        """The coverage, blurred, with room for the blur all around: [H + 2 * PENUMBRA, W + 2 * PENUMBRA]."""
        return _blurred(np.pad(self.coverage, PENUMBRA), softness)


def _blurred(plane: NDArray[np.float32], radius: float) -> NDArray[np.float32]:
    image = Image.fromarray((plane * 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(radius))
    return np.asarray(image, dtype=np.float32) / np.float32(255)


# ---- outlines

_TURN = np.linspace(0, 2 * np.pi, 36, endpoint=False)
_CIRCLE: Points = np.stack([np.cos(_TURN), np.sin(_TURN)], axis=1)  # [36, 2]


def polygon(*corners: tuple[float, float]) -> Points:
    """Straight edges between corners."""
    return np.array(corners, dtype=np.float64)


def ellipse(x: float, y: float, rx: float, ry: float | None = None, turn: float = 0.0) -> Points:
    """An ellipse, or a circle where `ry` is left out; `turn` in radians."""
    return moved(_CIRCLE * (rx, rx if ry is None else ry), x, y, turn=turn)


def smooth(*corners: tuple[float, float], closed: bool = True) -> Points:
    """A Catmull–Rom curve through the corners."""
    p = polygon(*corners)
    p = np.concatenate([p[-1:], p, p[:2]]) if closed else np.concatenate([p[:1], p, p[-1:]])
    t = np.linspace(0, 1, 8, endpoint=False)[:, None]  # [8, 1]
    pieces = [_catmull_rom(p[i : i + 4], t) for i in range(len(p) - 3)]
    return np.concatenate(pieces if closed else [*pieces, p[-1:]])


def _catmull_rom(p: Points, t: Points) -> Points:
    a = 2 * p[0] - 5 * p[1] + 4 * p[2] - p[3]
    b = -p[0] + 3 * p[1] - 3 * p[2] + p[3]
    curve: Points = p[1] + 0.5 * t * (p[2] - p[0] + t * (a + t * b))
    return curve


def ribbon(*corners: tuple[float, float], width: float, end: float | None = None) -> Points:
    """A smooth band along the corners, from one width to another: ropes, handles, branches."""
    line = smooth(*corners, closed=False)  # [N, 2]
    along = np.gradient(line, axis=0)
    along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-9)
    half = np.linspace(width, width if end is None else end, len(line))[:, None] / 2
    across = np.stack([-along[:, 1], along[:, 0]], axis=1) * half
    return np.concatenate([line + across, (line - across)[::-1]])


def moved(outline: Points, x: float, y: float, scale: float = 1.0, turn: float = 0.0) -> Points:
    """The outline scaled and turned about its origin, then shifted."""
    cos, sin = math.cos(turn) * scale, math.sin(turn) * scale
    placed: Points = outline @ np.array([[cos, sin], [-sin, cos]]) + np.array([x, y])
    return placed


# ---- colours


def hex_colour(text: str) -> Colour:
    """A colour from its six digits.

    >>> hex_colour("ff8000")
    (255, 128, 0)
    """
    return int(text[:2], 16), int(text[2:4], 16), int(text[4:], 16)


def mix(a: Colour, b: Colour, share: float) -> Colour:
    """From `a` (share 0) to `b` (share 1)."""
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


def lighter(colour: Colour, share: float) -> Colour:
    """Towards warm white."""
    return mix(colour, (255, 250, 238), share)


def darker(colour: Colour, share: float) -> Colour:
    """Towards deep blue rather than black, which keeps shadows colourful."""
    return mix(colour, (24, 26, 52), share)


# ---- pixels


def render(patches: Sequence[Patch], size: float, *, turn: float = 0.0, flip: bool = False) -> Sprite:
    """Draw so that the longer side of the whole is `size` pixels; `turn` in radians, after the flip."""
    mirror = np.array([-1.0 if flip else 1.0, 1.0])
    # What is glued inside another outline cannot reach beyond it, and must not count for the extent.
    corners = np.concatenate([moved(p.outline * mirror, 0, 0, turn=turn) for p in patches if p.inside is None])
    low, high = corners.min(axis=0), corners.max(axis=0)
    scale = size / float((high - low).max())
    left, top = (MARGIN - low * scale).tolist()
    width, height = (int(n) for n in np.ceil((high - low) * scale) + 2 * MARGIN)
    pen = _Pen(width * SUPERSAMPLE, height * SUPERSAMPLE)
    for patch in patches:
        outline = moved(patch.outline * mirror, left, top, scale, turn) * SUPERSAMPLE
        inside = None if patch.inside is None else moved(patch.inside * mirror, left, top, scale, turn) * SUPERSAMPLE
        pen.glue(outline, inside, patch)
    return pen.finish()


class _Pen:
    """The three-times-too-large sheet a sprite is drawn on."""

    def __init__(self, width: int, height: int) -> None:
        self.size = (width, height)
        self.colour = Image.new("RGB", self.size)
        self.coverage = Image.new("L", self.size)
        self.telling = Image.new("L", self.size)

    def glue(self, outline: Points, inside: Points | None, patch: Patch) -> None:
        corners = outline.ravel().tolist()
        if inside is None and patch.opacity == 1:  # the common case, without a mask
            ImageDraw.Draw(self.colour).polygon(corners, fill=patch.colour)
            ImageDraw.Draw(self.coverage).polygon(corners, fill=255)
        else:
            self._glue_within(outline, outline if inside is None else inside, patch)
        if patch.telling:
            ImageDraw.Draw(self.telling).polygon(corners, fill=255)

    def _glue_within(self, outline: Points, inside: Points, patch: Patch) -> None:
        # Only where the two can meet: most spots and stripes are far smaller than the sheet.
        low = np.floor(np.maximum(outline.min(axis=0), inside.min(axis=0)))
        high = np.ceil(np.minimum(outline.max(axis=0), inside.max(axis=0))) + 1
        if not np.all(high > low):
            return
        place, size = (int(low[0]), int(low[1])), (int(high[0] - low[0]), int(high[1] - low[1]))
        levels = (outline - low, round(255 * patch.opacity)), (inside - low, 255)
        masks = [_filled(size, corners, level) for corners, level in levels]
        self.colour.paste(patch.colour, place, ImageChops.darker(*masks))

    def finish(self) -> Sprite:
        # Averaging colour over the black of the empty sheet is exactly colour times coverage.
        colour, coverage, telling = (
            np.asarray(plane.reduce(SUPERSAMPLE), dtype=np.float32)
            for plane in (self.colour, self.coverage, self.telling)
        )
        return Sprite(colour, coverage / np.float32(255), telling >= 128)


def _filled(size: tuple[int, int], outline: Points, level: int) -> Image.Image:
    mask = Image.new("L", size)
    ImageDraw.Draw(mask).polygon(outline.ravel().tolist(), fill=level)
    return mask
