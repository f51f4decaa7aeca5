"""Pictures as people have them in Python: paths, PIL images, arrays, tensors, one or many."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from tag2box.data.images import as_rgb, read_image
from tag2box.errors import InputError

Picture = str | Path | Image.Image | NDArray[Any] | torch.Tensor
"""A path, a PIL image, an array [H, W, 3] or a tensor [3, H, W]: RGB, uint8 or floats in 0–1; also grey and RGBA."""


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
        return as_rgb(image)
    if isinstance(image, torch.Tensor):
        numbers = image.detach().cpu()
        numbers = numbers.float() if numbers.dtype == torch.bfloat16 else numbers  # NumPy has none
        found = f"{numbers.dtype} {list(image.shape)}".removeprefix("torch.")
        return _from_numbers((numbers.movedim(0, -1) if image.ndim == 3 else numbers).numpy(), place, found)
    if isinstance(image, np.ndarray):
        return _from_numbers(image, place, f"{image.dtype} {list(image.shape)}")
    expected = "a path, a PIL image, an array [H, W, 3] or a tensor [3, H, W]"
    raise InputError(f"picture {place}: expected {expected}, found {type(image).__name__}")


def _from_numbers(pixels: NDArray[Any], place: int, found: str) -> NDArray[np.uint8]:
    """[H, W] or [H, W, 1] grey, [H, W, 3] RGB, [H, W, 4] RGBA, as files of such pictures are read."""
    grey = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    if not (grey.ndim == 2 or (grey.ndim == 3 and grey.shape[2] in (3, 4))) or not all(grey.shape):
        raise InputError(f"picture {place}: expected an array [H, W, 3] or a tensor [3, H, W], found {found}")
    return as_rgb(Image.fromarray(np.ascontiguousarray(_as_bytes(grey, place, found))))


def _as_bytes(pixels: NDArray[Any], place: int, found: str) -> NDArray[np.uint8]:
    """Floats are in 0–1, as torchvision and scikit-image have them."""
    if pixels.dtype == np.uint8:
        return pixels
    if not np.issubdtype(pixels.dtype, np.floating):
        raise InputError(f"picture {place}: expected uint8, or floats in 0–1, found {found}")
    low, high = float(pixels.min()), float(pixels.max())
    if not 0 <= low <= high <= 1:  # not so with NaN either
        raise InputError(f"picture {place}: expected uint8, or floats in 0–1, found {found} from {low:g} to {high:g}")
    return np.round(255 * pixels.astype(np.float64)).astype(np.uint8)
