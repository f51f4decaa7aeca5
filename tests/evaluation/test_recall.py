import math

import numpy as np
import pytest

from tag2box.evaluation.plots import plot_recall
from tag2box.evaluation.recall import proposal_recall

CAT, DOG = 0, 1


def boxes(*rows: tuple[int, int, int, int]) -> np.ndarray:
    return np.array(rows, dtype=np.int16).reshape(-1, 4)


def test_recall_counts_from_the_threshold_on_by_class_and_size(make_truth):
    truth = make_truth([(0, CAT, 0, 0, 10, 10), (0, DOG, 0, 0, 200, 200), (1, CAT, 0, 0, 100, 100)])
    report = proposal_recall(truth, [boxes((0, 0, 10, 5), (0, 0, 200, 140)), boxes()])  # IoU 0.5, 0.7 and none
    assert (report.overall.objects, report.images, report.boxes_per_image) == (3, 2, 1.0)
    assert report.overall.recall_50 == pytest.approx(2 / 3)
    assert report.overall.recall_70 == pytest.approx(1 / 3)
    assert report.overall.average_best_overlap == pytest.approx((0.5 + 0.7 + 0) / 3)
    assert report.per_class["cat"].recall_50 == 0.5
    assert report.per_class["dog"].recall_70 == 1
    assert [(reach.objects, reach.recall_50) for reach in report.per_size.values()] == [(1, 1), (1, 0), (1, 1)]


def test_difficult_objects_and_crowds_are_not_asked_for(make_truth):
    truth = make_truth([(0, CAT, 0, 0, 10, 10, 1), (0, CAT, 0, 0, 10, 10, 0, 1)])
    report = proposal_recall(truth, [boxes((0, 0, 10, 10)), boxes()])
    assert report.overall.objects == 0
    assert math.isnan(report.overall.recall_50)


def test_the_first_boxes_count_first(make_truth):
    truth = make_truth([(0, CAT, 0, 0, 10, 10)])
    report = proposal_recall(
        truth, [boxes((5, 5, 9, 9), (0, 0, 10, 5), (0, 0, 10, 10)), boxes((0, 0, 1, 1))], budgets=[1, 2]
    )
    assert [kept for kept, _ in report.budgets] == [1.0, 1.5, 2.0]
    assert [reach.average_best_overlap for _, reach in report.budgets] == pytest.approx([0.16, 0.5, 1.0])


def test_boxes_by_id(make_truth):
    truth = make_truth([(0, CAT, 0, 0, 10, 10)])
    stored = {"000001": boxes((0, 0, 10, 10)), "000002": boxes()}
    assert proposal_recall(truth, stored.__getitem__).overall.recall_70 == 1


def test_a_wrong_number_of_images_is_refused(make_truth):
    with pytest.raises(ValueError, match="expected proposals for 2 images, found 1"):
        proposal_recall(make_truth([]), [boxes()])


def test_plot(make_truth, tmp_path):
    truth = make_truth([(0, CAT, 0, 0, 10, 10)])
    plot_recall(proposal_recall(truth, [boxes((0, 0, 10, 9)), boxes()]), tmp_path / "recall.png")
    assert (tmp_path / "recall.png").read_bytes().startswith(b"\x89PNG")
    assert len(list(tmp_path.iterdir())) == 1
