"""Open a data set: recognise its format, look at every picture, hand out records. Boxes come through their own call."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from tag2box.data.coco import find_coco
from tag2box.data.files import require_exists
from tag2box.data.folders import ClassFolders
from tag2box.data.ground_truth import GroundTruth
from tag2box.data.images import Size, survey
from tag2box.data.listing import Entry, Source
from tag2box.data.records import Dataset, TaggedImage
from tag2box.data.splits import in_validation, require_fraction
from tag2box.data.tags import find_tag_file
from tag2box.data.voc import find_devkit
from tag2box.errors import InputError


def _print_warning(message: str) -> None:
    print(message, file=sys.stderr)


def open_dataset(
    path: Path | str,
    split: str | None = None,
    *,
    images: Path | str | None = None,
    val_fraction: float | None = None,
    subset: Literal["train", "val"] | None = None,
    seed: int = 0,
    check: bool = True,
    skip_bad_images: bool = False,
    warn: Callable[[str], None] = _print_warning,
) -> Dataset:
    """Open tagged images in any of the formats, recognised by what the path holds.

    `images` is the folder of pictures where a COCO or tag file lies elsewhere. `val_fraction` with `subset` takes one
    side of a split by hash of the id (see `in_validation`). With `check` every picture is decoded once, without it only
    headers are read. Broken pictures are named, all of them, in one InputError; or, with `skip_bad_images`, to `warn`.
    """
    source = _recognise(path, images)
    listing = source.listing(split)
    _require_tagged(source.where, listing.entries)
    for note in listing.notes:
        warn(note)
    entries = _take_subset(listing.entries, val_fraction, subset, seed)
    sizes = survey([entry.path for entry in entries], decode=check)
    _report_broken(source.where, entries, sizes, warn if skip_bad_images else None)
    records = (
        TaggedImage(entry.id, entry.path, size, entry.tags)
        for entry, size in zip(entries, sizes, strict=True)
        if not isinstance(size, str)
    )
    return Dataset(listing.classes, tuple(records), listing.split)


def folder_of(path: Path | str) -> Path:
    """The folder a data set lives in, by whichever of its names it was called; what is made of it is kept there."""
    where = _recognise(path, None).where
    folder = where if where.is_dir() else where.parent
    if folder != where and folder.absolute().name == "annotations":  # COCO's, beside the folders of pictures
        return folder.parent if folder.name else folder.absolute().parent
    return folder


def open_ground_truth(
    path: Path | str, split: str | None = None, *, images: Path | str | None = None
) -> GroundTruth | None:
    """The boxes of a split, for evaluation; None where the data has none. The pictures need not be there.

    Its ids are those of `open_dataset` in the same order; take `.subset(dataset.ids)` where that has left images out.
    """
    return _recognise(path, images).ground_truth(split)


def _recognise(path: Path | str, images: Path | str | None) -> Source:
    path, images = require_exists(Path(path)), None if images is None else Path(images)
    devkit = find_devkit(path) if path.is_dir() else None
    source = devkit or find_coco(path, images) or find_tag_file(path, images)
    if source is None and path.is_file():
        raise InputError(f"{path}: expected a folder, a COCO .json, or a tag file (.csv or .jsonl), found another file")
    if images is not None and (source is None or source is devkit):
        raise InputError(f"{path} has its pictures inside, found {images} given for them; leave the image folder out")
    return source or ClassFolders(path)


def _require_tagged(where: Path, entries: Sequence[Entry]) -> None:
    if not entries:
        raise InputError(f"{where}: expected images, found a split without any")
    if not any(entry.tags for entry in entries):
        raise InputError(f"{where}: expected tags, found {len(entries)} images and not one tag")


def _take_subset(entries: Sequence[Entry], fraction: float | None, subset: str | None, seed: int) -> Sequence[Entry]:
    if fraction is None and subset is None:
        return entries
    if fraction is None or subset not in ("train", "val"):
        raise InputError(f"expected a validation fraction and the subset train or val, found {fraction} and {subset}")
    require_fraction(fraction)
    chosen = [entry for entry in entries if in_validation(entry.id, fraction, seed) == (subset == "val")]
    if not chosen:
        raise InputError(f"expected images in '{subset}', found none: {fraction} of {len(entries)} leaves it empty")
    return chosen


def _report_broken(
    where: Path, entries: Sequence[Entry], sizes: Sequence[Size | str], warn: Callable[[str], None] | None
) -> None:
    """Name every broken picture: to `warn` where there is one and something is left, else as an error."""
    broken = [
        f"{_shown(path, where)} ({reason})"
        for entry, reason in zip(entries, sizes, strict=True)
        if isinstance(reason, str)
        for path in (entry.path, *entry.copies)
    ]
    if not broken:
        return
    count = f"{len(broken)} bad image{'s' if len(broken) > 1 else ''}"
    if all(isinstance(reason, str) for reason in sizes):
        raise InputError(f"{where}: expected images, found only {count}: {', '.join(broken)}")
    if warn is None:
        raise InputError(f"{where}: found {count} (--skip-bad-images goes on without): {', '.join(broken)}")
    warn(f"skipped {count}: {', '.join(broken)}")


def _shown(path: Path, where: Path) -> str:
    """A path as short as it can be without doubt."""
    root = where if where.is_dir() else where.parent
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
