"""One folder per class. The same picture in two folders carries both tags."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path

from tag2box.data.files import entries, find_images, is_image_name, same_form, subfolders
from tag2box.data.listing import Entry, Listing, in_class_order, make_ids
from tag2box.data.records import WHOLE
from tag2box.data.splits import choose_split
from tag2box.errors import InputError, did_you_mean, name_some

_SPLIT_NAMES = frozenset({"train", "trainval", "val", "valid", "validation", "test"})


@dataclass(frozen=True)
class ClassFolders:
    """Folders named after classes with pictures at any depth, or named after splits with such folders inside."""

    where: Path

    def listing(self, split: str | None) -> Listing:
        """Pictures and tags, by id. The classes are those of all splits, so that numbers agree between them."""
        splits = self._splits(split)
        split = choose_split(split, list(splits), self.where) if splits else WHOLE
        root = splits.get(split, self.where)
        classes = sorted({_class_of(path, folder) for folder in splits.values() or [root] for path in _tagged(folder)})
        if not classes:
            raise InputError(
                f"{self.where}: expected a folder per class with pictures inside, tags.csv, metadata.jsonl, a VOC "
                f"devkit or COCO annotations, found {_inventory(self.where)}"
            )
        return Listing(tuple(classes), tuple(_entries(root, classes)), tuple(_notes(root)), split)

    def ground_truth(self, split: str | None) -> None:
        """Nothing: folders know no boxes."""

    def _splits(self, asked: str | None) -> dict[str, Path]:
        """The folders that are splits: all when they are called so, or when one with folders inside is asked for."""
        folders = {folder.name: folder for folder in subfolders(self.where)}
        nested = {name: folder for name, folder in folders.items() if subfolders(folder)}
        if folders and folders.keys() <= _SPLIT_NAMES:
            if not nested:
                raise InputError(f"{self.where}: expected a folder per class inside {', '.join(folders)}, found none")
            return nested
        if asked is not None and asked not in nested:
            raise InputError(
                f"{self.where} has no split '{asked}': expected a folder of that name with a folder per class inside, "
                f"found {name_some(folders) or 'no folders'}{did_you_mean(asked, folders)}"
            )
        return nested if asked else {}


def _tagged(root: Path) -> list[Path]:
    """Pictures in the folders of a root; those beside the folders have no class."""
    return [path for folder in subfolders(root) for path in find_images(folder)]


def _class_of(path: Path, root: Path) -> str:
    return same_form(path.relative_to(root).parts[0])


def _entries(root: Path, classes: Sequence[str]) -> list[Entry]:
    groups = _same_pictures(_tagged(root))
    ids = make_ids([group[0].relative_to(root).as_posix() for group in groups])
    found = [
        Entry(id, group[0], in_class_order((_class_of(path, root) for path in group), classes), tuple(group[1:]))
        for id, group in zip(ids, groups, strict=True)
    ]
    return sorted(found, key=lambda entry: entry.id)


def _same_pictures(paths: Iterable[Path]) -> list[list[Path]]:
    """Paths in groups of equal bytes. Only files of equal size are read.

    One that cannot be read is like no other; the check of all pictures will name it.
    """
    by_size: dict[int, list[Path]] = defaultdict(list)
    for path in paths:
        by_size[_size(path)].append(path)
    groups: list[list[Path]] = []
    for alike in by_size.values():
        by_digest: dict[str, list[Path]] = defaultdict(list)
        for path in alike:
            by_digest[_digest(path) if len(alike) > 1 else ""].append(path)
        groups += by_digest.values()
    return groups


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # a link that leads nowhere
        return -1


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError:
        return str(path)


def _notes(root: Path) -> Iterator[str]:
    loose = _pictures_directly_in(root)
    if loose:
        yield f"ignored {len(loose)} picture{'s' * (len(loose) > 1)} in no class folder of {root}: {name_some(loose)}"
    empty = [folder.name for folder in subfolders(root) if not find_images(folder)]
    if empty:
        yield f"ignored {len(empty)} folder{'s' * (len(empty) > 1)} in {root} without pictures: {name_some(empty)}"


def _pictures_directly_in(folder: Path) -> list[str]:
    return [entry.name for entry in entries(folder) if entry.is_file() and is_image_name(entry.name)]


def _inventory(folder: Path) -> str:
    """What is there instead of tagged pictures."""
    if loose := _pictures_directly_in(folder):
        return f"{len(loose)} pictures without tags"
    names = [entry.name for entry in entries(folder)]
    return f"no images, only {name_some(names)}" if names else "no images: the folder is empty"
