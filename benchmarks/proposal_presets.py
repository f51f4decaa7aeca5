"""Proposal presets against OpenCV's selective search, on the same images in the same run.

    python benchmarks/proposal_presets.py VOCdevkit/VOC2007 [--images 150] [--frontier] [--plot FILE]

The yardstick is OpenCV's `fast` mode on the full-size image. Every setting sees an image before the next image is read,
on one thread, and is timed by its own CPU time, so that other work on the machine weighs on all alike. Reading the file
is not counted. The images are every n-th of the split, from `--first` on; with the default they are
others than those that the presets were compared on. Exits with 1 when a target is missed.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import cv2
import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from machine import describe_machine
from tag2box.data import open_dataset, open_ground_truth, read_image
from tag2box.evaluation.plots import save
from tag2box.evaluation.recall import Reach, proposal_recall
from tag2box.proposals.selective_search import ALL_COLOURS, PRESETS, Pass, Settings, selective_search

Proposer = Callable[[NDArray[np.uint8]], NDArray[np.int16]]
YARDSTICK = "OpenCV fast, full size"
TARGETS = {
    "fast": "recall of the yardstick, ≤ 2,000 boxes, 4 × its speed",
    "thorough": "0.96 / 0.82, ≤ 3,000 boxes, its time",
}


def opencv(mode: str, side: int | None = None) -> Proposer:
    """OpenCV's own selective search, on the image reduced to a short side."""

    def propose(image: NDArray[np.uint8]) -> NDArray[np.int16]:
        height, width = image.shape[:2]
        factor = min(1.0, side / min(height, width)) if side else 1.0
        size = (round(width * factor), round(height * factor))
        search = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
        search.setBaseImage(cv2.resize(image[..., ::-1], size, interpolation=cv2.INTER_AREA))
        getattr(search, f"switchToSelectiveSearch{mode.capitalize()}")()
        boxes = np.asarray(search.process()).reshape(-1, 4).astype(np.float64)
        boxes[:, 2:] += boxes[:, :2]
        boxes *= [width / size[0], height / size[1]] * 2
        return np.unique(np.rint(boxes).astype(np.int16), axis=0)

    return propose


def ours(settings: Settings) -> Proposer:
    """Our selective search."""
    return lambda image: selective_search(image, settings)


def settings_to_measure(frontier: bool) -> dict[str, Proposer]:
    """The yardstick and the presets; for the plot also what lies around them."""
    found = {YARDSTICK: opencv("fast")} | {name: ours(settings) for name, settings in PRESETS.items()}
    if not frontier:
        return found
    found |= {f"OpenCV fast, {side}": opencv("fast", side) for side in (200, 300)}
    found |= {f"OpenCV quality, {side}": opencv("quality", side) for side in (150, 200, 250)}
    fast, thorough = PRESETS["fast"], PRESETS["thorough"]
    wide = replace(fast, max_boxes=10**6)
    return found | {
        "ours: one pass at 140": ours(replace(wide, passes=fast.passes[:1])),
        "ours: one pass at 240": ours(replace(wide, passes=fast.passes[1:])),
        "ours: fast in six colour spaces": ours(
            replace(fast, passes=tuple(replace(one, colours=ALL_COLOURS) for one in fast.passes))
        ),
        "ours: fast in HSV alone": ours(
            replace(wide, passes=tuple(replace(one, colours=ALL_COLOURS[:1]) for one in fast.passes))
        ),
        "ours: fast, colour+size+fill only": ours(
            replace(wide, passes=tuple(replace(one, similarities=("colour+size+fill",)) for one in fast.passes))
        ),
        "ours: fast, overlap 0.65": ours(replace(fast, overlap=0.65)),
        "ours: fast, overlap 0.85": ours(replace(fast, overlap=0.85)),
        "ours: fast without a limit": ours(wide),
        "ours: OpenCV's fast settings": ours(
            Settings((Pass(10**6, 100, (150, 300, 450), ALL_COLOURS[:2]),), overlap=1.0, max_boxes=10**6, min_side=0)
        ),
        "ours: thorough without a limit": ours(replace(thorough, max_boxes=10**6)),
    }


