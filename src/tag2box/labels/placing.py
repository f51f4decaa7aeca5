"""The pictures of an output: links to the originals, copies of them, or none.

Boxes are in the picture as it is seen. A camera held upright often stores it lying, with an EXIF tag that says how to
turn it, and not every tool does: a copy is therefore written as it is seen, without the tag. A link cannot be. It is
made for JPEG files, which CVAT, Label Studio and Ultralytics all turn; turned pictures of other kinds, which only some
of them do, are written upright in any case.
"""

import shutil
import warnings
from collections.abc import Iterable
from pathlib import Path

from PIL import ExifTags, Image, ImageOps

from tag2box.data.images import read_image
from tag2box.progress import progress

HOW = ("link", "copy", "none")
_JPEG = ("JPEG", "MPO")
_END_OF_JPEG = b"\xff\xd9"


def place_all(pictures: Iterable[tuple[Path, Path]], how: str) -> int:
    """Put each picture, (original, place), where it belongs; the number of links that need turning by their tag.

    A place with another extension than the original's asks for a PNG.
    """
    pairs = list(pictures) if how != "none" else []
    turned = 0
    with progress("pictures", len(pairs)) as count_one:
        for original, target in pairs:
            target.parent.mkdir(parents=True, exist_ok=True)
            turned += _place(original, target, how)
            count_one()
    return turned


def picture_format(path: Path) -> str:
    """What kind of picture a file is, whatever its name: Pillow's word for it, such as JPEG."""
    return _examine(path)[0]


def _place(original: Path, target: Path, how: str) -> bool:
    """Whether it has become a link to a picture that its tag turns."""
    kind, turned = _examine(original)
    if target.suffix.lower() != original.suffix.lower():
        Image.fromarray(read_image(original)).save(target, "PNG")
    elif turned and (how == "copy" or kind not in _JPEG):
        _write_upright(original, target)
    elif how == "copy" or (kind in _JPEG and not _ends_as_jpeg(original)):
        shutil.copyfile(original, target)
    else:
        _link(original, target)
        return turned
    return False


def _examine(path: Path) -> tuple[str, bool]:
    """The kind of picture, and whether it is to be turned or mirrored."""
    with warnings.catch_warnings(), Image.open(path) as image:
        warnings.simplefilter("ignore")  # of what Pillow warns, large pictures and odd tags, none matters here
        return image.format or "", image.getexif().get(ExifTags.Base.Orientation, 1) in range(2, 9)


def _ends_as_jpeg(path: Path) -> bool:
    """Whether the file ends where the picture does.

    Where it does not, Ultralytics takes it for broken and writes it anew, through a link the original itself.
    """
    with path.open("rb") as file:
        file.seek(-2, 2)
        return file.read() == _END_OF_JPEG


def _write_upright(original: Path, target: Path) -> None:
    """The picture as it is seen, of the same kind, without the tag; its colour profile stays."""
    with Image.open(original) as image:
        kind = "JPEG" if image.format in _JPEG else image.format
        options = {"quality": 95} if kind in ("JPEG", "WEBP", "AVIF") else {}
        ImageOps.exif_transpose(image).save(target, kind, icc_profile=image.info.get("icc_profile"), **options)


def _link(original: Path, target: Path) -> None:
    """A symbolic link; where the system refuses, as Windows does by default, another name for the file, or a copy."""
    original = original.resolve()
    for attempt in (target.symlink_to, target.hardlink_to):
        try:
            attempt(original)
        except OSError:
            continue
        return
    shutil.copyfile(original, target)
