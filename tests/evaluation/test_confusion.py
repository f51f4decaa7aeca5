"""Against loops that anyone can read, on random problems; and case by case."""

from dataclasses import replace

import numpy as np
import pytest

from tag2box.boxes import iou
from tag2box.evaluation.confusion import confusion, match, operating_point
from tag2box.evaluation.matching import ranking
from tag2box.evaluation.voc_ap import precision_recall

CAT, DOG, NOTHING = 0, 1, 2
BOX, NEAR, FAR = (0, 0, 10, 10), (0, 0, 10, 9), (50, 50, 60, 60)


def slow_confusion(truth, detections, threshold):
    """One image after another, one pair after another, as the module says it."""
    count = len(truth.classes)
    table = np.zeros((count + 1, count + 1), dtype=int)
    for image in range(len(truth.ids)):
        found = [d for d in ranking(detections) if detections.images[d] == image]
        there = [o for o in range(len(truth)) if truth.images[o] == image]
        overlap = {(d, o): float(iou(detections.boxes[[d]], truth.boxes[[o]])[0, 0]) for d in found for o in there}
        counted = [o for o in there if not truth.difficult[o] and not truth.crowd[o]]
        left, free = list(found), list(counted)
        for d in found:
            own = [o for o in free if truth.labels[o] == detections.labels[d] and overlap[d, o] >= threshold]
            if own:
                best = max(own, key=lambda o: (overlap[d, o], -o))
                table[truth.labels[best], detections.labels[d]] += 1
                left.remove(d)
                free.remove(best)
        while pairs := [(d, o) for d in left for o in free if overlap[d, o] >= threshold]:
            d, o = max(pairs, key=lambda pair: (overlap[pair], -found.index(pair[0]), -pair[1]))
            table[truth.labels[o], detections.labels[d]] += 1
            left.remove(d)
            free.remove(o)
        for o in free:
            table[truth.labels[o], count] += 1
        for d in left:
            if not any(overlap[d, o] >= threshold for o in there if o not in counted):
                table[count, detections.labels[d]] += 1
    return table


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("threshold", [0.3, 0.5])
def test_against_brute_force(random_problem, seed, threshold):
    truth, detections = random_problem(seed, images=12, classes=3)
    crowd = np.random.default_rng(seed).random(len(truth)) < 0.1
    truth = replace(truth, crowd=crowd)
    shuffled = detections.take(np.random.default_rng(seed).permutation(len(detections)))
    expected = slow_confusion(truth, detections, threshold)
    np.testing.assert_array_equal(confusion(truth, detections, threshold), expected)
    np.testing.assert_array_equal(confusion(truth, shuffled, threshold), expected)


def test_every_object_and_every_detection_is_counted_once(random_problem):
    truth, detections = random_problem(1)
    table, matches = confusion(truth, detections), match(truth, detections)
    counted = ~(truth.difficult | truth.crowd)
    np.testing.assert_array_equal(table[:-1].sum(axis=1), np.bincount(truth.labels[counted], minlength=5))
    np.testing.assert_array_equal(
        table[:, :-1].sum(axis=0), np.bincount(detections.labels[matches.counts], minlength=5)
    )
    assert table[-1, -1] == 0
    on = matches.objects[matches.objects >= 0]
    assert len(set(on.tolist())) == len(on)


def test_the_own_class_comes_before_a_larger_overlap(make_truth, make_detections):
    truth = make_truth([(0, DOG, *BOX), (0, CAT, *NEAR)])
    table = confusion(truth, make_detections(truth, [(0, CAT, 0.5, *BOX)]))
    assert table[CAT, CAT] == 1
    assert table[DOG, NOTHING] == 1


def test_one_class_taken_for_another(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX)])
    table = confusion(truth, make_detections(truth, [(0, DOG, 0.9, *BOX)]))
    np.testing.assert_array_equal(table, [[0, 1, 0], [0, 0, 0], [0, 0, 0]])


def test_missed_and_false_alarm(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX)])
    rows = [(0, CAT, 0.9, *FAR), (1, DOG, 0.9, *BOX)]
    table = confusion(truth, make_detections(truth, rows))
    np.testing.assert_array_equal(table, [[0, 0, 1], [0, 0, 0], [1, 1, 0]])


def test_the_second_on_an_object_is_a_false_alarm(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX)])
    rows = [(0, CAT, 0.9, *BOX), (0, CAT, 0.8, *NEAR), (0, DOG, 0.7, *BOX)]
    np.testing.assert_array_equal(confusion(truth, make_detections(truth, rows)), [[1, 0, 0], [0, 0, 0], [1, 1, 0]])


def test_difficult_ones_and_crowds_excuse_whatever_is_on_them(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX, 1), (0, CAT, *FAR, 0, 1)])
    rows = [(0, CAT, 0.9, *BOX), (0, DOG, 0.8, *BOX), (0, DOG, 0.8, *FAR)]
    assert confusion(truth, make_detections(truth, rows)).sum() == 0


def test_iou_of_exactly_half_is_enough(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX)])
    assert confusion(truth, make_detections(truth, [(0, DOG, 0.9, 0, 0, 10, 5)]))[CAT, DOG] == 1


def test_nothing_at_all(make_truth, make_detections):
    truth = make_truth([])
    assert confusion(truth, make_detections(truth, [])).tolist() == [[0] * 3] * 3


def test_classes_in_another_order(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX)])
    found = make_detections(truth, [(0, CAT, 0.9, *BOX)]).numbered_as(("dog", "cat"), truth.ids)
    assert confusion(truth, found)[CAT, CAT] == 1


@pytest.mark.parametrize("seed", range(4))
def test_the_operating_point_is_where_f1_is_highest(random_problem, seed):
    truth, detections = random_problem(seed, images=40)
    detections = replace(detections, scores=detections.scores.round(2))  # with ties

    def at(score):
        curves = precision_recall(truth, detections.take(detections.scores >= score))
        right = sum(int(curve.found[-1]) for curve in curves if len(curve.found))
        found, positives = sum(len(curve.found) for curve in curves), sum(curve.positives for curve in curves)
        return 2 * right / (found + positives), right / found, right / positives

    point = operating_point(precision_recall(truth, detections))
    every = {score: at(score) for score in np.unique(detections.scores)}
    best = max(value[0] for value in every.values())
    assert point.score == min(score for score, value in every.items() if value[0] == best)
    assert (point.precision, point.recall) == pytest.approx(every[point.score][1:])


def test_no_operating_point_where_nothing_is_right(make_truth, make_detections):
    truth = make_truth([(0, CAT, *BOX)])
    assert operating_point(precision_recall(truth, make_detections(truth, [(0, CAT, 0.9, *FAR)]))) is None
    assert operating_point(precision_recall(truth, make_detections(truth, []))) is None
    assert operating_point(()) is None
