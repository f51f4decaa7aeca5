"""A VOC devkit: `ImageSets/Main` says which images belong to a split and what is in them, `Annotations` where."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tag2box.data.files import (
    entries,
    is_image_name,
    missing_images,
    read_text,
    require_exists,
    same_form,
    subfolders,
)
from tag2box.data.ground_truth import GroundTruth
from tag2box.data.listing import Entry, Listing, in_class_order
from tag2box.data.splits import choose_split
from tag2box.data.voc_boxes import Annotation, gather, read_annotation
from tag2box.errors import InputError, name_some

_MAIN = Path("ImageSets", "Main")
_LABELS = {"-1", "0", "1"}
_PRESENT = "1"  # 0 says that only difficult objects are there, −1 that none is


def find_devkit(path: Path) -> "Devkit | None":
    """The devkit at a path: a year's folder such as `VOC2007`, or the `VOCdevkit` folder around a single one."""
    if (path / _MAIN).is_dir():
        return Devkit(path)
    years = [folder for folder in subfolders(path) if (folder / _MAIN).is_dir()]
    if len(years) > 1:
        raise InputError(f"{path} holds several devkits, choose one of {', '.join(str(year) for year in years)}")
    return Devkit(years[0]) if years else None


@dataclass(frozen=True)
class Devkit:
    """A folder with `ImageSets/Main`. Where it lacks class lists, as home-made ones do, `Annotations` stand in."""

    where: Path

    def listing(self, split: str | None) -> Listing:
        """Pictures and tags of a split, in its order. No annotation is opened where the class lists tell the tags."""
        split = choose_split(split, list(self._lists.ids), self._main)
        paths = self._find_pictures(split)
        tags = self._tags(split)
        found = (Entry(id, paths[id], in_class_order(tags[id], self._classes)) for id in self._lists.ids[split])
        return Listing(self._classes, tuple(found), split=split)

    def ground_truth(self, split: str | None) -> GroundTruth | None:
        """Every object of a split, or nothing where the devkit comes without annotations (as test sets do)."""
        split = choose_split(split, list(self._lists.ids), self._main)
        if not self._annotation_folder.is_dir():
            return None
        ids = self._lists.ids[split]
        return gather(self._classes, ids, self._read_annotations(ids))

    @property
    def _main(self) -> Path:
        return self.where / _MAIN

    @property
    def _annotation_folder(self) -> Path:
        return self.where / "Annotations"

    @cached_property
    def _lists(self) -> "_Lists":
        return _read_lists(self._main)

    @cached_property
    def _classes(self) -> tuple[str, ...]:
        """From the lists, or without any from the annotations, of all splits: numbers have to agree between them."""
        if self._lists.present:
            return tuple(sorted({name for name, _ in self._lists.present}))
        listed = sorted({id for ids in self._lists.ids.values() for id in ids})
        annotated = {entry.name for entry in entries(require_exists(self._annotation_folder))}
        annotations = self._read_annotations([id for id in listed if f"{id}.xml" in annotated])
        return tuple(sorted({item.name for annotation in annotations for item in annotation.objects}))

    def _tags(self, split: str) -> dict[str, set[str]]:
        """Classes present in each image of a split."""
        ids, lists = self._lists.ids[split], self._lists.present
        if lists and all((name, split) in lists for name in self._classes):
            return {id: {name for name in self._classes if id in lists[name, split]} for id in ids}
        annotations = self._read_annotations(ids)
        for annotation in annotations:
            annotation.require_known(self._classes)
        return {id: a.sure_names() for id, a in zip(ids, annotations, strict=True)}

    def _read_annotations(self, ids: Sequence[str]) -> list[Annotation]:
        folder = require_exists(self._annotation_folder)
        annotated = {entry.name for entry in entries(folder)}
        missing = [id for id in ids if f"{id}.xml" not in annotated]
        if missing:
            raise InputError(f"{folder}: expected an XML file for each image, found none for {name_some(missing)}")
        return [read_annotation(folder / f"{id}.xml") for id in ids]

    def _find_pictures(self, split: str) -> dict[str, Path]:
        """The picture of each id. The folder decides nothing: that of 2012 also holds the test images of 2007."""
        folder = require_exists(self.where / "JPEGImages")
        names = [entry.name for entry in entries(folder) if is_image_name(entry.name)]
        by_stem = {same_form(Path(name).stem): folder / name for name in reversed(names)}  # a.jpg rather than a.png
        ids = self._lists.ids[split]
        missing = [id for id in ids if same_form(id) not in by_stem]
        if missing:
            raise missing_images(self._main / f"{split}.txt", missing, folder, by_stem)
        return {id: by_stem[same_form(id)] for id in ids}


@dataclass(frozen=True)
class _Lists:
    """The text files of `ImageSets/Main`."""

    ids: dict[str, tuple[str, ...]]
    """Images of each split, in the order of its list."""
    present: dict[tuple[str, str], set[str]]
    """By class and split, the images that hold the class."""


def _read_lists(main: Path) -> _Lists:
    """Tell the splits' lists (`val.txt`) from the classes' (`train_val.txt`: which images of `val` show a train).

    A class list is named after another list, and each of its lines ends in a label: a split of one's own that is called
    `small_val` has none. Classes and splits may have underscores in them: the longest split that fits is meant.
    """
    lines = _read_lines(main)
    named_after = {stem: [other for other in lines if stem.endswith(f"_{other}")] for stem in lines}
    splits = [stem for stem in lines if not (named_after[stem] and _is_class_list(main / f"{stem}.txt", lines[stem]))]
    present = {}
    for stem in lines:
        if stem[:1] == "_" and stem[1:] in lines:
            raise InputError(f"{main / stem}.txt: expected the name of a class before '{stem}', found none")
        if stem not in splits:
            split = max((split for split in splits if stem.endswith(f"_{split}")), key=len)
            present[stem.removesuffix(f"_{split}"), split] = _positives(lines[stem])
    return _Lists({split: tuple(dict.fromkeys(lines[split])) for split in splits}, present)


def _read_lines(main: Path) -> dict[str, list[str]]:
    """The lines of each list that are not blank, by the list's name."""
    files = [Path(entry.path) for entry in entries(main) if entry.name.endswith(".txt")]
    if not files:
        raise InputError(f"{main}: expected a list of images per split, such as trainval.txt, found none")
    return {file.stem: [line.strip() for line in read_text(file).splitlines() if line.strip()] for file in files}


def _is_class_list(file: Path, lines: Sequence[str]) -> bool:
    bare = [line for line in lines if not _is_labelled(line)]
    if 0 < len(bare) < len(lines):
        raise InputError(f"{file}: expected an image and 1, 0 or -1 in each line, found '{bare[0]}'")
    return not bare


def _is_labelled(line: str) -> bool:
    return len(parts := line.rsplit(maxsplit=1)) == 2 and parts[1] in _LABELS


def _positives(lines: Iterable[str]) -> set[str]:
    """The images labelled 1 in a class list; the blanks between name and label vary."""
    labelled = (line.rsplit(maxsplit=1) for line in lines)
    return {id for id, label in labelled if label == _PRESENT}
