"""Half a million detections scored: the whole command timed by parts, and VOC AP against pycocotools, on one core.

    python benchmarks/evaluation_speed.py

Draws a data set of the size of VOC 2007 test (4,952 images, 20 classes, 14,976 objects, a fifth of them difficult and
small) and 500,000 detections from a seed, writes both to a temporary folder, and exits with 1 where a target is missed:
under 5 seconds for the whole command, and 5 times the speed of pycocotools on the same detections. Seconds are of
processor time, which other work on the machine does not lengthen; wall-clock time stands beside them.
"""

import os

# ruff: noqa: E402 — the limits below have to be set before NumPy is loaded
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import contextlib
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from machine import describe_machine
from tag2box.commands.evaluate import evaluate_file
from tag2box.data import GroundTruth, open_ground_truth
from tag2box.detections import Detections
from tag2box.evaluation.coco_ap import _dataset, _results
from tag2box.evaluation.corloc import corloc
from tag2box.evaluation.read import read_detections
from tag2box.evaluation.voc_ap import average_precision_11_points, precision_recall

IMAGES, OBJECTS, DETECTIONS = 4952, 14976, 500_000
CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow",
    "diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
REPEATS = 3
SECONDS, RATIO = 5.0, 5.0


def draw_truth(rng: np.random.Generator) -> GroundTruth:
    """Objects of the shares of VOC 2007: a third are persons, a fifth difficult and small."""
    share = np.where(np.array(CLASSES) == "person", 0.35, 0.65 / 19)
    difficult = rng.random(OBJECTS) < 0.195
    return GroundTruth(
        CLASSES,
        tuple(f"{i + 1:06d}" for i in range(IMAGES)),
        images=np.sort(rng.integers(0, IMAGES, OBJECTS)),
        labels=rng.choice(len(CLASSES), OBJECTS, p=share),
        boxes=draw_boxes(rng, np.where(difficult, 43, 131)),
        difficult=difficult,
        crowd=np.zeros(OBJECTS, dtype=bool),
    )


def draw_boxes(rng: np.random.Generator, side: np.ndarray) -> np.ndarray:
    """Whole-numbered boxes in pictures of 500 × 375 around a typical side [N, 4]."""
    size = np.clip(np.round(side[:, None] * rng.lognormal(0, 0.7, (len(side), 2))), 5, (500, 375))
    corner = np.floor(rng.random((len(side), 2)) * ((500, 375) - size))
    return np.concatenate([corner, corner + size], axis=1)


def draw_detections(rng: np.random.Generator, truth: GroundTruth) -> Detections:
    """Most objects found, four times each and a little off; the rest false alarms of every class with lower scores."""
    seen = np.repeat(np.flatnonzero(rng.random(len(truth)) < 0.8), 4)
    size = np.tile(truth.boxes[seen, 2:] - truth.boxes[seen, :2], 2)
    near = truth.boxes[seen] + size * rng.uniform(-0.2, 0.2, (len(seen), 4))
    false = DETECTIONS - len(seen)
    return Detections(
        truth.classes,
        truth.ids,
        images=np.concatenate([truth.images[seen], rng.integers(0, IMAGES, false)]),
        labels=np.concatenate([truth.labels[seen], rng.integers(0, len(CLASSES), false)]),
        scores=np.round(np.concatenate([rng.beta(3, 2, len(seen)), rng.beta(1, 6, false)]), 6),
        boxes=np.round(np.concatenate([near, draw_boxes(rng, np.full(false, 131))]), 2),
    ).take(rng.permutation(DETECTIONS))


def write_devkit(truth: GroundTruth, folder: Path) -> None:
    """Annotations and lists in VOC's layout; no pictures, which evaluation does not need."""
    lists, annotations = folder / "ImageSets" / "Main", folder / "Annotations"
    lists.mkdir(parents=True)
    annotations.mkdir()
    (lists / "test.txt").write_text("\n".join(truth.ids))
    for c, name in enumerate(truth.classes):
        holds = set(truth.images[truth.labels == c].tolist())
        (lists / f"{name}_test.txt").write_text(
            "\n".join(f"{id} {1 if i in holds else -1}" for i, id in enumerate(truth.ids))
        )
    objects: list[list[str]] = [[] for _ in truth.ids]
    for image, label, box, hard in zip(
        truth.images, truth.labels, truth.boxes.astype(int), truth.difficult, strict=True
    ):
        corners = zip(("xmin", "ymin", "xmax", "ymax"), np.add(box, (1, 1, 0, 0)), strict=True)
        objects[image].append(
            f"<object><name>{truth.classes[label]}</name><pose>Unspecified</pose><truncated>0</truncated>"
            f"<difficult>{int(hard)}</difficult>"
            f"<bndbox>{''.join(f'<{k}>{v}</{k}>' for k, v in corners)}</bndbox></object>"
        )
    for id, rows in zip(truth.ids, objects, strict=True):
        (annotations / f"{id}.xml").write_text(
            f"<annotation><folder>VOC2007</folder><filename>{id}.jpg</filename>"
            f"<size><width>500</width><height>375</height><depth>3</depth></size>{''.join(rows)}</annotation>"
        )


