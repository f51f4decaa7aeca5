"""Label Studio: tasks with predictions to be looked over, and the labelling interface they fit.

What a person has reviewed already comes as an annotation: done, unless somebody wants to look again.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tag2box import __version__
from tag2box.labels.naming import relative_names
from tag2box.labels.placing import picture_format, place_all
from tag2box.labels.records import Label, LabelledImage, LabelledSet
from tag2box.report.colours import colours_of

LOCAL_FILES = "/data/local-files/?d="
IMAGE, RECTANGLES = "image", "label"
"""Names of the two parts of the interface; every box names them."""
_SHOWN = {"JPEG", "MPO", "PNG", "GIF", "BMP", "WEBP", "AVIF"}
"""What browsers show, and with them Label Studio."""


def write_label_studio(
    labelled: LabelledSet, out: Path, *, name: str, images_as: str = "link", image_root: str | None = None
) -> tuple[Path, int]:
    """`tasks.json` to import, `config.xml` for the labelling interface, and pictures in `images/`.

    Among these, a picture that browsers do not show is a PNG: `a.tif` becomes `a.tif.png`.
    Pictures are fetched below the address `image_root` or, without one, as local files: their path starts at the folder
    above the output, which will be called `name`, or without pictures in it at the one above the data set's own folder.
    Returns the first file, and how many linked pictures their EXIF tag turns.
    """
    root, names = relative_names([image.path for image in labelled.images])
    if images_as != "none":
        names = _shown_names([image.path for image in labelled.images], names)
    above = f"{root.name}/" if images_as == "none" else f"{name}/images/"
    start = f"{LOCAL_FILES}{quote(above)}" if image_root is None else f"{image_root.rstrip('/')}/"
    tasks = [
        _task(number, image, f"{start}{quote(name)}")
        for number, (image, name) in enumerate(zip(labelled.images, names, strict=True), 1)
    ]
    (out / "tasks.json").write_text(json.dumps(tasks, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    (out / "config.xml").write_text(_interface(labelled.classes), encoding="utf-8")
    pairs = zip(labelled.images, names, strict=True)
    return Path("tasks.json"), place_all(((image.path, out / "images" / name) for image, name in pairs), images_as)


def _shown_names(paths: Sequence[Path], names: Sequence[str]) -> list[str]:
    """Each picture's name, with another extension where it is to become a PNG, and no two alike."""
    taken = {name.casefold() for name in names}
    out = []
    for path, name in zip(paths, names, strict=True):
        shown = name
        if picture_format(path) not in _SHOWN:
            while shown.casefold() in taken:
                shown += ".png"
            taken.add(shown.casefold())
        out.append(shown)
    return out


def _task(number: int, image: LabelledImage, address: str) -> dict[str, Any]:
    results = [_result(f"{number}-{n}", image, label) for n, label in enumerate(image.labels, 1)]
    task: dict[str, Any] = {"data": {IMAGE: address, "name": image.id}, "predictions": []}
    if image.reviewed:  # also where nothing is left of it: that is what was decided
        return {**task, "annotations": [{"result": results}]}
    if results:
        # Of the least sure box: tasks in ascending order of it are those that need a look, first.
        least = min(result["score"] for result in results)
        task["predictions"] = [{"model_version": f"tag2box {__version__}", "score": least, "result": results}]
    return task


def _result(id: str, image: LabelledImage, label: Label) -> dict[str, Any]:
    """One box, in per cent of the picture's sides."""
    width, height = image.size
    sides = zip(label.box, (width, height, width, height), strict=True)
    x0, y0, x1, y1 = (round(100 * side / whole, 6) for side, whole in sides)
    value = {"x": x0, "y": y0, "width": round(x1 - x0, 6), "height": round(y1 - y0, 6), "rotation": 0}
    return {
        "id": id,
        "type": "rectanglelabels",
        "from_name": RECTANGLES,
        "to_name": IMAGE,
        "original_width": width,
        "original_height": height,
        "image_rotation": 0,
        "score": round(label.score, 4),
        "value": {**value, "rectanglelabels": [label.name]},
    }


def _interface(classes: tuple[str, ...]) -> str:
    view = Element("View")
    SubElement(view, "Image", name=IMAGE, value=f"${IMAGE}", zoom="true")
    labels = SubElement(view, "RectangleLabels", name=RECTANGLES, toName=IMAGE)
    for name, colour in colours_of(classes).items():
        SubElement(labels, "Label", value=name, background=colour)
    indent(view)
    return tostring(view, encoding="unicode") + "\n"
