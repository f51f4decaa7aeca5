"""COCO: one JSON file of images, categories and annotations per split, and a folder of pictures somewhere near."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import Boxes
from tag2box.data.coco_json import Instances, Item, read_instances
from tag2box.data.files import find_images, missing_images, require_exists, subfolders
from tag2box.data.ground_truth import GroundTruth, require_inside
from tag2box.data.listing import Entry, Listing, in_class_order
from tag2box.data.splits import choose_split
from tag2box.errors import InputError
from tag2box.garbage import no_garbage_collection

_PREFIX = "instances_"
_ROBOFLOW = "_annotations.coco.json"
_SAMPLE = 20  # pictures to look for when telling which folder is theirs


def find_coco(path: Path, images: Path | None) -> "CocoFolder | CocoFile | None":
    """The COCO data at a path: the file itself, a folder with `annotations/instances_*.json`, or Roboflow's layout."""
    if path.is_file():
        return CocoFile(path, images) if path.suffix.lower() == ".json" else None
    if (path / _ROBOFLOW).is_file():
        return CocoFile(path / _ROBOFLOW, images)
    files = {_split_name(file): file for file in sorted((path / "annotations").glob(f"{_PREFIX}*.json"))}
    if not files:
        files = {folder.name: folder / _ROBOFLOW for folder in subfolders(path) if (folder / _ROBOFLOW).is_file()}
    return CocoFolder(path, files, images) if files else None


def _split_name(file: Path) -> str:
    return file.parent.name if file.name == _ROBOFLOW else file.stem.removeprefix(_PREFIX)


@dataclass(frozen=True)
class CocoFolder:
    """Several files, one per split."""

    where: Path
    files: Mapping[str, Path]
    images: Path | None

    def listing(self, split: str | None) -> Listing:
        """Pictures and tags of a split."""
        return self._file(split).listing(None)

    def ground_truth(self, split: str | None) -> GroundTruth:
        """Boxes of a split."""
        return self._file(split).ground_truth(None)

    def _file(self, split: str | None) -> "CocoFile":
        training = [name for name in self.files if name.startswith("train")]  # COCO's own is train2017
        if split is None and len(training) == 1:
            split = training[0]
        return CocoFile(self.files[choose_split(split, list(self.files), self.where)], self.images)


@dataclass(frozen=True)
class CocoFile:
    """One instances file: one split."""

    where: Path
    images: Path | None

    @no_garbage_collection()
    def listing(self, split: str | None) -> Listing:
        """Pictures and tags, by id. What is there only as a crowd gives no tag."""
        self._require_split(split)
        content = read_instances(self.where)
        tags: dict[int, set[str]] = {number: set() for number in content.ids}
        for item in content.annotations:
            if not item.get("iscrowd", 0):
                tags[item["image_id"]].add(content.categories[item["category_id"]])
        paths = self._find_pictures(content)
        entries = (
            Entry(id, paths[number], in_class_order(tags[number], content.classes))
            for number, id in content.ids.items()
        )
        return Listing(content.classes, tuple(entries), split=_split_name(self.where))

    @no_garbage_collection()
    def ground_truth(self, split: str | None) -> GroundTruth:
        """Every annotated object, by image in the order of `listing`."""
        self._require_split(split)
        content = read_instances(self.where)
        position = {number: row for row, number in enumerate(content.ids)}
        label = {number: row for row, number in enumerate(content.categories)}
        annotations = sorted(content.annotations, key=lambda item: position[item["image_id"]])
        images = np.array([position[item["image_id"]] for item in annotations], dtype=np.int64)
        sizes = np.array(content.sizes, dtype=np.int64).reshape(-1, 2)
        return GroundTruth(
            classes=content.classes,
            ids=tuple(content.ids.values()),
            images=images,
            labels=np.array([label[item["category_id"]] for item in annotations], dtype=np.int64),
            boxes=_read_boxes(self.where, annotations, sizes[images]),
            difficult=np.zeros(len(annotations), dtype=bool),
            crowd=np.array([bool(item.get("iscrowd", 0)) for item in annotations], dtype=bool),
            sizes=sizes if sizes.all() else None,
            image_numbers=content.ids,
            category_numbers=label,
        )

    def _require_split(self, split: str | None) -> None:
        if split not in (None, _split_name(self.where)):
            name = _split_name(self.where)
            raise InputError(f"{self.where} is one split, '{name}', found '{split}' asked for; leave the split out")

    def _find_pictures(self, content: Instances) -> dict[int, Path]:
        """The picture of each of the file's images."""
        folder = self._image_folder(list(content.file_names.values()))
        paths = {number: folder / name for number, name in content.file_names.items()}
        missing = [content.file_names[number] for number, path in paths.items() if not path.is_file()]
        if missing:
            present = [path.relative_to(folder).as_posix() for path in find_images(folder)]
            raise missing_images(self.where, missing, folder, present)
        return paths

    def _image_folder(self, names: Sequence[str]) -> Path:
        """The folder asked for, or of the usual places the one that holds most of the first pictures."""
        if self.images is not None:
            return require_exists(self.images)
        here, up, split = self.where.parent, self.where.parent.parent, _split_name(self.where)
        places = [here, here / "images", here / split, here / "images" / split]
        places += [up / split, up / "images" / split, up / "images", up]
        found = [sum((place / name).is_file() for name in names[:_SAMPLE]) for place in places]
        if names and not any(found):
            looked = ", ".join(str(place) for place in places)
            raise InputError(f"{self.where}: expected '{names[0]}' in a folder near by, found it in none of {looked}")
        return places[found.index(max(found))]


def _read_boxes(file: Path, annotations: Sequence[Item], sizes: NDArray[np.int64]) -> Boxes:
    """COCO's (x, y, width, height) of each annotation as corners [N, 4]; `sizes` [N, 2] are those of their images."""
    boxes = _as_numbers([item.get("bbox") for item in annotations])
    if boxes is None:
        item = next(item for item in annotations if _as_numbers([item.get("bbox")]) is None)
        found = f"{item.get('bbox')!r:.80}"
        raise InputError(f"{file}, annotation {item.get('id')}: expected a bbox of four numbers, found {found}")
    boxes[:, 2:] += boxes[:, :2]
    require_inside(boxes, sizes, lambda row: f"{file}, annotation {annotations[row].get('id')}")
    return boxes


def _as_numbers(boxes: list[Any]) -> Boxes | None:
    """Lists of four numbers as an array [N, 4], all at once; None where one is something else."""
    try:
        table = np.array(boxes or np.zeros((0, 4)))  # no dtype given, so that "1" stays text and is seen
    except ValueError:  # of different lengths
        return None
    return table.astype(np.float64) if table.shape[1:] == (4,) and table.dtype.kind in "if" else None
