"""COCO: one instances file, and the pictures with the folders they had."""

import json
from collections.abc import Mapping
from pathlib import Path

from tag2box.labels.naming import relative_names
from tag2box.labels.placing import place_all
from tag2box.labels.records import Label, LabelledSet


def write_coco(
    labelled: LabelledSet,
    out: Path,
    *,
    images_as: str = "link",
    image_numbers: Mapping[str, int] | None = None,
    category_numbers: Mapping[str, int] | None = None,
) -> tuple[Path, int]:
    """`annotations/instances_SPLIT.json`, and pictures in `images/`.

    Images and categories are numbered from 1 in the data set's order, or as given: a COCO data set has its own numbers.
    Boxes have a score beside what COCO knows. Returns the file, and how many linked pictures their EXIF tag turns.
    """
    _, names = relative_names([image.path for image in labelled.images])
    images = image_numbers or {image.id: i for i, image in enumerate(labelled.images, 1)}
    categories = category_numbers or {name: c for c, name in enumerate(labelled.classes, 1)}
    labels = [(image, label) for image in labelled.images for label in image.labels]
    content = {
        "info": {"description": "boxes from tags, by tag2box"},
        "licenses": [],
        "images": [
            {"id": images[image.id], "file_name": name, "width": image.size[0], "height": image.size[1]}
            for image, name in zip(labelled.images, names, strict=True)
        ],
        "annotations": [
            {"id": number, "image_id": images[image.id], "category_id": categories[label.name], **_annotation(label)}
            for number, (image, label) in enumerate(labels, 1)
        ],
        "categories": [{"id": categories[name], "name": name, "supercategory": ""} for name in labelled.classes],
    }
    file = Path("annotations", f"instances_{labelled.split}.json")
    (out / file).parent.mkdir(parents=True)
    # ASCII, since pycocotools opens the file in whatever encoding the system has.
    (out / file).write_text(json.dumps(content, indent=1) + "\n", encoding="ascii")
    pairs = zip(labelled.images, names, strict=True)
    return file, place_all(((image.path, out / "images" / name) for image, name in pairs), images_as)


def _annotation(label: Label) -> dict[str, object]:
    x0, y0, x1, y1 = (round(side, 2) for side in label.box)
    width, height = round(x1 - x0, 2), round(y1 - y0, 2)
    return {
        "bbox": [x0, y0, width, height],
        "area": round(width * height, 4),
        "iscrowd": 0,
        "segmentation": [],
        "score": round(label.score, 4),
    }
