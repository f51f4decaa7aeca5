"""`tag2box evaluate --detections FILE DATA`: any detector's boxes scored against any data set that has boxes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from tag2box.data import open_ground_truth
from tag2box.data.ground_truth import GroundTruth
from tag2box.data.splits import in_validation, require_fraction
from tag2box.detections import Detections
from tag2box.errors import InputError
from tag2box.evaluation.plots import plot_pr_curves
from tag2box.evaluation.read import read_detections
from tag2box.evaluation.scores import as_json, evaluate, require_metrics
from tag2box.evaluation.tables import coco_table, scores_table
from tag2box.evaluation.voc_ap import precision_recall
from tag2box.files import require_writable, write_atomically


def evaluate_file(
    data: Path,
    detections: Path,
    *,
    split: str | None = None,
    metrics: Sequence[str] = ("voc07", "corloc"),
    json_out: Path | None = None,
    pr_curve: Path | None = None,
    images: Path | None = None,
    val_fraction: float | None = None,
    seed: int = 0,
) -> None:
    """Print the table of scores; where asked, write them as JSON and draw the curves. The pictures are not needed.

    With `val_fraction` only the images count that a split by that fraction and seed holds out.
    """
    require_metrics(metrics)
    for out in (json_out, pr_curve):
        if out is not None:
            require_writable(out)
    truth = _open_truth(data, split, images)
    found = read_detections(detections, truth)
    if val_fraction is not None:
        truth, found = _held_out(truth, found, val_fraction, seed)
    scores = evaluate(truth, found, metrics)
    if json_out is not None:
        write_atomically(json_out, as_json(scores))
    if pr_curve is not None:
        plot_pr_curves(truth.classes, precision_recall(truth, found), pr_curve)
    console = Console(highlight=False)
    console.print(
        f"{len(found):,} detections in {len(truth.ids):,} images, {len(truth):,} annotated objects; scores in per cent"
    )
    console.print(scores_table(scores))
    if "coco" in scores:
        console.print(coco_table(scores["coco"]))


def _held_out(truth: GroundTruth, found: Detections, fraction: float, seed: int) -> tuple[GroundTruth, Detections]:
    require_fraction(fraction)
    held_out = np.array([in_validation(id, fraction, seed) for id in truth.ids])
    truth = truth.subset(id for id, kept in zip(truth.ids, held_out, strict=True) if kept)
    return truth, found.take(held_out[found.images]).numbered_as(truth.classes, truth.ids)


def _open_truth(data: Path, split: str | None, images: Path | None) -> GroundTruth:
    truth = open_ground_truth(data, split=split, images=images)
    if truth is None:
        raise InputError(f"expected a data set with boxes (a VOC devkit or a COCO file), found tags only in {data}")
    return truth
