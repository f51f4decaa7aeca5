"""Files appear whole or not at all: written beside their place, then moved into it."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tag2box.errors import InputError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A path to write to in place of `path`, same folder and ending; moved onto it at the end, removed if that fails.

    A reader, or a run killed halfway, sees the old file or the new one and never half of it.
    """
    temporary = _reserve(path)
    mode = temporary.stat().st_mode
    try:
        yield temporary
        temporary.chmod(mode)  # a library that made the file anew, as safetensors does, may have shut others out
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a whole file; text as UTF-8."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror or error}") from None


def require_writable(path: Path) -> None:
    """Find out before the work, not after it, that its result cannot be written to `path`."""
    _reserve(path).unlink()


def _reserve(path: Path) -> Path:
    """An empty file of a new name beside `path`, with the mode any new file gets."""
    if path.is_dir():
        raise InputError(f"expected the name of a file to write, found a folder: {path}")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    except OSError as error:
        raise InputError(f"cannot write to folder {path.parent}: {error.strerror or error}") from None
    os.close(handle)
    mask = os.umask(0)  # reading the umask means setting it; mkstemp's own 0600 would keep results from a group
    os.umask(mask)
    Path(name).chmod(0o666 & ~mask)
    return Path(name)
