"""The drawings that pretraining pictures are put together from: cut-outs of every category, distractors, backdrops.

Drawn once on the CPU; thousands of pictures a second are then composed of them where the training runs. A bank can be
kept as a file, so that the machine with the accelerator need not draw. Cut-outs are kept as PNG and backdrops as JPEG
at the demo's quality, which keeps the file small.
"""

import io
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

TILE = 96
"""Pixels a side of a cut-out's tile."""
BACKDROP = (256, 192)
"""Width and height."""
DISTRACTOR, CLUTTER = -1, -2
"""Labels of what is of no category: what lies among the things, and what stands before them."""

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Bank:
    """Pixels, ready to be composed."""

    names: tuple[str, ...]
    sprites: Bytes
    """Cut-outs, colour times coverage and coverage [S, TILE, TILE, 4]."""
    labels: NDArray[np.int64]
    """The category of each cut-out, or DISTRACTOR or CLUTTER [S]."""
    instances: NDArray[np.int64]
    """The how-many-th of its category it is [S]."""
    backdrops: Bytes
    """[N, H, W, 3]"""

    def save(self, path: Path) -> None:
        """Write all of it to one .npz file."""
        sprites, sprite_ends = _packed(self.sprites, "RGBA", "PNG")
        backdrops, backdrop_ends = _packed(self.backdrops, "RGB", "JPEG")
        np.savez(path, names=self.names, sprites=sprites, sprite_ends=sprite_ends, labels=self.labels,
                 instances=self.instances, backdrops=backdrops, backdrop_ends=backdrop_ends)  # fmt: skip


def load_bank(path: Path) -> Bank:
    """What `save` wrote."""
    with np.load(path) as file:
        sprites = _unpacked(file["sprites"], file["sprite_ends"])
        backdrops = _unpacked(file["backdrops"], file["backdrop_ends"])
        return Bank(tuple(file["names"].tolist()), sprites, file["labels"], file["instances"], backdrops)


def _packed(images: Bytes, mode: str, kind: str) -> tuple[Bytes, NDArray[np.int64]]:
    files = []
    for pixels in images:
        buffer = io.BytesIO()
        Image.fromarray(pixels, mode).save(
            buffer, kind, **({"quality": 90, "subsampling": 0} if kind == "JPEG" else {})
        )
        files.append(buffer.getvalue())
    return np.frombuffer(b"".join(files), dtype=np.uint8), np.cumsum([len(file) for file in files])


def _unpacked(data: Bytes, ends: NDArray[np.int64]) -> Bytes:
    files = np.split(data, ends[:-1])
    with ThreadPoolExecutor() as pool:  # Pillow decodes without holding the interpreter
        return np.stack(list(pool.map(lambda file: np.asarray(Image.open(io.BytesIO(file.tobytes()))), files)))


def draw_bank(seed: int, *, instances: int, backdrops: int, workers: int, invented: int | None = None) -> Bank:
    """Draw everything; the same seed gives the same bank, whatever the number of workers."""
    # Here and not above: a machine that is given a bank need not have what drawing needs.
    from tiny_drawing import Order, draw_backdrop, draw_sprite, orders_of

    names, orders = orders_of(seed, instances, invented)
    sprites = np.stack(list(_mapped(draw_sprite, orders, workers)))
    scenes = np.stack(list(_mapped(draw_backdrop, [Order(seed, n, 0) for n in range(backdrops)], workers)))
    labels, numbers = (np.array([getattr(order, field) for order in orders]) for field in ("label", "instance"))
    return Bank(names, sprites, labels, numbers, scenes)


def _mapped(function: Callable[[Any], Bytes], orders: Sequence[Any], workers: int) -> Iterable[Bytes]:
    if workers <= 1:
        return map(function, orders)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(function, orders, chunksize=64))
