"""The pictures of the examples, small, in a folder of the run: a page can be written again without the data set."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from PIL import Image

from tag2box.data import TaggedImage, read_image
from tag2box.errors import InputError
from tag2box.files import atomic_path, make_folder
from tag2box.report.findings import Example

OURS = r"[a-z]+-\d+\.jpg"
LONGEST = 720
"""Pixels: twice what the page shows, for sharp screens and for paper."""


def keep_pictures(folder: Path, examples: Iterable[Example], images: Mapping[str, TaggedImage]) -> tuple[Example, ...]:
    """Write a small copy of each example's picture; the examples with its name. Earlier copies are removed.

    A picture that is gone or broken by now is left out, and so is its example.
    """
    make_folder(folder)
    kept: list[Example] = []
    for example in examples:
        image = images.get(example.id)
        name = f"{example.group}-{sum(other.group == example.group for other in kept) + 1}.jpg"
        if image is not None and _copy(image.path, folder / name):
            kept.append(replace(example, file=name, size=image.size))
    current = {example.file for example in kept}
    for old in folder.glob("*.jpg"):
        if re.fullmatch(OURS, old.name) and old.name not in current:
            old.unlink(missing_ok=True)
    return tuple(kept)


def _copy(path: Path, to: Path) -> bool:
    try:
        picture = Image.fromarray(read_image(path))
    except InputError:
        return False
    picture.thumbnail((LONGEST, LONGEST), Image.Resampling.LANCZOS)
    with atomic_path(to) as temporary:
        picture.save(temporary, quality=84)
    return True