def measure(
    devkit: Path, split: str, images: int, first: int, proposers: dict[str, Proposer]
) -> dict[str, tuple[float, float, Reach]]:
    """Boxes an image, CPU seconds an image and recall of each setting."""
    dataset, truth = open_dataset(devkit, split, check=False), open_ground_truth(devkit, split)
    if truth is None:
        raise SystemExit(f"{devkit} has no boxes to measure recall on")
    chosen = dataset.images[first :: max(1, len(dataset) // images)][:images]
    for propose in proposers.values():
        propose(read_image(chosen[0].path))  # compiles; not counted
    boxes: dict[str, list[NDArray[np.int16]]] = {name: [] for name in proposers}
    seconds = dict.fromkeys(proposers, 0.0)
    for record in track(chosen, disable=not sys.stderr.isatty()):
        image = read_image(record.path)
        for name, propose in proposers.items():
            began = time.process_time()
            boxes[name].append(propose(image))
            seconds[name] += time.process_time() - began
    truth = truth.subset(record.id for record in chosen)
    reports = {name: proposal_recall(truth, found) for name, found in boxes.items()}
    return {name: (r.boxes_per_image, seconds[name] / len(chosen), r.overall) for name, r in reports.items()}


def table(results: dict[str, tuple[float, float, Reach]]) -> str:
    """Markdown."""
    base = results[YARDSTICK][1]
    lines = [
        "| setting | boxes | recall@0.5 | recall@0.7 | best overlap | CPU s an image | speed |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, (boxes, seconds, reach) in results.items():
        recalls = f"{reach.recall_50:.3f} | {reach.recall_70:.3f} | {reach.average_best_overlap:.3f}"
        lines.append(f"| {name} | {boxes:,.0f} | {recalls} | {seconds:.3f} | {base / seconds:.1f} × |")
    return "\n".join(lines)


def missed(results: dict[str, tuple[float, float, Reach]]) -> list[str]:
    """Presets that do not meet their targets."""
    (_, base, yard), (boxes, seconds, fast) = results[YARDSTICK], results["fast"]
    (more, longer, thorough) = results["thorough"]
    met = {
        "fast": fast.recall_50 >= yard.recall_50
        and fast.recall_70 >= yard.recall_70
        and boxes <= 2000
        and base / seconds >= 4,
        "thorough": thorough.recall_50 >= 0.96 and thorough.recall_70 >= 0.82 and more <= 3000 and longer <= base,
    }
    return [name for name, ok in met.items() if not ok]


def plot(results: dict[str, tuple[float, float, Reach]], path: Path) -> None:
    """Recall and overlap against seconds, a panel each, logarithmic in time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 5.4), layout="constrained")
    panels = figure.subplots(1, 3)
    for panel, field, title in zip(
        panels,
        ("recall_50", "recall_70", "average_best_overlap"),
        ("recall at IoU 0.5", "recall at IoU 0.7", "average best overlap"),
        strict=True,
    ):
        for number, (name, (boxes, seconds, reach)) in enumerate(results.items(), 1):
            colour = "#d9772b" if name.startswith("OpenCV") else "#2f6db3"
            value = getattr(reach, field)
            panel.scatter(seconds, value, s=boxes / 12, color=colour, alpha=0.45, linewidths=0)
            bold = "bold" if name in PRESETS or name == YARDSTICK else "normal"
            panel.annotate(str(number), (seconds, value), ha="center", va="center", fontsize=8, weight=bold)
        panel.set(xscale="log", xlabel="CPU seconds an image", title=title)
        panel.grid(color="#e4e6ea")
    names = [f"{number} {name}" for number, name in enumerate(results, 1)]
    rows = [", ".join(names[i : i + 5]) for i in range(0, len(names), 5)]
    figure.suptitle("\n".join(["orange OpenCV, blue tag2box; area of a dot: number of boxes", *rows]), fontsize=8)
    save(figure, path)


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devkit", type=Path)
    parser.add_argument("--split", default="trainval")
    parser.add_argument("--images", type=int, default=150)
    parser.add_argument("--first", type=int, default=20, help="which image to begin with")
    parser.add_argument("--frontier", action="store_true", help="measure the neighbourhood of the presets too")
    parser.add_argument("--plot", type=Path, help="draw recall against seconds")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    results = measure(args.devkit, args.split, args.images, args.first, settings_to_measure(args.frontier))
    machine = describe_machine("numba", "opencv-contrib-python-headless")
    print(f"{args.images} images of {args.split}; {machine}\n\n{table(results)}\n")
    if args.plot:
        plot(results, args.plot)
    failures = missed(results)
    for name, target in TARGETS.items():
        print(f"{name} ({target}): {'MISSED' if name in failures else 'met'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
