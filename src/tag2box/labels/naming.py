"""What pictures are called in an output: as they were, or flat where a format knows no folders."""

import os
import re
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from tag2box.errors import InputError

LONGEST = 200
"""Bytes; file systems end at 255, and an extension follows."""

# Separators of paths and lists, what Windows forbids, and what is no text: control characters and undecodable bytes.
_UNSAFE = re.compile(r'[\s/\\<>:"|?*\x00-\x1f\x7f\ud800-\udfff]|^[.#]|[.]$')
_NO_TEXT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def flat_names(ids: Sequence[str]) -> list[str]:
    """A file name without extension for each id: no folders and no blanks, and no two alike in any capitalisation.

    Names that can stay as they are do; the others give way.

    >>> flat_names(["cat/001", "dog/001", "cat_001", "my photo"])
    ['cat_001-2', 'dog_001', 'cat_001', 'my_photo']
    """
    wanted = [_shortened(_UNSAFE.sub("_", id)) for id in ids]
    names, taken = list(wanted), set[str]()
    for place in sorted(range(len(ids)), key=lambda i: wanted[i] != ids[i]):
        number = 2
        while names[place].casefold() in taken:
            names[place], number = f"{wanted[place]}-{number}", number + 1
        taken.add(names[place].casefold())
    return names


def relative_names(paths: Sequence[Path]) -> tuple[Path, list[str]]:
    """The folder that all pictures are in, at some depth, and each one's path below it, with slashes."""
    whole = [Path(os.path.abspath(path)) for path in paths]  # noqa: PTH100 - links stay as they are
    root = Path(os.path.commonpath([path.parent for path in whole]))
    return root, [path.relative_to(root).as_posix() for path in whole]


def is_file_name(name: str) -> bool:
    """Whether a name can be that of a file on every system.

    >>> is_file_name("traffic light"), is_file_name("cat/dog")
    (True, False)
    """
    return not _UNSAFE.search(name.replace(" ", "")) and name == name.strip()


def require_text(classes: Sequence[str]) -> None:
    """Refuse names of classes that XML and YAML cannot carry."""
    for name in classes:
        if _NO_TEXT.search(name):
            raise InputError(f"expected names of classes in plain text, found {name!r:.80}")


def _shortened(name: str) -> str:
    if len(name.encode()) <= LONGEST:
        return name
    return f"{name[:40]}-{blake2b(name.encode(), digest_size=8).hexdigest()}"
