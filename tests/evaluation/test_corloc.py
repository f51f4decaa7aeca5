import numpy as np
import pytest

from tag2box.evaluation.corloc import corloc

CAT, DOG = 0, 1
BOX = (0, 0, 10, 10)
HALF = (0, 0, 10, 5)
FAR = (50, 50, 60, 60)


def test_only_the_top_box_of_each_image_counts(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX), (1, CAT, *BOX)])
    rows = [(0, CAT, 0.9, *BOX), (0, CAT, 0.5, *FAR), (1, CAT, 0.9, *FAR), (1, CAT, 0.5, *BOX)]
    assert corloc(truth, make_detections(truth, rows))[CAT] == 0.5


def test_iou_of_exactly_half_is_right(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX)])
    assert corloc(truth, make_detections(truth, [(0, CAT, 0.9, *HALF)]))[CAT] == 1


def test_any_object_of_the_class_will_do_difficult_ones_too(make_truth, make_detections):
    truth = make_truth([(0, CAT, *FAR), (0, CAT, *BOX, 1)])
    assert corloc(truth, make_detections(truth, [(0, CAT, 0.9, *BOX)]))[CAT] == 1


def test_an_object_of_another_class_will_not(make_truth, make_detections):
    truth = make_truth([(0, CAT, *FAR), (0, DOG, *BOX)])
    np.testing.assert_array_equal(corloc(truth, make_detections(truth, [(0, CAT, 0.9, *BOX)])), [0, 0])


def test_an_image_without_a_detection_is_wrong_and_one_without_the_class_is_no_matter(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX), (2, CAT, *BOX)], ids=("a", "b", "c"))
    rows = [(0, CAT, 0.9, *BOX), (1, CAT, 0.9, *BOX)]
    assert corloc(truth, make_detections(truth, rows))[CAT] == 0.5


def test_a_crowd_is_no_place(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX, 0, 1)])
    assert np.isnan(corloc(truth, make_detections(truth, [(0, CAT, 0.9, *BOX)]))[CAT])


@pytest.mark.parametrize(
    "rows", [[(0, CAT, 0.5, *BOX), (0, CAT, 0.5, *FAR)], [(0, CAT, 0.5, *FAR), (0, CAT, 0.5, *BOX)]]
)
def test_ties_go_to_the_lesser_box_wherever_it_is_listed(rows, make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX)])
    assert corloc(truth, make_detections(truth, rows))[CAT] == 1


def test_nothing_at_all(make_truth, make_detections):
    truth = make_truth([])
    assert np.isnan(corloc(truth, make_detections(truth, []))).all()
