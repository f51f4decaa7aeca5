"""Pictures as people have them: any mode, any orientation, some of them broken."""

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from tag2box.errors import InputError
from tag2box.progress import progress

MAX_SIDE = 32767
"""Proposals are stored as int16."""

_TURNED = (5, 6, 7, 8)  # EXIF orientations that swap width and height

Size = tuple[int, int]


def read_image(path: Path | str) -> NDArray[np.uint8]:
    """A picture as it is seen, RGB [H, W, 3]: EXIF orientation applied, the first frame of an animation."""
    try:
        with Image.open(path) as image:
            _require_sides(image.size)
            return as_rgb(image)
    except Exception as error:
        raise InputError(f"cannot read the picture {path}: {_reason(path, error)}") from error


def as_rgb(image: Image.Image) -> NDArray[np.uint8]:
    """A picture that Pillow has opened or somebody has made, as it is seen: RGB [H, W, 3]."""
    return np.array(_to_rgb(ImageOps.exif_transpose(image)))


def image_size(path: Path | str) -> Size:
    """Width and height as `read_image` has them, from the header where the format allows."""
    found = _examine(path, decode=False)
    if isinstance(found, str):
        raise InputError(f"cannot read the picture {path}: {found}")
    return found


def check_images(paths: Sequence[Path]) -> list[tuple[Path, str]]:
    """Every broken picture among the paths, with what is wrong with it."""
    return [(path, found) for path, found in zip(paths, survey(paths), strict=True) if isinstance(found, str)]


def survey(paths: Sequence[Path], *, decode: bool = True) -> list[Size | str]:
    """For each picture its size as seen or, where it is broken, the reason. Without `decode` only headers are read.

    Pillow lets go of the interpreter lock while it decodes, so threads are enough.
    """
    with warnings.catch_warnings(), ThreadPoolExecutor(os.cpu_count()) as pool:
        warnings.simplefilter("ignore")  # what Pillow warns of is either named by us as broken or harmless
        found = []
        with progress("checking images", len(paths)) as count_one:
            for size in pool.map(lambda path: _examine(path, decode=decode), paths):
                found.append(size)
                count_one()
        return found


def _examine(path: Path | str, *, decode: bool) -> Size | str:
    try:
        with Image.open(path) as image:
            _require_sides(image.size)
            size = _upright_size(image)
            if decode:
                _try_decoding(image)
            return size
    except Exception as error:  # Pillow's decoders raise whatever the bytes lead them to; none of it is a whole picture
        return _reason(path, error)


def _try_decoding(image: Image.Image) -> None:
    """Decode to the last byte. A JPEG at an eighth of its size is still read to the end, with less arithmetic."""
    if image.format in ("JPEG", "MPO"):
        image.draft(None, (1, 1))
        image.load()
    else:
        _to_rgb(image)


def _upright_size(image: Image.Image) -> Size:
    if image.getexif().get(ExifTags.Base.Orientation) not in _TURNED:
        return image.size
    if image.format == "TIFF":  # Pillow turns these while loading, and some versions swap the size already on opening
        image.load()
        return image.size
    return image.size[1], image.size[0]


def _require_sides(size: Size) -> None:
    if max(size) > MAX_SIDE:
        raise InputError(f"{size[0]} × {size[1]} pixels, more than {MAX_SIDE} a side")


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return Image.fromarray(_deep_grey_to_bytes(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        # On white, as paper and web pages show it: the colours hidden under transparency are arbitrary, often black.
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    return image.convert("RGB")


def _deep_grey_to_bytes(grey: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Grey of more than 8 bits → uint8, where Pillow's own conversion would clip everything above 255 to white.

    Integers up to 65535 are 16-bit pictures: the high byte counts, as Pillow has it for 16-bit colour. Floats and
    larger integers have no agreed range: the lowest finite value becomes black, the highest white.
    """
    values = grey.astype(np.float64)
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    if np.issubdtype(grey.dtype, np.integer) and low >= 0 and high <= 65535:
        return (values // 256).astype(np.uint8)
    scaled = (np.nan_to_num(values, nan=low, posinf=high, neginf=low) - low) / ((high - low) or 1.0)
    return np.round(scaled * 255).astype(np.uint8)


def _reason(path: Path | str, error: Exception) -> str:
    """What is wrong with a picture, in a few words."""
    match error:
        case UnidentifiedImageError():
            return "not an image" if Path(path).stat().st_size else "empty file"
        case Image.DecompressionBombError():
            return "decompression bomb: more pixels than Pillow takes for safe"
        case InputError():
            return str(error)
        case OSError(strerror=str(words)):
            return words.lower()
    return str(error).lower() or type(error).__name__
