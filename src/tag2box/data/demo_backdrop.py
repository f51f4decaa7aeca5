"""What the places of the demo pictures are painted with: light, a sheet to paint on, sky, trees, grass, stones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from tag2box.data.demo_drawing import (
    Colour,
    Points,
    darker,
    ellipse,
    hex_colour,
    lighter,
    mix,
    polygon,
    ribbon,
)

SUPERSAMPLE = 2


@dataclass(frozen=True, slots=True)
class Mood:
    """The light of a picture: its sky from top to horizon, and how far everything leans towards its tint."""

    top: Colour
    bottom: Colour
    tint: Colour
    strength: float

    def tone(self, colour: Colour) -> Colour:
        """A colour as it looks in this light."""
        return mix(colour, self.tint, self.strength)


MOODS = (
    Mood(hex_colour("8fc1d9"), hex_colour("e9f1e4"), hex_colour("ffffff"), 0.12),  # noon
    Mood(hex_colour("b9d3d6"), hex_colour("f6e6cf"), hex_colour("f3e3c8"), 0.30),  # morning
    Mood(hex_colour("b98fa8"), hex_colour("f7c99a"), hex_colour("d99a84"), 0.35),  # sunset
    Mood(hex_colour("3c4a75"), hex_colour("8d7fa6"), hex_colour("41528a"), 0.45),  # dusk
    Mood(hex_colour("b4bcc2"), hex_colour("dcdedb"), hex_colour("c4c8c8"), 0.35),  # mist
)


class Sheet:
    """A picture being painted, in pixels of its final size."""

    def __init__(self, width: int, height: int, mood: Mood) -> None:
        self.width, self.height, self.mood = width, height, mood
        share = np.linspace(0, 1, height * SUPERSAMPLE)[:, None, None]  # [H, 1, 1]
        sky = np.array(mood.top) * (1 - share) + np.array(mood.bottom) * share
        sky = np.broadcast_to(sky, (height * SUPERSAMPLE, width * SUPERSAMPLE, 3))
        self.image = Image.fromarray(sky.astype(np.uint8))
        self.pen = ImageDraw.Draw(self.image, "RGBA")

    def fill(self, outline: Points, colour: Colour, opacity: float = 1.0) -> None:
        """Paint one outline, in the colour itself: scenes tone their own."""
        corners = (outline * SUPERSAMPLE).ravel().tolist()
        self.pen.polygon(corners, fill=(*colour, round(255 * opacity)))

    def below(self, line: NDArray[np.float64], colour: Colour) -> None:
        """Paint everything under a height given at evenly spread places [N]."""
        xs = np.linspace(0, self.width, len(line))
        edge = np.stack([xs, line], axis=1)
        self.fill(np.concatenate([edge, [[self.width, self.height], [0, self.height]]]), colour)

    def pixels(self) -> NDArray[np.float32]:
        """The picture [H, W, 3], 0–255."""
        return np.asarray(self.image.reduce(SUPERSAMPLE), dtype=np.float32)


def ridge(rng: np.random.Generator, height: float, swing: float) -> NDArray[np.float64]:
    """A rolling line [64] around a height."""
    x = np.linspace(0, 2 * np.pi, 64)
    waves = (np.sin(x * f + rng.uniform(0, 7)) / f for f in rng.uniform(0.6, 4.0, 3))
    return height + swing * sum(waves, np.zeros(64))


def pick(rng: np.random.Generator, *codes: str) -> Colour:
    """One of the colours."""
    return hex_colour(codes[rng.integers(len(codes))])


def paint_sky(rng: np.random.Generator, sheet: Sheet) -> None:
    """Sun or moon, and clouds."""
    w, h, mood = sheet.width, sheet.height, sheet.mood
    x, y = rng.uniform(0.1, 0.9) * w, rng.uniform(0.08, 0.3) * h
    for r, opacity in ((0.15, 0.18), (0.10, 0.3), (0.065, 0.85)):
        sheet.fill(ellipse(x, y, r * h), lighter(mood.bottom, 0.6), opacity)
    for _ in range(int(rng.integers(2, 5))):
        x, y, r = rng.uniform(0, w), rng.uniform(0.05, 0.45) * h, rng.uniform(0.04, 0.09) * h
        for dx, dy, s in ((-1.5, 0.25, 0.7), (-0.5, -0.3, 1.0), (0.7, -0.1, 0.9), (1.7, 0.3, 0.6), (0, 0.4, 0.9)):
            sheet.fill(ellipse(x + dx * r, y + dy * r, s * r * 1.3, s * r * 0.8), lighter(mood.bottom, 0.35), 0.75)


def paint_trees(rng: np.random.Generator, sheet: Sheet, line: NDArray[np.float64], colour: Colour, count: int) -> None:
    """Firs and round trees along a line."""
    for _ in range(count):
        i = int(rng.integers(len(line)))
        x, y, s = i / len(line) * sheet.width, line[i] + 2, rng.uniform(0.05, 0.14) * sheet.height
        shade = darker(colour, rng.uniform(0.05, 0.3))
        if rng.random() < 0.5:
            sheet.fill(polygon((x - s * 0.35, y), (x, y - s * 1.4), (x + s * 0.35, y)), shade)
        else:
            sheet.fill(ribbon((x, y), (x, y - s * 0.7), width=s * 0.14), darker(colour, 0.5))
            sheet.fill(ellipse(x, y - s * 0.9, s * 0.42, s * 0.5), shade)


def paint_grass(rng: np.random.Generator, sheet: Sheet, top: float, colour: Colour, count: int) -> None:
    """Short strokes of grass below a height."""
    ys = np.sort(rng.uniform(top, sheet.height + 6, count))
    for x, y in zip(rng.uniform(0, sheet.width, count), ys, strict=True):
        size, lean = 3 + 9 * (y - top) / sheet.height, rng.uniform(-3, 3)
        shade = mix(darker(colour, 0.22), lighter(colour, 0.25), rng.random())
        sheet.fill(polygon((x - 1, y), (x + lean, y - size), (x + 1, y)), shade)


def paint_stones(rng: np.random.Generator, sheet: Sheet, top: float) -> None:
    """Rows of stones below a height; where there is a horizon above them, the nearer ones are larger."""
    grey = sheet.mood.tone(pick(rng, "a39a8c", "b08f74", "8792a3", "93a394"))
    sheet.below(np.full(2, top), darker(grey, 0.35))
    y, size, row = top + 4, 9.0 if top > 0 else rng.uniform(11, 16), 0
    while y < sheet.height + size:
        for x in np.arange(-size * (row % 2), sheet.width + size, size * 1.9):
            jitter = rng.uniform(-0.08, 0.08, 3)
            shade = mix(darker(grey, 0.15), lighter(grey, 0.28), rng.random())
            stone = ellipse(x + size * jitter[0], y + size * jitter[1], size * 0.9, size * 0.62, jitter[2])
            sheet.fill(stone, shade)
        y, size, row = y + size * 1.2, size * (1.1 if top > 0 else 1.0), row + 1


def texture(rng: np.random.Generator, width: int, height: int) -> NDArray[np.float32]:
    """Noise of three grains, of about unit spread [H, W]."""
    total = np.zeros((height, width), dtype=np.float32)
    for grain in (2, 6, 24):
        coarse = rng.standard_normal((height // grain + 2, width // grain + 2), dtype=np.float32)
        total += np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))
    return total / np.float32(1.7)
