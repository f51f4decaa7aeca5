"""COCO's metrics, computed by faster-coco-eval from our arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import Boxes
from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.errors import InputError
from tag2box.evaluation.matching import ranking

SUMMARY = (
    "mean", "AP50", "AP75", "AP_small", "AP_medium", "AP_large",
    "AR_1", "AR_10", "AR_100", "AR_small", "AR_medium", "AR_large",
)  # fmt: skip
"""The twelve numbers of `COCOeval.summarize`, in its order; the first is AP, the mean over IoU 0.5, 0.55, … 0.95."""


def coco_scores(truth: GroundTruth, detections: Detections) -> dict[str, Any]:
    """The twelve numbers and `per_class` AP, as shares of 1; NaN where there is nothing to find.

    VOC's difficult objects are given as crowds, the only objects COCO's rules leave out of the count. Small, medium and
    large go by the area of the box, for want of a mask.
    """
    try:
        from faster_coco_eval import COCO, COCOeval_faster
    except ImportError:
        raise InputError("metric coco needs the package faster-coco-eval: pip install faster-coco-eval") from None
    detections = detections.numbered_as(truth.classes, truth.ids)
    annotated = COCO(_dataset(truth))
    evaluator = COCOeval_faster(annotated, annotated.loadRes(_results(detections)), iouType="bbox")
    evaluator.run()
    summary = _nan_if_absent(np.asarray(evaluator.stats[: len(SUMMARY)]))
    per_class = _per_class(evaluator.eval["precision"])
    return {
        **dict(zip(SUMMARY, summary.tolist(), strict=True)),
        "per_class": dict(zip(truth.classes, per_class.tolist(), strict=True)),
    }


def _dataset(truth: GroundTruth) -> dict[str, Any]:
    """The ground truth as a COCO file holds it."""
    columns = (truth.images + 1, truth.labels + 1, _as_xywh(truth.boxes), truth.difficult | truth.crowd)
    return {
        "images": [{"id": i + 1} for i in range(len(truth.ids))],
        "categories": [{"id": c + 1, "name": name} for c, name in enumerate(truth.classes)],
        "annotations": [
            {"id": n + 1, "image_id": i, "category_id": c, "bbox": b, "area": b[2] * b[3], "iscrowd": int(crowd)}
            for n, (i, c, b, crowd) in enumerate(zip(*(column.tolist() for column in columns), strict=True))
        ],
    }


def _results(detections: Detections) -> list[dict[str, Any]]:
    """Results in our ranking: COCO breaks ties in score by order, and ours does not hang on the file's."""
    detections = detections.take(ranking(detections))
    columns = (detections.images + 1, detections.labels + 1, _as_xywh(detections.boxes), detections.scores)
    return [
        {"image_id": i, "category_id": c, "bbox": b, "score": s, "segmentation": []}  # else loadRes makes polygons
        for i, c, b, s in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _as_xywh(boxes: Boxes) -> Boxes:
    return np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)


def _per_class(precision: NDArray[np.float64]) -> NDArray[np.float64]:
    """AP of each class [C] from precision [IoU thresholds, recalls, C, area ranges, detection limits]."""
    return _nan_if_absent(precision[:, :, :, 0, -1].mean(axis=(0, 1)))  # every area; 100 detections an image


def _nan_if_absent(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """COCO writes −1 for 'nothing to find'."""
    return np.where(values < 0, np.nan, values)
