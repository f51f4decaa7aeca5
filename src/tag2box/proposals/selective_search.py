"""Selective search: boxes where objects could be, from the picture alone.

A pass reduces the picture, segments it in several colour spaces and at several granularities, and groups each
segmentation by several similarities. Each grouping is one opinion of what belongs together; many cheap, different
opinions reach more objects than few careful ones. Boxes that nearly coincide are then thinned out, and those found most
often come first.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError, did_you_mean
from tag2box.proposals.graph import segment, sorted_edges
from tag2box.proposals.grouping import group, measure_regions
from tag2box.proposals.store import ProposalBoxes
from tag2box.proposals.thinning import thin

Image = NDArray[np.uint8]
ALL_COLOURS = ("hsv", "lab", "grey", "rgi", "rgb", "hue")


@dataclass(frozen=True)
class Pass:
    """One working size of the picture and what is tried on it."""

    side: int
    """The short side the picture is reduced to, in pixels; a smaller picture is left as it is."""
    min_size: int
    """Regions of fewer pixels are merged at once."""
    k: tuple[int, ...]
    """Granularities of the segmentation: larger means coarser."""
    colours: tuple[str, ...] = ALL_COLOURS
    similarities: tuple[str, ...] = ("colour+size+fill", "size+fill")


@dataclass(frozen=True)
class Settings:
    """Everything that the boxes depend on besides the picture."""

    passes: tuple[Pass, ...]
    overlap: float
    """Of two boxes with at least this IoU one is dropped."""
    max_boxes: int
    min_side: int = 16
    """Narrower boxes are dropped; in pixels of a picture with a short side of 350."""
    sigma: float = 0.8
    """Of the blur before segmenting."""
    version: int = 1
    """Raised when the same settings begin to give other boxes."""

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain values, to be stored beside the boxes."""
        return asdict(self)


PRESETS = {  # from the frontier that benchmarks/proposal_presets.py measures
    "fast": Settings(
        passes=(
            Pass(side=140, min_size=15, k=(70, 140, 280), colours=("hsv", "lab")),
            Pass(side=240, min_size=30, k=(70, 140, 280), colours=("hsv", "lab")),
        ),
        overlap=0.75,
        max_boxes=2000,
    ),
    "thorough": Settings(
        passes=(
            Pass(side=140, min_size=20, k=(70, 140, 280, 560)),
            Pass(side=220, min_size=40, k=(70, 140, 280, 560)),
            Pass(side=350, min_size=100, k=(70, 140, 280, 560)),
        ),
        overlap=0.74,
        max_boxes=3000,
    ),
}


def preset(name: str) -> Settings:
    """The settings of that name."""
    if name not in PRESETS:
        raise InputError(f"expected a preset ({', '.join(PRESETS)}), found '{name}'{did_you_mean(name, PRESETS)}")
    return PRESETS[name]


def selective_search(image: Image, settings: Settings) -> ProposalBoxes:
    """Proposals for an RGB picture [H, W, 3]: boxes int16 [B, 4] in its own pixels, those found most often first.

    The same picture gives the same boxes in the same order.
    """
    height, width = image.shape[:2]
    boxes = np.concatenate([_search(image, one, settings.sigma) for one in settings.passes])
    boxes, count = _count_equal(boxes)
    least = min(settings.min_side * max(1.0, min(height, width) / 350), height, width)
    large = ((boxes[:, 2:] - boxes[:, :2]) >= least).all(axis=1)
    kept, votes = thin(boxes[large], count[large], settings.overlap)
    # Found more often, and larger: the first favours what is really there, the second whole objects over their parts.
    order = np.argsort(-votes * np.prod(kept[:, 2:] - kept[:, :2], axis=1) ** 0.25, kind="stable")
    return kept[order[: settings.max_boxes]].astype("<i2")


def _count_equal(boxes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Different boxes in order, and how often each occurs. As one number a box, since np.unique is slow on rows."""
    places = np.array([48, 32, 16, 0])  # sides are below 2¹⁵
    keys, counts = np.unique((boxes << places).sum(axis=1), return_counts=True)
    return keys[:, None] >> places & 0xFFFF, counts


def _search(image: Image, one: Pass, sigma: float) -> NDArray[np.int64]:
    """The boxes of one pass, in pixels of the original, with repetitions."""
    small = _reduced(image, one.side)
    height, width = small.shape[:2]
    found = [boxes for colour in one.colours for boxes in _group_all(COLOURS[colour](small), one, sigma)]
    scale = np.array([image.shape[1] / width, image.shape[0] / height] * 2)
    boxes: NDArray[np.int64] = np.rint(np.concatenate(found) * scale).astype(np.int64)
    return boxes


def _group_all(pixels: Image, one: Pass, sigma: float) -> list[NDArray[np.int32]]:
    """The boxes of every granularity and similarity in one colour space [H, W, C]."""
    import cv2

    height, width, channels = pixels.shape
    blurred = cv2.GaussianBlur(pixels.astype(np.float32), (0, 0), sigma).reshape(height, width, channels)
    edges = sorted_edges(blurred)
    found = []
    for k in one.k:
        labels, count = segment(*edges, height * width, k, one.min_size)
        regions = measure_regions(labels, count, pixels)
        found += [group(regions, _measures(name), height * width) for name in one.similarities]
    return found


def _measures(similarity: str) -> tuple[bool, bool, bool]:
    parts = similarity.split("+")
    return "colour" in parts, "size" in parts, "fill" in parts


def _reduced(image: Image, side: int) -> Image:
    import cv2

    height, width = image.shape[:2]
    factor = side / min(height, width)
    if factor >= 1:
        return image
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _converted(code: str) -> Callable[[Image], Image]:
    def convert(image: Image) -> Image:
        import cv2

        out = cv2.cvtColor(image, getattr(cv2, f"COLOR_RGB2{code}"))
        return np.asarray(out, dtype=np.uint8).reshape(*image.shape[:2], -1)

    return convert


def _hue(image: Image) -> Image:
    return np.ascontiguousarray(COLOURS["hsv"](image)[..., :1])


def _normalised(image: Image) -> Image:
    """Red and green as shares of the whole, and the intensity: shadows change only the last."""
    total = image.sum(axis=2, dtype=np.float32, keepdims=True)
    shares = image[..., :2].astype(np.float32) * (255 / np.maximum(total, 1))
    return np.concatenate([shares, total / 3], axis=2).astype(np.uint8)


COLOURS: dict[str, Callable[[Image], Image]] = {
    "hsv": _converted("HSV"),
    "lab": _converted("Lab"),
    "grey": _converted("GRAY"),
    "rgi": _normalised,
    "rgb": lambda image: image,
    "hue": _hue,
}
