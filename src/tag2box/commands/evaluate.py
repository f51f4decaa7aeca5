"""`tag2box evaluate`: a run's detector, or any detector's boxes in a file, scored against a data set that has boxes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import numpy as np
from rich.console import Console

from tag2box.commands.parts import Source, Where, require_same_classes, which_held_out
from tag2box.config import Inference
from tag2box.data import open_ground_truth
from tag2box.data.ground_truth import GroundTruth
from tag2box.data.splits import in_validation, require_fraction
from tag2box.detections import Detections
from tag2box.errors import InputError
from tag2box.evaluation.plots import plot_pr_curves
from tag2box.evaluation.read import read_detections
from tag2box.evaluation.scores import as_json, evaluate, require_metrics
from tag2box.evaluation.tables import coco_table, counted, scores_table
from tag2box.evaluation.voc_ap import precision_recall
from tag2box.files import make_folder, require_writable, write_atomically


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
    truth = _require_boxes(open_ground_truth(data, split=split, images=images), data)
    found = read_detections(detections, truth)
    if val_fraction is not None:
        truth, found = _held_out(truth, found, val_fraction, seed)
        _require_boxes(truth, data)
    _make_room(json_out, pr_curve)
    _report(truth, found, metrics, json_out, pr_curve)


def evaluate_run(
    run: Path,
    data: Path,
    *,
    split: str | None = None,
    metrics: Sequence[str] = ("voc07", "corloc"),
    json_out: Path | None = None,
    pr_curve: Path | None = None,
    val_fraction: float | None = None,
    seed: int = 0,
    tta: bool = False,
    max_proposals: int | None = None,
    device: str = "auto",
    **where: Unpack[Where],
) -> None:
    """The same for the detector of a run directory or file; proposals are computed where they are not there yet."""
    from tag2box.detector import detect_dataset, open_detector

    require_metrics(metrics)
    truth = _require_boxes(open_ground_truth(data, split=split, images=where.get("images")), data)
    detector = open_detector(run, device)
    detector.look_at_most(max_proposals)
    require_same_classes(detector.classes, truth.classes, of=str(run), and_of=str(data))
    _make_room(json_out, pr_curve)
    source = Source(data=data, preset=detector.recipe.data.proposals, **where)
    part = None if detector.proposes and source.proposals is None else source.open(split)
    dataset, boxes = source.pictures(split) if part is None else (part.dataset, part.truth)
    store = None if part is None else part.store
    if val_fraction is not None:
        dataset = dataset.subset(which_held_out(dataset, val_fraction, seed))
    truth = _require_boxes(None if boxes is None else boxes.subset(dataset.ids), data)
    best = detect_dataset(detector, dataset, store, tta=tta, best_of_each=True)
    found = _without_the_best(best, detector.recipe.inference)
    _report(truth, found, metrics, json_out, pr_curve, for_corloc=best)


def _make_room(*outs: Path | None) -> None:
    """Find out before the work, not after it, that its results cannot be written."""
    for out in outs:
        if out is not None:
            make_folder(out.parent)
            require_writable(out)


def _require_boxes(truth: GroundTruth | None, data: Path) -> GroundTruth:
    if truth is None:
        raise InputError(f"expected a data set with boxes (a VOC devkit or a COCO file), found tags only in {data}")
    if not len(truth):
        raise InputError(f"{data}: found no annotated objects to score against in {counted(len(truth.ids), 'image')}")
    return truth


def _held_out(truth: GroundTruth, found: Detections, fraction: float, seed: int) -> tuple[GroundTruth, Detections]:
    require_fraction(fraction)
    kept = np.array([in_validation(id, fraction, seed) for id in truth.ids])
    if not kept.any():
        raise InputError(f"expected images held out, found none: {fraction} of {len(kept)} leaves that part empty")
    truth = truth.subset(id for id, keep in zip(truth.ids, kept, strict=True) if keep)
    return truth, found.take(kept[found.images]).numbered_as(truth.classes, truth.ids)


def _without_the_best(found: Detections, settings: Inference) -> Detections:
    """What `best_of_each` has added taken out again: CorLoc asks for it, average precision does not.

    Detections are image after image, best first, so that the added ones are those below the score or past the number.
    """
    first = np.searchsorted(found.images, np.arange(len(found.ids)))  # where each image begins
    rank = np.arange(len(found)) - first[found.images]
    return found.take((found.scores >= settings.min_score) & (rank < settings.max_detections))


def _report(
    truth: GroundTruth,
    found: Detections,
    metrics: Sequence[str],
    json_out: Path | None,
    pr_curve: Path | None,
    *,
    for_corloc: Detections | None = None,
) -> None:
    scores = evaluate(truth, found, metrics)
    if for_corloc is not None and "corloc" in scores:
        scores["corloc"] = evaluate(truth, for_corloc, ["corloc"])["corloc"]
    if json_out is not None:
        write_atomically(json_out, as_json(scores))
    if pr_curve is not None:
        plot_pr_curves(truth.classes, precision_recall(truth, found), pr_curve)
    console = Console(highlight=False)
    where, objects = counted(len(truth.ids), "image"), counted(len(truth), "annotated object")
    console.print(f"{counted(len(found), 'detection')} in {where}, {objects}; scores in per cent")
    console.print(scores_table(scores))
    if "coco" in scores:
        console.print(coco_table(scores["coco"]))
