"""Tag files line by line: `tags.csv` (columns image, tags) and `metadata.jsonl` (`file_name`, `tags`)."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from tag2box.data.files import read_text, same_form
from tag2box.errors import InputError

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}


class Row(NamedTuple):
    """One line of a tag file."""

    line: int
    image: str
    tags: list[str]
    split: str
    """Empty where the file does not tell."""


def split_tags(cell: str) -> list[str]:
    """The tags in a cell, split at the strongest separator it has: semicolons, else commas, else blanks.

    A tag of two words therefore needs a semicolon or comma beside it, if only at its end.

    >>> split_tags("cat dog")
    ['cat', 'dog']
    >>> split_tags("hot dog; cat")
    ['hot dog', 'cat']
    >>> split_tags("hot dog;")
    ['hot dog']
    """
    separator = ";" if ";" in cell else "," if "," in cell else None
    return _clean(cell.split(separator))


def _clean(tags: Iterable[str]) -> list[str]:
    return [same_form(tag.strip()) for tag in tags if tag.strip()]


def read_rows(file: Path) -> list[Row]:
    """All lines of a tag file that say something."""
    rows = list(_read_csv(file) if file.suffix.lower() == ".csv" else _read_jsonl(file))
    if not rows:
        raise InputError(f"{file}: expected a line per image, found none")
    return rows


def _read_csv(file: Path) -> Iterator[Row]:
    text = read_text(file)
    delimiter = _delimiter(text)
    # strict, so that an open quote is an error instead of swallowing the rest of the file
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [name.strip().casefold() for name in next(reader, [])]
        _require_columns(file, header)
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield _csv_row(file, reader.line_num, header, cells, delimiter)
    except csv.Error as error:
        raise InputError(f"{file}, line {reader.line_num}: expected CSV, found {error}") from None


def _delimiter(text: str) -> str:
    """What the header has between its columns: commas, or else what spreadsheets write in much of Europe, or tabs.

    >>> _delimiter("image;tags\\na.jpg;cat, dog")
    ';'
    """
    header = text.partition("\n")[0]
    return next((delimiter for delimiter in _DELIMITERS if delimiter in header), ",")


def _require_columns(file: Path, header: list[str]) -> None:
    for column in ("image", "tags"):
        if column not in header:
            others = [name for name in header if name not in ("image", "tags", "split")]
            near = get_close_matches(column, others, n=1)
            hint = f"; rename '{near[0]}' to '{column}'?" if near else ""
            raise InputError(
                f"{file}, line 1: expected a header with the columns image and tags, found '{', '.join(header)}'{hint}"
            )


def _csv_row(file: Path, line: int, header: list[str], cells: list[str], delimiter: str) -> Row:
    if len(cells) != len(header):
        raise InputError(
            f"{file}, line {line}: expected {len(header)} cells, found {len(cells)}; "
            f"tags with {_DELIMITERS[delimiter]} between them need quotes around them"
        )
    cell = dict(zip(header, cells, strict=True))
    return _row(file, line, cell["image"], split_tags(cell["tags"]), cell.get("split", ""))


def _read_jsonl(file: Path) -> Iterator[Row]:
    for line, text in enumerate(read_text(file).split("\n"), start=1):
        if text.strip():
            yield _json_row(file, line, text)


def _json_row(file: Path, line: int, text: str) -> Row:
    try:
        item = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{file}, line {line}: expected a JSON object, found {error.msg.lower()}") from None
    name, tags = (item.get("file_name"), item.get("tags")) if isinstance(item, dict) else (None, None)
    if isinstance(tags, str):
        tags = split_tags(tags)
    if not isinstance(name, str) or not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise InputError(
            f"{file}, line {line}: expected 'file_name' and 'tags' (a list or a string), found {text:.100}"
        )
    return _row(file, line, name, _clean(tags), str(item.get("split") or ""))


def _row(file: Path, line: int, image: str, tags: list[str], split: str) -> Row:
    if not image.strip():
        raise InputError(f"{file}, line {line}: expected the name of an image, found none")
    return Row(line, image.strip(), tags, split.strip())
