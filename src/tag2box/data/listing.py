"""What a format says about a data set before any picture is opened."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from tag2box.data.files import same_form
from tag2box.data.ground_truth import GroundTruth
from tag2box.data.records import WHOLE
from tag2box.errors import InputError


@dataclass(frozen=True, slots=True)
class Entry:
    """One picture as listed: its size is not known yet, nor whether it is whole."""

    id: str
    path: Path
    tags: tuple[str, ...]
    copies: tuple[Path, ...] = ()
    """Other files with the same bytes, which this one stands for."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The pictures of one split in order, and what the user should be told about them."""

    classes: tuple[str, ...]
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()
    split: str = WHOLE


class Source(Protocol):
    """A data set on disk in one of the formats."""

    @property
    def where(self) -> Path:
        """What the user knows it by: the folder or file that messages name."""

    def listing(self, split: str | None) -> Listing:
        """Pictures and tags of a split; opens no picture."""

    def ground_truth(self, split: str | None) -> GroundTruth | None:
        """Boxes of a split for evaluation, where the format has any; needs no picture."""


def make_ids(names: Sequence[str]) -> list[str]:
    """Ids for pictures named by relative path: the bare name, where need be with its folder, then its extension too.

    >>> make_ids(["cat/001.jpg", "dog/001.jpg", "dog/002.jpg"])
    ['cat/001', 'dog/001', '002']
    >>> make_ids(["a.jpg", "a.png"])
    ['a.jpg', 'a.png']
    """
    paths = [PurePosixPath(same_form(name)) for name in names]
    stems = [path.stem for path in paths]
    bare = [path.with_suffix("").as_posix() for path in paths]
    stem_count, bare_count = Counter(stems), Counter(bare)
    ids = [
        stem if stem_count[stem] == 1 else short if bare_count[short] == 1 else path.as_posix()
        for stem, short, path in zip(stems, bare, paths, strict=True)
    ]
    _require_unique(ids, names)
    return ids


def _require_unique(ids: Sequence[str], names: Sequence[str]) -> None:
    first_of: dict[str, str] = {}
    for id, name in zip(ids, names, strict=True):
        if id in first_of:
            raise InputError(f"expected one name per picture, found '{first_of[id]}' and '{name}', both of id '{id}'")
        first_of[id] = name


def in_class_order(tags: Iterable[str], classes: Sequence[str]) -> tuple[str, ...]:
    """Each tag once, in the data set's order."""
    present = set(tags)
    return tuple(name for name in classes if name in present)
