import numpy as np
import pytest

from tag2box.evaluation.confusion import confusion
from tag2box.evaluation.mistakes import Kind, judge

CAT, DOG = 0, 1
BOX, BESIDE_IT = (20, 20, 60, 60), (70, 20, 110, 60)


@pytest.mark.parametrize(
    ("box", "kind", "on"),
    [
        ((22, 20, 60, 60), Kind.RIGHT, 0),
        ((20, 20, 40, 40), Kind.PART, 0),
        ((30, 30, 34, 34), Kind.PART, 0),  # however small
        ((18, 18, 112, 62), Kind.GROUP, 0),
        ((0, 0, 66, 90), Kind.LARGE, 0),
        ((0, 0, 45, 60), Kind.BESIDE, 0),
        ((0, 0, 25, 25), Kind.NOTHING, -1),  # touches it, no more
        ((200, 20, 240, 60), Kind.MISTAKEN, 2),
        ((300, 20, 340, 60), Kind.UNCOUNTED, -1),
        ((400, 20, 440, 60), Kind.NOTHING, -1),
    ],
)
def test_kinds(make_truth, make_detections, box, kind, on):
    objects = [(0, CAT, *BOX), (0, CAT, *BESIDE_IT), (0, DOG, 200, 20, 240, 60), (0, CAT, 300, 20, 340, 60, 1)]
    judged = judge(truth := make_truth(objects), make_detections(truth, [(0, CAT, 0.5, *box)]))
    assert judged.kinds == (kind,)
    assert judged.objects[0] == on


def test_the_surer_of_two_is_right_and_the_other_is_again(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX)])
    rows = [(0, CAT, 0.4, *BOX), (0, CAT, 0.9, 20, 20, 60, 55)]
    judged = judge(truth, make_detections(truth, rows))
    assert judged.kinds == (Kind.AGAIN, Kind.RIGHT)
    np.testing.assert_allclose(judged.iou, [1, 0.875])


def test_right_is_the_diagonal_of_the_confusion_matrix(random_problem):
    truth, detections = random_problem(3)
    judged = judge(truth, detections)
    assert judged.kinds.count(Kind.RIGHT) == np.trace(confusion(truth, detections)[:-1, :-1])
    assert set(judged.kinds) >= {Kind.RIGHT, Kind.AGAIN, Kind.PART, Kind.LARGE, Kind.NOTHING}
    on = judged.objects >= 0
    assert (judged.iou[~on] == 0).all()
    same = [k in (Kind.RIGHT, Kind.AGAIN, Kind.GROUP, Kind.PART, Kind.LARGE, Kind.BESIDE) for k in judged.kinds]
    np.testing.assert_array_equal(truth.labels[judged.objects[same]], detections.labels[same])


def test_nothing_to_judge(make_truth, make_detections):
    truth = make_truth([])
    assert judge(truth, make_detections(truth, [])).kinds == ()
    assert judge(truth, make_detections(truth, [(0, CAT, 0.5, *BOX)])).kinds == (Kind.NOTHING,)


def test_boxes_without_area(make_truth, make_detections):
    truth = make_truth([(0, CAT, 5, 5, 5, 5)])
    assert judge(truth, make_detections(truth, [(0, CAT, 0.5, 5, 5, 5, 5)])).kinds == (Kind.NOTHING,)
