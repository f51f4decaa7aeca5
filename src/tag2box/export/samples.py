"""Pictures to try an exported file on: some of a data set's, or drawn ones."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tag2box.data import open_dataset
from tag2box.data.demo_picture import draw_picture
from tag2box.data.images import read_image
from tag2box.export.check import Sample
from tag2box.pipeline import count_workers, worker_pool
from tag2box.progress import progress
from tag2box.proposals.selective_search import preset, selective_search


def drawn_samples(number: int, proposals: str | None) -> list[Sample]:
    """Drawn pictures, no two of one size, with the proposals of that preset, or without."""
    return _searched([(f"drawn picture {i + 1}", _drawn(i)) for i in range(number)], proposals)


def dataset_samples(
    number: int, proposals: str | None, data: Path, *, split: str | None = None, images: Path | None = None
) -> list[Sample]:
    """Pictures from all over a data set, all of them where it has no more than that number."""
    dataset = open_dataset(data, split, images=images, check=False)
    some = np.unique(np.linspace(0, len(dataset) - 1, number).round().astype(int))
    return _searched([(dataset[i].id, read_image(dataset[i].path)) for i in some], proposals)


def _drawn(number: int) -> NDArray[np.uint8]:
    """A drawing, made smaller or larger, and wider or narrower."""
    rng = np.random.Generator(np.random.PCG64([number]))
    pixels = draw_picture(rng).pixels
    height, width = pixels.shape[:2]
    grown, stretched = 0.6 * 1.1**number, rng.uniform(0.7, 1.4)  # up to 3.7 times
    return np.array(Image.fromarray(pixels).resize((round(width * grown * stretched), round(height * grown))))


def _searched(pictures: list[tuple[str, NDArray[np.uint8]]], proposals: str | None) -> list[Sample]:
    if proposals is None:
        return [Sample(name, pixels, None) for name, pixels in pictures]
    settings, found = preset(proposals), []
    # Not in the main thread: Ctrl-C would break off compiled code there, and with it the process.
    with (
        worker_pool(count_workers(None, len(pictures)), processes=False) as pool,
        progress("proposals", len(pictures), unit="pictures") as count_one,
    ):
        for boxes in pool.map(lambda picture: selective_search(picture[1], settings), pictures):
            found.append(boxes)
            count_one()
    return [Sample(name, pixels, boxes) for (name, pixels), boxes in zip(pictures, found, strict=True)]
