"""All the scores of a set of detections, in the form they are written down."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.errors import InputError, did_you_mean
from tag2box.evaluation.coco_ap import coco_scores
from tag2box.evaluation.corloc import corloc
from tag2box.evaluation.voc_ap import average_precision_11_points, average_precision_area, precision_recall

METRICS = ("voc07", "voc12", "corloc", "coco")

Scores = dict[str, dict[str, Any]]
"""`{"voc07": {"mean": 52.9, "per_class": {"aeroplane": 66.7, …}}, …}`: percentages, unrounded; NaN: nothing to find."""


def evaluate(truth: GroundTruth, detections: Detections, metrics: Sequence[str] = ("voc07",)) -> Scores:
    """Score detections by some of METRICS, in the order asked. A class with nothing to find is left out of the mean."""
    require_metrics(metrics)
    curves = precision_recall(truth, detections) if {"voc07", "voc12"} & set(metrics) else ()
    scores: Scores = {}
    for metric in metrics:
        if metric == "voc07":
            scores[metric] = _in_percent(truth, [average_precision_11_points(curve) for curve in curves])
        elif metric == "voc12":
            scores[metric] = _in_percent(truth, [average_precision_area(curve) for curve in curves])
        elif metric == "corloc":
            scores[metric] = _in_percent(truth, corloc(truth, detections))
        else:
            scores[metric] = _times_100(coco_scores(truth, detections))
    return scores


def require_metrics(metrics: Sequence[str]) -> None:
    """Refuse what is no metric of ours, before any work is done."""
    if not metrics:
        raise InputError(f"expected metrics out of {', '.join(METRICS)}, found none")
    for metric in metrics:
        if metric not in METRICS:
            hint = did_you_mean(metric, METRICS)
            raise InputError(f"expected metrics out of {', '.join(METRICS)}, found '{metric}'{hint}")


def as_json(values: Any) -> str:
    """JSON text, indented; NaN, which JSON does not have, becomes null."""
    return json.dumps(_nan_to_none(values), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _in_percent(truth: GroundTruth, shares: ArrayLike) -> dict[str, Any]:
    percent = 100 * np.asarray(shares, dtype=np.float64)  # [C]
    there = percent[~np.isnan(percent)]
    mean = float(there.mean()) if len(there) else math.nan
    return {"mean": mean, "per_class": dict(zip(truth.classes, percent.tolist(), strict=True))}


def _times_100(value: Any) -> Any:
    return {key: _times_100(item) for key, item in value.items()} if isinstance(value, dict) else 100 * value


def _nan_to_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _nan_to_none(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_nan_to_none(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
