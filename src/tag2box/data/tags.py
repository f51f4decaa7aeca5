"""Pictures in a folder, at any depth, with a tag file that names them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tag2box.data.files import find_images, missing_images, require_exists, same_form
from tag2box.data.listing import Entry, Listing, in_class_order, make_ids
from tag2box.data.records import WHOLE
from tag2box.data.splits import choose_split
from tag2box.data.tag_rows import Row, read_rows
from tag2box.errors import InputError, name_some

_TAG_FILES = ("tags.csv", "metadata.jsonl")


def find_tag_file(path: Path, images: Path | None) -> "TagFile | None":
    """The tag file at a path: the file itself, or in the folder by its usual name."""
    if path.is_file():
        return TagFile(path, images or path.parent) if path.suffix.lower() in (".csv", ".jsonl") else None
    found = [path / name for name in _TAG_FILES if (path / name).is_file()]
    if len(found) > 1:
        raise InputError(f"{path}: expected one tag file, found {' and '.join(_TAG_FILES)}; name the one to use")
    return TagFile(found[0], images or path) if found else None


@dataclass(frozen=True)
class TagFile:
    """A tag file and the folder that its names are below."""

    where: Path
    images: Path

    def listing(self, split: str | None) -> Listing:
        """Pictures and tags, by id. The classes are all tags of the file, so that numbers agree between splits."""
        rows = read_rows(self.where)
        split = self._choose_split(split, rows)
        classes = sorted({tag for row in rows for tag in row.tags})
        pictures = find_images(require_exists(self.images))
        rows_of = self._by_picture(rows, pictures)
        ids = make_ids([path.relative_to(self.images).as_posix() for path in rows_of])
        entries = [
            Entry(id, path, in_class_order((tag for row in own for tag in row.tags), classes))
            for id, (path, own) in zip(ids, rows_of.items(), strict=True)
            if split in (None, own[0].split)
        ]
        unnamed = len(pictures) - len(rows_of)
        note = f"ignored {unnamed} picture{'s' * (unnamed > 1)} in {self.images} that {self.where.name} does not name"
        entries.sort(key=lambda entry: entry.id)
        return Listing(tuple(classes), tuple(entries), (note,) if unnamed else (), split or WHOLE)

    def ground_truth(self, split: str | None) -> None:
        """Nothing: tag files know no boxes."""

    def _choose_split(self, asked: str | None, rows: Sequence[Row]) -> str | None:
        available = sorted({row.split for row in rows})
        if available == [""]:
            if asked is not None:
                raise InputError(f"{self.where}: found split '{asked}' asked for, expected a column 'split' to tell it")
            return None
        for row in rows:
            if not row.split:
                raise InputError(f"{self.where}, line {row.line}: expected a split as in the other lines, found none")
        return choose_split(asked, available, self.where)

    def _by_picture(self, rows: Sequence[Row], pictures: Sequence[Path]) -> dict[Path, list[Row]]:
        """The rows of each picture named; a picture named twice has the tags of both rows."""
        index = _Index(pictures, self.images)
        found = [index.look_up(row.image) for row in rows]
        missing = [row.image for row, paths in zip(rows, found, strict=True) if not paths]
        if missing:
            raise missing_images(self.where, missing, self.images, index.names)
        rows_of: dict[Path, list[Row]] = defaultdict(list)
        for row, paths in zip(rows, found, strict=True):
            if len(paths) > 1:
                several = name_some(path.relative_to(self.images).as_posix() for path in paths)
                raise InputError(f"{self.where}, line {row.line}: expected one picture '{row.image}', found {several}")
            rows_of[paths[0]].append(row)
        self._require_one_split(rows_of)
        return rows_of

    def _require_one_split(self, rows_of: Mapping[Path, Sequence[Row]]) -> None:
        for rows in rows_of.values():
            for row in rows:
                if row.split != rows[0].split:
                    raise InputError(
                        f"{self.where}, line {row.line}: '{row.image}' is in split '{row.split}', found it in "
                        f"'{rows[0].split}' in line {rows[0].line}"
                    )


class _Index:
    """Pictures by whatever people call them: path, path without extension, name, name without extension."""

    def __init__(self, pictures: Iterable[Path], root: Path) -> None:
        self._ways: list[dict[str, list[Path]]] = [defaultdict(list) for _ in range(4)]
        for picture in pictures:
            path = _plain(picture.relative_to(root).as_posix())
            names = (path.as_posix(), path.with_suffix("").as_posix(), path.name, path.stem)
            for way, name in zip(self._ways, names, strict=True):
                way[name].append(picture)

    def look_up(self, name: str) -> list[Path]:
        """The pictures that a name may mean: none, one, or several."""
        key = _plain(name).as_posix()
        return next((way[key] for way in self._ways if key in way), [])

    @property
    def names(self) -> set[str]:
        """Paths and bare names, to suggest from."""
        return {*self._ways[0], *self._ways[2]}


def _plain(name: str) -> PurePosixPath:
    """A name as any system may have written it: `.\\cat\\1.jpg` is `cat/1.jpg`."""
    return PurePosixPath(same_form(name).replace("\\", "/"))
