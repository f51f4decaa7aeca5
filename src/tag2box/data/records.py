"""What training sees of a data set: pictures and their tags, never a box."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WHOLE = "all"
"""The name of the split of a data set that has none."""


@dataclass(frozen=True, slots=True)
class TaggedImage:
    """One picture and what is known to be in it."""

    id: str
    """The name without extension; with its folder (`cat/001`) where another picture has the same name."""
    path: Path
    size: tuple[int, int]
    """Width and height as seen, EXIF orientation applied."""
    tags: tuple[str, ...]
    """Classes present, in the data set's order. May be empty: a picture of none of them."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Tagged images in a fixed order. It holds no boxes and no way to find them: see `ground_truth.py` for those."""

    classes: tuple[str, ...]
    images: tuple[TaggedImage, ...]
    split: str = WHOLE
    """The name of the part that was opened."""

    def __len__(self) -> int:
        return len(self.images)

    def __iter__(self) -> Iterator[TaggedImage]:
        return iter(self.images)

    def __getitem__(self, index: int) -> TaggedImage:
        return self.images[index]

    @property
    def ids(self) -> tuple[str, ...]:
        """The images' ids, in order."""
        return tuple(image.id for image in self.images)

    def subset(self, keep: Sequence[bool]) -> "Dataset":
        """The images where `keep` is true; the classes stay, so that numbers keep their meaning."""
        return replace(self, images=tuple(image for image, kept in zip(self.images, keep, strict=True) if kept))

    def tag_matrix(self) -> NDArray[np.bool_]:
        """Which image carries which class, bool [N, C]."""
        column = {name: c for c, name in enumerate(self.classes)}
        matrix = np.zeros((len(self.images), len(self.classes)), dtype=bool)
        for row, image in enumerate(self.images):
            matrix[row, [column[tag] for tag in image.tags]] = True
        return matrix
