"""Detections from any detector's file."""

from pathlib import Path

from tag2box.data.files import require_exists, unreadable
from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.evaluation.coco_results import read_coco_results
from tag2box.evaluation.voc_results import read_voc_results


def read_detections(path: Path, truth: GroundTruth) -> Detections:
    """Read a COCO results file (JSON), or VOC's `comp4_det_<split>_<class>.txt`: a folder of them or one.

    Images and classes are those of the ground truth, in its order; the files may name them as `names.py` allows.
    """
    require_exists(path)
    read = read_voc_results if path.is_dir() or path.suffix.lower() == ".txt" else read_coco_results
    try:
        return read(path, truth)
    except OSError as error:
        raise unreadable(path, error) from None
