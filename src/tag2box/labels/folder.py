"""An output appears whole or not at all: built in a folder beside its place, then moved into it."""

import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tag2box.about import read_about
from tag2box.errors import InputError

FORMAT = "tag2box labels 1"
"""What `tag2box.json` says. Only a folder that says so is ever replaced."""
_EXCHANGE = 2  # RENAME_EXCHANGE in <linux/fs.h>
_HERE = -100  # AT_FDCWD


def require_free(out: Path, overwrite: bool) -> None:
    """Refuse a place that is taken, unless by an earlier output that may be replaced."""
    if not out.exists() and not out.is_symlink():
        return
    if not out.is_dir():
        raise InputError(f"expected a folder to write the labels to, found a file: {out}")
    if not any(out.iterdir()):
        return
    if not overwrite:
        raise InputError(f"{out} is not empty; replace it with --overwrite, or write elsewhere with --out")
    if read_about(out).get("format") != FORMAT:
        raise InputError(f"{out}: expected labels that tag2box wrote earlier, found another folder; it is not replaced")


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A new folder to build in, beside `out`; moved there at the end in place of what is there, removed on failure."""
    out = out.resolve()  # the folder that a link leads to is replaced, not the link
    try:
        built = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name[:100]}-"))
    except OSError as error:
        raise InputError(f"cannot write to folder {out.parent}: {error.strerror or error}") from None
    try:
        mask = os.umask(0)  # reading the umask means setting it; mkdtemp's own 0700 would keep results from a group
        os.umask(mask)
        built.chmod(0o777 & ~mask)
        yield built
        _move(built, out)
    finally:
        shutil.rmtree(built, ignore_errors=True)


def _move(built: Path, out: Path) -> None:
    """Put the new folder in the place of the old one; what was there has the new one's name afterwards, or is gone."""
    if not out.exists():
        built.rename(out)
    elif not _exchange(built, out):
        aside = Path(f"{built}-old")
        out.rename(aside)
        try:
            built.rename(out)
        except BaseException:
            aside.rename(out)
            raise
        shutil.rmtree(aside, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step, so that there is no moment without either; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):  # an old or another C library
        return False
    return int(rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)) == 0
