"""A colour for each class, the same on every picture, and the ink that is read on it."""

import colorsys
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import ImageColor

CLASS_COLOURS = ("#e4002b", "#0072ce", "#ff8a00", "#00a651", "#8e24aa", "#00b8c4", "#f06292", "#7a5c00")
DARK, LIGHT = "#050608", "#ffffff"

# Linear RGB → cone responses → OKLab (Björn Ottosson, 2020), in which equal distances look about equally far apart.
_CONES = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]])
_LAB = np.array([[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])


def colours_of(classes: Sequence[str]) -> dict[str, str]:
    """A colour for each class by its place alone: the house's first, then always the one least like any so far.

    >>> colours_of(["cat", "dog"])
    {'cat': '#e4002b', 'dog': '#0072ce'}
    """
    palette = _palette()
    return {name: palette[place % len(palette)] for place, name in enumerate(classes)}


@cache
def _palette() -> list[str]:
    more = _candidates()
    points, chosen = _lab(more), list(CLASS_COLOURS)  # [N, 3]
    nearest = np.min([_distance(points, one) for one in chosen], axis=0)  # of each candidate to those chosen [N]
    for _ in more:
        chosen.append(more[int(nearest.argmax())])
        nearest = np.minimum(nearest, _distance(points, chosen[-1]))
    return chosen


def ink_on(colour: str) -> str:
    """Dark or white, whichever has more contrast with a colour."""
    light, dark = (contrast(ink, colour) for ink in (LIGHT, DARK))
    return LIGHT if light > dark else DARK


def contrast(one: str, other: str) -> float:
    """How well two colours are told apart, from 1 to 21 (WCAG 2)."""
    weights = np.array([0.2126, 0.7152, 0.0722])
    darker, lighter = sorted(float(_linear([colour])[0] @ weights) for colour in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def _candidates() -> list[str]:
    """Strong, dark and pale colours of every hue; no greys, which do not stand out on a picture."""
    shades = ((0.46, 0.8), (0.42, 0.55), (0.3, 0.65), (0.64, 0.75), (0.75, 0.75))  # lightness, saturation
    made = [colorsys.hls_to_rgb(hue / 36, *shade) for shade in shades for hue in range(36)]
    return ["#" + "".join(f"{round(255 * part):02x}" for part in rgb) for rgb in made]


def _distance(points: NDArray[np.float64], colour: str) -> NDArray[np.float64]:
    apart: NDArray[np.float64] = np.linalg.norm(points - _lab([colour]), axis=1)
    return apart


def _lab(colours: Iterable[str]) -> NDArray[np.float64]:
    lab: NDArray[np.float64] = np.cbrt(_linear(colours) @ _CONES.T) @ _LAB.T
    return lab


def _linear(colours: Iterable[str]) -> NDArray[np.float64]:
    """[N, 3] in 0–1, in proportion to light."""
    parts = np.array([ImageColor.getrgb(colour)[:3] for colour in colours]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
