"""What a COCO instances file says, checked when read so that nobody need check again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from tag2box.data.files import read_text
from tag2box.data.listing import make_ids
from tag2box.errors import InputError

Item = Mapping[str, Any]
T = TypeVar("T")

_PARTS = ("images", "annotations", "categories")


@dataclass(frozen=True, slots=True)
class Instances:
    """Images in the order of their ids, categories in the order of their numbers."""

    file: Path
    ids: dict[int, str]
    """The file's number of each image to its id."""
    file_names: dict[int, str]
    """The file's number of each image to its path below the image folder."""
    sizes: list[tuple[int, int]]
    """Width and height in the order of `ids`; a zero where the file does not tell."""
    categories: dict[int, str]
    """The file's number of each category to its name."""
    annotations: list[Item]
    """As they stand in the file; each is of a known image and category."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the categories, in order."""
        return tuple(self.categories.values())


def read_instances(file: Path) -> Instances:
    """Read and check an instances file."""
    images, annotations, categories = _read_parts(file)
    names = dict(sorted(zip(_column(file, categories, "id", int), _column(file, categories, "name", str), strict=True)))
    _require_class_names(file, list(names.values()), len(categories))
    file_names = dict(zip(_column(file, images, "id", int), _column(file, images, "file_name", str), strict=True))
    if len(file_names) < len(images):
        twice = len(images) - len(file_names)
        raise InputError(f"{file}: expected a number of its own for each image, found {twice} given twice")
    ids = dict(zip(file_names, make_ids(list(file_names.values())), strict=True))
    ids = dict(sorted(ids.items(), key=lambda item: item[1]))
    size_of = {item["id"]: (int(item.get("width") or 0), int(item.get("height") or 0)) for item in images}
    _require_known(file, annotations, "image_id", ids, "image")
    _require_known(file, annotations, "category_id", names, "category")
    return Instances(file, ids, file_names, [size_of[number] for number in ids], names, annotations)


def _read_parts(file: Path) -> tuple[list[Item], list[Item], list[Item]]:
    try:
        document = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        raise InputError(f"{file}: expected JSON, found {error.msg.lower()} in line {error.lineno}") from None
    images, annotations, categories = (document.get(part) if isinstance(document, dict) else None for part in _PARTS)
    if not (_are_items(images) and _are_items(annotations) and _are_items(categories)):
        found = f"an object of {', '.join(document) or 'nothing'}" if isinstance(document, dict) else "no object"
        raise InputError(f"{file}: expected a COCO instances file with lists {', '.join(_PARTS)}, found {found}")
    return images, annotations, categories


def _are_items(part: object) -> TypeGuard[list[Item]]:
    return isinstance(part, list) and all(isinstance(item, dict) for item in part)


def _column(file: Path, items: Sequence[Item], key: str, kind: type[T]) -> list[T]:
    """One field of all items, which has to be there and of a type."""
    for item in items:
        if not isinstance(item.get(key), kind):
            raise InputError(f"{file}: expected '{key}' ({kind.__name__}) in every item, found {json.dumps(item):.100}")
    return [item[key] for item in items]


def _require_class_names(file: Path, names: Sequence[str], count: int) -> None:
    if "" in (name.strip() for name in names):
        raise InputError(f"{file}: expected a name for each category, found one without")
    if len(set(names)) < count:
        raise InputError(f"{file}: expected categories with different numbers and names, found some twice")


def _require_known(file: Path, annotations: Sequence[Item], key: str, known: Mapping[int, str], what: str) -> None:
    for item in annotations:
        if item.get(key) not in known:
            raise InputError(f"{file}, annotation {item.get('id')}: found {key} {item.get(key)!r}, which no {what} has")
