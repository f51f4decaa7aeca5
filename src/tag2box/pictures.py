"""Pictures as people have them in Python: paths, PIL images, arrays, tensors, one or many."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps

from tag2box.data.images import read_image
from tag2box.errors import InputError

Picture = str | Path | Image.Image | NDArray[np.uint8] | torch.Tensor
"""A path, a PIL image, RGB uint8 [H, W, 3], or a tensor uint8 [3, H, W]."""


class Named(NamedTuple):
    """A picture that is read when it is needed."""

    id: str
    read: Callable[[], NDArray[np.uint8]]
    """RGB uint8 [H, W, 3]."""


def as_pictures(images: Picture | Iterable[Picture]) -> list[Named]:
    """One or many pictures, each with an id: the stem of its file's name, or the whole path where stems repeat.

    What has no file is called by its place: "0", "1", … A mistake in an array is found here, in a file on reading it.
    """
    many: list[Any] = [images] if is_one(images) else list(images)  # type: ignore[arg-type]
    stems = Counter(Path(one).stem for one in many if isinstance(one, str | Path))
    return [_named(one, place, stems) for place, one in enumerate(many)]


def is_one(images: object) -> bool:
    """Whether this is a single picture; a stack of four dimensions is many."""
    if isinstance(images, np.ndarray | torch.Tensor):
        return images.ndim <= 3
    return isinstance(images, str | Path | Image.Image)


def proposals_of_each(proposals: Any, one: bool, count: int) -> Sequence[NDArray[Any] | None]:
    """Boxes [B, 4] of each of `count` pictures, or None for each. For a single picture, `one`, they may come bare."""
    if proposals is None:
        return [None] * count
    each = [proposals] if one and getattr(proposals, "ndim", 3) == 2 else list(proposals)
    if len(each) != count:
        raise InputError(f"expected proposals for each of {count} pictures, found them for {len(each)}")
    for boxes in each:
        if np.ndim(boxes) != 2 or np.shape(boxes)[1] != 4:
            raise InputError(f"proposals: expected boxes [B, 4], found shape {list(np.shape(boxes))}")
    return each


def _named(image: Any, place: int, stems: Counter[str]) -> Named:
    if isinstance(image, str | Path):
        path = Path(image)
        name = path.stem if stems[path.stem] == 1 else path.as_posix()
        return Named(name, partial(read_image, path))
    pixels = _pixels(image, place)
    return Named(str(place), lambda: pixels)


def _pixels(image: Any, place: int) -> NDArray[np.uint8]:
    if isinstance(image, Image.Image):
        return np.array((ImageOps.exif_transpose(image) or image).convert("RGB"))
    if isinstance(image, torch.Tensor):
        return _require_rgb(
            image.detach().cpu().movedim(0, -1).numpy() if image.ndim == 3 else image, "[3, H, W]", place
        )
    if isinstance(image, np.ndarray):
        return _require_rgb(image, "[H, W, 3]", place)
    expected = "a path, a PIL image, an array [H, W, 3] or a tensor [3, H, W]"
    raise InputError(f"picture {place}: expected {expected}, found {type(image).__name__}")


def _require_rgb(pixels: Any, layout: str, place: int) -> NDArray[np.uint8]:
    """Integers in 0–255 are meant; of other numbers nobody can tell whether 1 is white or nearly black."""
    if pixels.ndim != 3 or pixels.shape[2] != 3 or not all(pixels.shape) or pixels.dtype != np.uint8:
        found = f"{pixels.dtype} {list(pixels.shape)}"
        raise InputError(f"picture {place}: expected RGB of type uint8 and shape {layout}, found {found}")
    return np.ascontiguousarray(pixels)
