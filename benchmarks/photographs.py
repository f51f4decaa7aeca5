"""Photographs with tags alone, drawn from VOC 2007 trainval, and how many labels of them are right.

    python benchmarks/photographs.py draw VOCdevkit/VOC2007 photographs     # what RESULTS.md reports on
    tag2box train photographs/X --out runs/X
    tag2box label runs/X photographs/X --format coco --out labels
    python benchmarks/photographs.py count labels/annotations/instances_all.json VOCdevkit/VOC2007

All come from the 80 per cent that `--val-fraction 0.2` leaves to learn from. `draw` makes `many`, 500 pictures with all
their tags, on which `fast` was chosen; and X, Y and Z, a folder for each of four classes with 20 pictures each.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
import torch

from tag2box.data import Dataset, open_dataset, open_ground_truth
from tag2box.data.ground_truth import GroundTruth
from tag2box.data.splits import in_validation
from tag2box.overlap import pair_iou

CHOSEN_ON, LOOKED_AT, FOLDERS = 31, 77, 51
"""Seeds of the 500, of a thousand others that choices were looked at on, and of the folders, which have none of these.
"""


def draw(devkit: Path, out: Path) -> None:
    """Copy the pictures; each set that is drawn has none of those before it."""
    dataset = open_dataset(devkit, "trainval", check=False)
    images = {image.id: image for image in dataset}
    learnt = sorted(id for id in images if not in_validation(id, 0.2, 0))
    many = _some(learnt, CHOSEN_ON, 500)
    (out / "many").mkdir(parents=True)
    rows = ["image,tags", *(f"{id}.jpg,{';'.join(images[id].tags)}" for id in many)]
    (out / "many" / "tags.csv").write_text("\n".join(rows) + "\n")
    for id in many:
        shutil.copy(images[id].path, out / "many" / f"{id}.jpg")
    others = [id for id in learnt if id not in set(many)]
    looked_at = set(_some(others, LOOKED_AT, 1000))
    _draw_folders(dataset, [id for id in others if id not in looked_at], out)


def _draw_folders(dataset: Dataset, ids: list[str], out: Path) -> None:
    images, random = {image.id: image for image in dataset}, np.random.default_rng(FOLDERS)
    classes, used = random.permutation(len(dataset.classes)), set[str]()
    for place, label in enumerate(classes[:12]):
        name = dataset.classes[label]
        shown = [id for id in ids if name in images[id].tags and id not in used]
        folder = out / "XYZ"[place // 4] / name
        folder.mkdir(parents=True)
        for number in random.permutation(len(shown))[:20]:
            used.add(shown[number])
            shutil.copy(images[shown[number]].path, folder / f"{shown[number]}.jpg")


def _some(ids: list[str], seed: int, number: int) -> list[str]:
    return [ids[place] for place in np.random.default_rng(seed).permutation(len(ids))[:number]]


def count(labels: Path, devkit: Path) -> tuple[int, int, int]:
    """How many tags have a best label that is right, how many the whole picture would be right for, and how many."""
    truth, kept = open_ground_truth(devkit, "trainval"), json.loads(labels.read_text())
    assert truth is not None
    names = {one["id"]: one["name"] for one in kept["categories"]}
    images = {one["id"]: one for one in kept["images"]}
    best: dict[tuple[int, int], tuple[float, list[float]]] = {}
    for label in kept["annotations"]:
        key, (x, y, width, height) = (label["image_id"], label["category_id"]), label["bbox"]
        if key not in best or label["score"] > best[key][0]:
            best[key] = label["score"], [x, y, x + width, y + height]
    right = whole = 0
    for (image, category), (_, box) in best.items():
        id, size = Path(images[image]["file_name"]).stem, (images[image]["width"], images[image]["height"])
        right += _is_right(truth, id, names[category], box)
        whole += _is_right(truth, id, names[category], [0, 0, *size])
    return right, whole, len(best)


def _is_right(truth: GroundTruth, id: str, name: str, box: list[float]) -> bool:
    own = (truth.images == truth.ids.index(id)) & (truth.labels == truth.classes.index(name))
    boxes = torch.from_numpy(truth.boxes[own])
    return len(boxes) > 0 and bool(pair_iou(torch.tensor([box], dtype=boxes.dtype), boxes).max() >= 0.5)


def main() -> None:
    """Draw, or count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    drawing, counting = commands.add_parser("draw"), commands.add_parser("count")
    drawing.add_argument("devkit", type=Path)
    drawing.add_argument("out", type=Path)
    counting.add_argument("labels", type=Path)
    counting.add_argument("devkit", type=Path)
    given = parser.parse_args()
    if given.command == "draw":
        draw(given.devkit, given.out)
    else:
        right, whole, number = count(given.labels, given.devkit)
        print(f"labels right {right} of {number}; whole pictures {whole}")


if __name__ == "__main__":
    main()
