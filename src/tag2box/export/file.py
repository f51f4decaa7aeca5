"""The ONNX file of a detector: the graph, and in its metadata all that a stranger needs to use it."""

import json
from pathlib import Path

from tag2box import __version__
from tag2box.config import Inference
from tag2box.detector import Detector
from tag2box.detector_file import LICENCE_NOTE
from tag2box.export.graph import detector_model

FORMAT = "tag2box onnx 1"
_DOCS = {
    "image": "The whole picture at its own size, upright, RGB [height, width, 3].",
    "proposals": "Where objects could be: x0, y0, x1, y1 in pixels of the image, the most promising first [B, 4].",
    "score": "Optional: the least that a detection must have.",
    "nms": "Optional: detections of a class that overlap a better one by more than this IoU are dropped.",
    "max_detections": "Optional: the best so many are kept, over all classes.",
    "boxes": "x0, y0, x1, y1 in pixels of the image, best first [D, 4].",
    "scores": "Probabilities [D].",
    "labels": "Numbers of classes in the list of the metadata, counted from 0 [D].",
}


def write_onnx(path: Path, detector: Detector, settings: Inference) -> None:
    """Write a detector on the CPU with these defaults; see `detector_model`."""
    model = detector_model(detector.net, detector.recipe, settings)
    model.producer_name, model.producer_version = "tag2box", __version__
    for value in (*model.graph.input, *model.graph.output):
        value.doc_string = _DOCS[value.name]
    for key, text in _about(detector, settings).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, text
    path.write_bytes(model.SerializeToString(deterministic=True))


def _about(detector: Detector, settings: Inference) -> dict[str, str]:
    recipe = detector.recipe
    return {
        "format": FORMAT,
        "classes": json.dumps(detector.classes, ensure_ascii=False),
        "preprocessing": (
            "image: the picture as seen (EXIF orientation applied), RGB, uint8 [height, width, 3], at its own size; "
            f"the file itself resizes it (short side {settings.scales[0]}, no side above {recipe.data.max_side}) and "
            f"normalises it. {_about_proposals(detector)}"
        ),
        "recipe": json.dumps(recipe.as_dict(), ensure_ascii=False),
        "licence": LICENCE_NOTE,
    }


def _about_proposals(detector: Detector) -> str:
    if detector.proposes:
        return "It proposes boxes itself."
    recipe = detector.recipe
    return (
        "proposals: float32 [B, 4], x0, y0, x1, y1 in pixels of that image, counted from 0, the end not included, the "
        f"most promising first; the first {recipe.looked_at} are used. Training had those of `tag2box proposals "
        f"--preset {recipe.data.proposals}`."
    )
