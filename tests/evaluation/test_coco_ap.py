import contextlib
import io
import sys

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from tag2box.errors import InputError
from tag2box.evaluation.coco_ap import SUMMARY, _dataset, _results, coco_scores


def test_the_twelve_numbers_are_pycocotools(random_problem):
    truth, detections = random_problem(seed=0, images=60, classes=3)
    with contextlib.redirect_stdout(io.StringIO()):
        annotated = COCO()
        annotated.dataset = _dataset(truth)
        annotated.createIndex()
        evaluator = COCOeval(annotated, annotated.loadRes(_results(detections)), "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    scores = coco_scores(truth, detections)
    expected = np.where(evaluator.stats < 0, np.nan, evaluator.stats)
    np.testing.assert_allclose([scores[name] for name in SUMMARY], expected, atol=1e-9)
    assert np.mean(list(scores["per_class"].values())) == pytest.approx(scores["mean"])


def test_perfect_and_quiet(make_truth, make_detections, capfd):
    truth = make_truth([(0, 0, 0, 0, 50, 50)])
    scores = coco_scores(truth, make_detections(truth, [(0, 0, 0.9, 0, 0, 50, 50)]))
    assert scores["mean"] == scores["AP50"] == scores["AP_medium"] == scores["AR_1"] == pytest.approx(1)
    assert np.isnan(scores["AP_small"])
    assert np.isnan(scores["per_class"]["dog"])
    assert capfd.readouterr() == ("", "")


def test_a_difficult_object_is_neither_missed_nor_false(make_truth, make_detections):
    truth = make_truth([(0, 0, 0, 0, 50, 50), (0, 0, 100, 100, 150, 150, 1)])
    found = [(0, 0, 0.9, 0, 0, 50, 50)]
    assert coco_scores(truth, make_detections(truth, found))["mean"] == pytest.approx(1)
    found.append((0, 0, 0.95, 100, 100, 150, 150))
    assert coco_scores(truth, make_detections(truth, found))["mean"] == pytest.approx(1)


def test_no_detections(make_truth, make_detections):
    truth = make_truth([(0, 0, 0, 0, 50, 50)])
    assert coco_scores(truth, make_detections(truth, []))["mean"] == 0


def test_the_order_of_the_file_does_not_matter(random_problem):
    truth, detections = random_problem(seed=2, images=40, classes=3)
    np.round(detections.scores, 1, out=detections.scores)
    shuffled = detections.take(np.random.default_rng(0).permutation(len(detections)))
    np.testing.assert_equal(coco_scores(truth, shuffled), coco_scores(truth, detections))


def test_a_missing_package_is_named(make_truth, make_detections, monkeypatch):
    monkeypatch.setitem(sys.modules, "faster_coco_eval", None)
    truth = make_truth([])
    with pytest.raises(InputError, match="pip install faster-coco-eval"):
        coco_scores(truth, make_detections(truth, []))