def write_results(detections: Detections, path: Path) -> None:
    """A COCO results file."""
    results = _results(detections)
    for entry in results:
        entry["image_id"] = detections.ids[entry["image_id"] - 1]
        del entry["segmentation"]
    path.write_text(json.dumps(results))


def our_ap07(truth: GroundTruth, detections: Detections) -> float:
    """Mean AP of VOC 2007 in per cent."""
    return 100 * float(np.mean([average_precision_11_points(curve) for curve in precision_recall(truth, detections)]))


def prepare_coco(truth: GroundTruth, detections: Detections) -> COCOeval:
    """Everything up to the scoring: what reading its files would leave in memory. 11 recalls, IoU 0.5, all sizes."""
    annotated = COCO()
    annotated.dataset = _dataset(truth)
    annotated.createIndex()
    evaluator = COCOeval(annotated, annotated.loadRes(_results(detections)), "bbox")
    evaluator.params.iouThrs = np.array([0.5])
    evaluator.params.recThrs = np.arange(11) / 10
    evaluator.params.areaRng, evaluator.params.areaRngLbl = [[0, 1e10]], ["all"]
    evaluator.params.maxDets = [10**6]
    return evaluator


def coco_ap07(evaluator: COCOeval) -> float:
    """The same by pycocotools, in per cent."""
    evaluator.evaluate()
    evaluator.accumulate()
    return 100 * float(evaluator.eval["precision"].mean())


@dataclass(frozen=True)
class Timing:
    """Seconds of the fastest of some repetitions."""

    cpu: float
    wall: float
    result: Any

    def row(self, what: str) -> str:
        """A line of the table."""
        return f"| {what} | {self.cpu:.2f} | {self.wall:.2f} |"


def measure(work: Callable[[], Any]) -> Timing:
    """Time a piece of work."""
    timings = []
    for _ in range(REPEATS):
        cpu, wall = time.process_time(), time.perf_counter()
        result = work()
        timings.append(Timing(time.process_time() - cpu, time.perf_counter() - wall, result))
    return min(timings, key=lambda timing: timing.cpu)


def main() -> int:
    """Measure, print, judge."""
    rng = np.random.default_rng(0)
    truth = draw_truth(rng)
    detections = draw_detections(rng, truth)
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
        data, results = Path(name, "VOC2007"), Path(name, "results.json")
        write_devkit(truth, data)
        write_results(detections, results)
        whole = measure(lambda: evaluate_file(data, results, split="test", metrics=["voc07", "corloc"]))
        xml = measure(lambda: open_ground_truth(data, split="test"))
        reading = measure(lambda: read_detections(results, truth))
        corlocating = measure(lambda: corloc(truth, detections))
        ours = measure(lambda: our_ap07(truth, detections))
        evaluator = prepare_coco(truth, detections)
        theirs = measure(lambda: coco_ap07(evaluator))
    ratio = theirs.cpu / ours.cpu
    print(f"{IMAGES:,} images, {OBJECTS:,} objects, {DETECTIONS:,} detections, {len(CLASSES)} classes")
    print(f"{describe_machine('numpy', 'pycocotools')}; fastest of {REPEATS}\n")
    print("| work | seconds | wall clock |\n|---|---|---|")
    print(whole.row(f"**the whole command**, voc07 and corloc (target: under {SECONDS:g})"))
    print(xml.row(f"of it: ground truth, {IMAGES:,} XML files"))
    print(reading.row("of it: detections, JSON"))
    print(corlocating.row("of it: CorLoc"))
    print(ours.row(f"of it: VOC AP, arrays in memory (mAP {ours.result:.2f})"))
    print(theirs.row(f"the last by pycocotools, its index in memory (mAP {theirs.result:.2f})"))
    print(f"| **ratio** (target: at least {RATIO:g}) | **{ratio:.1f}** | {theirs.wall / ours.wall:.1f} |")
    return 0 if whole.cpu < SECONDS and ratio >= RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
