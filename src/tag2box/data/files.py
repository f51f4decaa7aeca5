"""The user's files: found, read, and when that fails, named in words."""

import os
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

from PIL import features

from tag2box.errors import InputError, did_you_mean, name_some

IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}
    | ({".avif"} if features.check("avif") else set())
)
_LITTER = {"__macosx", "thumbs.db"}  # left behind by file managers; those beginning with a dot are hidden anyway


def require_exists(path: Path) -> Path:
    """The path itself, or an error that names what is nearly called so beside it."""
    try:
        path.stat()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist{_near_name(path)}") from None
    except OSError as error:
        raise unreadable(path, error) from error
    return path


def _near_name(path: Path) -> str:
    if not path.parent.is_dir():
        return f" (nor does the folder {path.parent})"
    return did_you_mean(path.name, (entry.name for entry in entries(path.parent)))


def unreadable(path: Path, error: OSError) -> InputError:
    """The operating system's refusal in our words."""
    return InputError(f"cannot read {path}: {(error.strerror or str(error)).lower()}")


def read_text(path: Path) -> str:
    """A UTF-8 text, with or without the byte order mark that spreadsheets write."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{raw[error.start]:02x} in line {line}"
        raise InputError(f"{path}: expected text in UTF-8, found {found}; save it as UTF-8") from None


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """What a folder holds, by name, without hidden files and the litter of file managers."""
    try:
        found = [entry for entry in os.scandir(folder) if not _is_hidden(entry.name)]
    except OSError as error:
        raise unreadable(folder, error) from error
    return sorted(found, key=lambda entry: entry.name)


def subfolders(folder: Path) -> list[Path]:
    """The folders directly inside, by name."""
    return [Path(entry.path) for entry in entries(folder) if entry.is_dir()]


def is_image_name(name: str) -> bool:
    """Whether the extension is a picture's, in any capitalisation."""
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES  # noqa: PTH122 — a Path for each of 100,000 names is slow


def find_images(folder: Path, wanted: Callable[[str], bool] = is_image_name) -> list[Path]:
    """Every file at any depth that calls itself a picture, by path. Links to folders are followed, never in circles.

    wanted: of a name, whether it is looked for, where it is not pictures alone.
    """
    found: list[Path] = []
    for entry in entries(folder):
        if entry.is_dir():
            if not (entry.is_symlink() and _is_ancestor(entry.path, folder)):
                found += find_images(Path(entry.path), wanted)
        elif wanted(entry.name):
            found.append(Path(entry.path))
    return found


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.casefold() in _LITTER


def _is_ancestor(link: str, folder: Path) -> bool:
    return folder.resolve().is_relative_to(os.path.realpath(link))


def same_form(name: str) -> str:
    """One spelling for names that look alike: macOS stores é as two characters where others write one."""
    return unicodedata.normalize("NFC", name)


def missing_images(where: Path, missing: list[str], folder: Path, present: Iterable[str]) -> InputError:
    """The error for a list that names pictures which are not there: how many, which, and what the first may mean."""
    count = f"{len(missing)} {'picture that is' if len(missing) == 1 else 'pictures that are'} not in {folder}"
    return InputError(f"{where} names {count}: {name_some(missing)}{did_you_mean(missing[0], present)}")
