"""Cases small enough to work out by hand."""

import math

import numpy as np
import pytest

from tag2box.evaluation.voc_ap import (
    PrecisionRecall,
    average_precision_11_points,
    average_precision_area,
    precision_recall,
)

CAT, DOG = 0, 1
BOX = (0, 0, 10, 10)
HALF = (0, 0, 10, 5)  # IoU with BOX is exactly 0.5
FAR = (50, 50, 60, 60)


def scores(curve: PrecisionRecall) -> tuple[float, float]:
    return average_precision_11_points(curve), average_precision_area(curve)


def test_perfect(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX), (1, CAT, *FAR)])
    cat, _ = precision_recall(truth, make_detections(truth, [(0, CAT, 0.9, *BOX), (1, CAT, 0.8, *FAR)]))
    assert scores(cat) == (1.0, 1.0)


def test_half_found_then_a_false_alarm(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX), (1, CAT, *BOX)])
    cat, _ = precision_recall(truth, make_detections(truth, [(0, CAT, 0.9, *BOX), (0, CAT, 0.8, *FAR)]))
    # recall 0.5 at precision 1: six of the eleven points (0, 0.1, … 0.5), half of the area
    assert scores(cat) == pytest.approx((6 / 11, 0.5))


def test_duplicate_is_false(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX), (1, CAT, *BOX)])
    rows = [(0, CAT, 0.9, *BOX), (0, CAT, 0.8, *BOX), (1, CAT, 0.7, *BOX)]
    cat, _ = precision_recall(truth, make_detections(truth, rows))
    assert cat.found.tolist() == [1, 1, 2]
    assert cat.precision.tolist() == pytest.approx([1, 1 / 2, 2 / 3])
    assert scores(cat) == pytest.approx(((6 * 1 + 5 * 2 / 3) / 11, 0.5 * 1 + 0.5 * 2 / 3))


def test_no_second_choice_when_the_best_object_is_taken(make_truth, make_detections):
    truth = make_truth([(0, CAT, 0, 0, 10, 10), (0, CAT, 0, 0, 10, 8)])
    rows = [(0, CAT, 0.9, *BOX), (0, CAT, 0.8, *BOX)]  # the second has IoU 0.8 with the object that is still free
    cat, _ = precision_recall(truth, make_detections(truth, rows))
    assert cat.found.tolist() == [1, 1]


def test_equal_overlap_goes_to_the_first_annotated(make_truth, make_detections):
    for difficult in ((1, 0), (0, 1)):
        truth = make_truth([(0, CAT, *BOX, difficult[0]), (0, CAT, *BOX, difficult[1])])
        cat, _ = precision_recall(truth, make_detections(truth, [(0, CAT, 0.9, *BOX)]))
        assert cat.found.tolist() == ([] if difficult[0] else [1])


def test_difficult_hit_is_neither_right_nor_wrong(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX, 1), (1, CAT, *BOX)])
    rows = [(0, CAT, 0.9, *BOX), (0, CAT, 0.8, *BOX), (1, CAT, 0.7, *BOX)]  # also twice on the difficult one
    cat, _ = precision_recall(truth, make_detections(truth, rows))
    assert cat.positives == 1
    assert cat.found.tolist() == [1]
    assert scores(cat) == (1.0, 1.0)


def test_crowd_is_treated_like_difficult(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX, 0, 1), (1, CAT, *BOX)])
    cat, _ = precision_recall(truth, make_detections(truth, [(0, CAT, 0.9, *BOX), (1, CAT, 0.7, *BOX)]))
    assert (cat.positives, cat.found.tolist()) == (1, [1])


def test_missing_a_difficult_object_by_the_threshold_is_false(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX, 1), (1, CAT, *BOX)])
    cat, _ = precision_recall(truth, make_detections(truth, [(0, CAT, 0.9, *FAR), (1, CAT, 0.7, *BOX)]))
    assert cat.found.tolist() == [0, 1]


