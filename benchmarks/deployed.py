"""What an exported file makes of proposals from elsewhere: the table of docs/deploy.md, with the code of that page.

python benchmarks/deployed.py demo/run demo/data/VOCdevkit/VOC2007 --split test
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from machine import describe_machine, in_one_line
from tag2box.commands.export import export_run
from tag2box.commands.parts import Part, Source
from tag2box.data.images import read_image
from tag2box.detections import Detections
from tag2box.detector import detect_dataset, open_detector
from tag2box.evaluation.scores import evaluate
from tag2box.progress import progress
from tag2box.proposals.selective_search import preset, selective_search

Pixels = NDArray[np.uint8]
PAGE = Path(__file__).parent.parent / "docs" / "deploy.md"
MANY = 2000


def code_of(page: Path, start: str) -> str:
    """The page's piece of Python that begins so."""
    (found,) = re.findall(rf"```python\n({re.escape(start)}.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return str(found).split("\n\n\n")[0]  # what follows two empty lines is an example


def by_opencv(image: Pixels) -> NDArray[np.float32]:
    """As on the page."""
    names: dict[str, Any] = {"image": image, "np": np, "detect": lambda *_: None}
    exec(code_of(PAGE, "import cv2"), names)
    proposals: NDArray[np.float32] = names["proposals"]
    return proposals


def by_windows(image: Pixels) -> NDArray[np.float64]:
    """As on the page."""
    names: dict[str, Any] = {"np": np}
    exec(code_of(PAGE, "def windows"), names)
    boxes: NDArray[np.float64] = names["windows"](*image.shape[:2])
    return boxes


SOURCES: Mapping[str, Callable[[Pixels], NDArray[Any]]] = {
    "tag2box, `fast`": lambda image: selective_search(image, preset("fast")),
    "OpenCV, fast": by_opencv,
    "windows as above": by_windows,
}


def exported(run: Path, folder: Path, most: int) -> onnxruntime.InferenceSession:
    """The run's detector that looks at the first so many proposals."""
    with redirect_stdout(sys.stderr):
        file = export_run(run, out=folder / f"{most}.onnx", max_proposals=most, no_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(file), options)


def score(session: onnxruntime.InferenceSession, part: Part, proposals: list[NDArray[Any]], least: float) -> float:
    """MAP of what the file finds with these."""
    names: dict[str, Any] = {"np": np, "session": session}
    names["classes"] = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    exec(code_of(PAGE, "def detect"), names)
    rows = []
    with progress("looking", len(proposals)) as count_one:
        for place, (image, boxes) in enumerate(zip(part.dataset, proposals, strict=True)):
            rows += [(place, *one) for one in names["detect"](read_image(image.path), boxes, score=least)]
            count_one()
    found = Detections(
        classes=tuple(names["classes"]),
        ids=tuple(part.dataset.ids),
        images=np.array([place for place, *_ in rows], dtype=np.int64),
        labels=np.array([names["classes"].index(name) for _, name, *_ in rows], dtype=np.int64),
        scores=np.array([sure for *_, sure, _ in rows], dtype=np.float64),
        boxes=np.array([box for *_, box in rows], dtype=np.float64).reshape(-1, 4),
    )
    assert part.truth is not None
    return float(evaluate(part.truth, found, ["voc07"])["voc07"]["mean"])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split")
    args = parser.parse_args()
    detector = open_detector(args.run, "cpu")
    own, least = detector.recipe.looked_at, detector.recipe.inference.min_score
    part = Source(data=args.data, preset=detector.recipe.data.proposals).open(args.split)
    assert part.truth is not None
    print(describe_machine("torch", "onnxruntime"))
    print(f"\n| proposals | of them | mAP, `--max-proposals {own}` | {MANY} |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        sessions = [exported(args.run, Path(folder), most) for most in (own, MANY)]
        for name, source in SOURCES.items():
            proposals = [source(read_image(image.path)) for image in part.dataset]
            scores = [score(session, part, proposals, least) for session in sessions]
            number = np.mean([len(boxes) for boxes in proposals])
            print(f"| {name} | {number:,.0f} | " + " | ".join(f"{one:.1f}" for one in scores) + " |", flush=True)
    found = detect_dataset(detector, part.dataset, part.store)
    print(f"\nPyTorch: {evaluate(part.truth, found, ['voc07'])['voc07']['mean']:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(in_one_line(main))
