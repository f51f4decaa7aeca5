"""Which pictures are shown, and what is said of them."""

import numpy as np
import pytest

from tag2box.evaluation.mistakes import judge
from tag2box.report.examples import (
    EACH,
    MOST_BOXES,
    best_pictures,
    missed_pictures,
    sure_and_unsure,
    top_of_each,
    varied,
    wrong_pictures,
)

BOX = (10, 10, 60, 50)


def at(found, score):
    return found.take(found.scores >= score)


def test_best_are_those_where_all_is_found_and_the_boxes_are_close(make_truth, make_found):
    truth = make_truth([(image, 0, *BOX) for image in range(10)])
    rows = [(image, 0, 0.5, 10, 10, 60, 50 - image) for image in range(8)]
    rows += [(0, 0, 0.9, 80, 10, 90, 20)]  # p0 has the closest box, and a false alarm
    found = make_found(truth, rows)
    shown = best_pictures(truth, found, judge(truth, found))
    assert [one.id for one in shown] == ["p1", "p2", "p3", "p4", "p5", "p6"]
    assert shown[0].head == "cat found"
    assert shown[0].words == "IoU 0.97."
    assert [(box.role, box.score) for box in shown[0].boxes] == [("truth", None), ("right", 0.5)]


def test_the_best_of_a_bad_lot_is_told_as_it_is(problem):
    truth, found = problem
    found = at(found, 0.5)
    shown = best_pictures(truth, found, judge(truth, found))
    assert [one.id for one in shown] == ["p0", "p1"]
    assert shown[1].words == "IoU 1.00. 1 box is wrong."


def test_wrong_are_the_surest_false_alarms_one_of_a_picture(problem):
    truth, found = problem
    found = at(found, 0.5)
    shown = wrong_pictures(truth, found, judge(truth, found))
    assert [(one.id, one.head) for one in shown] == [
        ("p1", "Only a part"),
        ("p2", "dog taken for cat"),
        ("p4", "No dog there"),
    ]
    assert shown[0].words == "cat 0.95 covers too little of the object: IoU 0.20."
    assert [box.role for box in shown[0].boxes] == ["truth", "right", "wrong"]  # what the words are of is on top


@pytest.mark.parametrize(
    ("box", "head"),
    [
        ((8, 8, 118, 52), "Several in one box"),
        ((0, 0, 65, 79), "Too large a box"),
        ((0, 0, 40, 50), "Off the mark"),
        ((10, 10, 60, 48), "Found twice"),
    ],
)
def test_other_mistakes_in_words(make_truth, make_found, box, head):
    truth = make_truth([(0, 0, *BOX), (0, 0, 70, 10, 115, 50)])
    found = make_found(truth, [(0, 0, 0.9, *BOX), (0, 0, 0.5, *box)])
    (shown,) = wrong_pictures(truth, found, judge(truth, found))
    assert shown.head == head


def test_an_overlap_short_of_a_half_is_not_said_to_be_one(make_truth, make_found):
    """0.4997 would be rounded to the very half that the page asks for, and a score to the one it is below."""
    truth = make_truth([(0, 0, 0, 0, 100, 100), (1, 0, 0, 0, 100, 100)])
    found = make_found(truth, [(0, 0, 0.9, 0, 0, 100, 49.97), (1, 0, 0.4391, 0, 0, 100, 90)])
    shown = at(found, 0.4402)
    assert wrong_pictures(truth, shown, judge(truth, shown))[0].words.endswith("IoU 0.49.")
    reasons = {one.id: one.words for one in missed_pictures(truth, shown, judge(truth, shown), found, 0.4402)}
    assert reasons["p0"] == "No box of its class is near enough: IoU 0.49 at best."
    assert reasons["p1"] == "Its best box has a score of 0.439 only, below 0.440."


def test_missed_with_the_reason(make_truth, make_found):
    truth = make_truth([(image, 0, *BOX) for image in range(4)])
    rows = [(0, 0, 0.1, *BOX), (1, 1, 0.8, *BOX), (2, 0, 0.9, 10, 10, 30, 30)]
    everything = make_found(truth, rows)
    found = at(everything, 0.5)
    shown = missed_pictures(truth, found, judge(truth, found), everything, 0.5)
    assert {one.id: one.words for one in shown} == {
        "p0": "Its best box has a score of 0.10 only, below 0.50.",
        "p1": "Taken for dog, 0.80.",
        "p2": "No box of its class is near enough: IoU 0.20 at best.",
        "p3": "No box of its class touches it.",
    }
    assert all([box.role for box in one.boxes].count("missed") == 1 for one in shown)


def test_the_largest_missed_come_first_and_difficult_ones_never(make_truth, make_found):
    rows = [(image, 0, 0, 0, 10 + image, 10) for image in range(10)] + [(10, 0, 0, 0, 90, 70, 1)]
    truth = make_truth(rows)
    nothing = make_found(truth, [])
    shown = missed_pictures(truth, nothing, judge(truth, nothing), nothing, 0.5)
    assert [one.id for one in shown] == [f"p{image}" for image in range(9, 9 - EACH, -1)]


def test_sure_and_unsure_share_no_picture(make_truth, make_found):
    truth = make_truth([], ids=[f"p{i}" for i in range(20)])
    found = make_found(truth, [(i, i % 2, 0.04 * i + 0.02, *BOX) for i in range(20)])
    shown = sure_and_unsure(found)
    sure, unsure = ([one for one in shown if one.group == group] for group in ("sure", "unsure"))
    assert [one.id for one in sure] == [f"p{i}" for i in range(19, 13, -1)]
    assert [one.id for one in unsure] == [f"p{i}" for i in range(6)]
    assert sure[0].head == "dog 0.78"
    assert unsure[0].boxes[-1].role == "found"


def test_few_pictures_are_enough(make_truth, make_found):
    truth = make_truth([], ids=["p0"])
    assert sure_and_unsure(make_found(truth, [])) == []
    shown = sure_and_unsure(make_found(truth, [(0, 0, 0.5, *BOX), (0, 1, 0.4, *BOX)]))
    assert {one.group for one in shown} == {"sure"}


def test_pictures_of_many_classes_rather_than_of_one():
    assert varied([("a", i) for i in range(9)] + [("b", 0)], lambda one: ord(one[0]), 3) == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
    ]
    assert varied([], lambda one: 0, 3) == []


def test_a_crowded_picture_keeps_what_it_is_about(make_truth, make_found):
    truth = make_truth([(0, 0, i, 0, i + 1, 5) for i in range(90)])
    rows = [(0, 0, 0.5, i, 50, i + 1, 55) for i in range(90)] + [(0, 0, 0.9, 10, 60, 30, 70)]
    found = make_found(truth, rows)
    (shown,) = wrong_pictures(truth, found, judge(truth, found))
    assert len(shown.boxes) == MOST_BOXES
    assert shown.boxes[-1].score == 0.9
    (shown,) = missed_pictures(truth, found, judge(truth, found), found, 0.5)
    assert sum(box.role == "missed" for box in shown.boxes) == 1


def test_the_top_of_each_class_in_each_picture(make_truth, make_found):
    truth = make_truth([], ids=["p0", "p1"])
    rows = [(1, 0, 0.3, *BOX), (0, 1, 0.2, *BOX), (0, 1, 0.6, *BOX), (0, 0, 0.1, *BOX)]
    top = top_of_each(make_found(truth, rows))
    np.testing.assert_array_equal(top.images, [0, 0, 1])
    np.testing.assert_array_equal(top.scores, [0.1, 0.6, 0.3])