def test_iou_of_exactly_half_is_false_as_in_the_papers(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX)])
    detections = make_detections(truth, [(0, CAT, 0.9, *HALF)])
    assert precision_recall(truth, detections)[CAT].found.tolist() == [0]
    assert precision_recall(truth, detections, touching_counts=True)[CAT].found.tolist() == [
        1
    ]  # as in the devkit's code


def test_the_devkits_inclusive_pixels(make_truth, make_detections):
    """In VOC's terms 1–10 by 1–10 and 1–10 by 1–6: 60 of 100 pixels, and not 45 of 81 as without the + 1."""
    truth = make_truth([(0, CAT, 1 - 1, 1 - 1, 10, 10)])
    cat, _ = precision_recall(truth, make_detections(truth, [(0, CAT, 0.9, 1 - 1, 1 - 1, 10, 6)]), threshold=0.599)
    assert cat.found.tolist() == [1]


def test_no_detections(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX)])
    cat, _ = precision_recall(truth, make_detections(truth, []))
    assert scores(cat) == (0.0, 0.0)
    assert len(cat.recall) == len(cat.precision) == 0


def test_no_positives(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX), (0, DOG, *FAR, 1)])
    _, dog = precision_recall(truth, make_detections(truth, [(0, DOG, 0.9, *BOX)]))
    assert all(map(math.isnan, scores(dog)))
    assert np.isnan(dog.recall).all()


def test_no_objects_at_all(make_truth, make_detections):
    truth = make_truth([])
    curves = precision_recall(truth, make_detections(truth, [(0, DOG, 0.9, *BOX)]))
    assert [curve.positives for curve in curves] == [0, 0]


def test_one_class_never_detected(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX), (0, DOG, *FAR)])
    cat, dog = precision_recall(truth, make_detections(truth, [(0, CAT, 0.9, *BOX)]))
    assert scores(cat) == (1.0, 1.0)
    assert scores(dog) == (0.0, 0.0)


def test_classes_and_images_do_not_mix(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX), (1, DOG, *BOX)])
    rows = [(0, DOG, 0.9, *BOX), (1, CAT, 0.9, *BOX)]
    assert [c.found.tolist() for c in precision_recall(truth, make_detections(truth, rows))] == [[0], [0]]


def test_ties_are_broken_by_image_then_box(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX), (1, CAT, *BOX)])
    rows = [(1, CAT, 0.5, *FAR), (1, CAT, 0.5, *BOX), (0, CAT, 0.5, *FAR), (0, CAT, 0.5, *BOX)]
    cat, _ = precision_recall(truth, make_detections(truth, rows))
    assert cat.found.tolist() == [1, 1, 2, 2]  # image 0: BOX, FAR; image 1: BOX, FAR


def test_the_order_of_the_file_does_not_matter(random_problem):
    truth, detections = random_problem(seed=1)
    coarse = detections.take(np.arange(len(detections)))
    np.round(coarse.scores, 1, out=coarse.scores)  # ties everywhere
    expected = [scores(curve) for curve in precision_recall(truth, coarse)]
    for seed in range(3):
        shuffled = coarse.take(np.random.default_rng(seed).permutation(len(coarse)))
        assert [scores(curve) for curve in precision_recall(truth, shuffled)] == expected


def test_a_recall_of_exactly_three_tenths_counts():
    """3 · 0.1 is 0.30000000000000004 in floating point; three found of ten reach the fourth point all the same."""
    curve = PrecisionRecall(positives=10, found=np.array([1, 2, 3]), scores=np.array([0.9, 0.8, 0.7]))
    assert average_precision_11_points(curve) == pytest.approx(4 / 11)


def test_detections_numbered_in_another_order(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX), (1, DOG, *FAR)])
    other = make_truth([], classes=("dog", "cat"), ids=("000002", "000001", "000003"))
    cat, dog = precision_recall(truth, make_detections(other, [(1, 1, 0.9, *BOX), (0, 0, 0.9, *FAR)]))
    assert scores(cat) == scores(dog) == (1.0, 1.0)
