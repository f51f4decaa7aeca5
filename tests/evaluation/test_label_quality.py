import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tag2box.boxes import iou
from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.evaluation.label_quality import LabelQuality, in_all, label_quality

CLASSES, IDS = ("cat", "dog"), ("a", "b")
A, B = (0.0, 0.0, 10.0, 10.0), (50.0, 50.0, 60.0, 60.0)


def truth(*rows):
    """Rows (image, class, box) or with a fourth item, whether difficult."""
    rows = sorted(rows, key=lambda row: row[0])
    return GroundTruth(
        CLASSES,
        IDS,
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.float64).reshape(-1, 4),
        np.array([len(row) > 3 and row[3] for row in rows], dtype=bool),
        np.zeros(len(rows), dtype=bool),
    )


def labels(*rows, classes=CLASSES):
    """Rows (image, class, score, box)."""
    return Detections(
        classes,
        IDS,
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.float64),
        np.array([row[3] for row in rows], dtype=np.float64).reshape(-1, 4),
    )


def test_right_wrong_and_missed():
    found = label_quality(
        truth((0, 0, A), (0, 0, B), (1, 1, A)),
        labels((0, 0, 0.9, A), (0, 0, 0.8, (20, 20, 30, 30)), (1, 0, 0.9, A), (1, 1, 0.1, A)),
    )
    assert found == {"cat": LabelQuality(3, 1, 2), "dog": LabelQuality(1, 1, 1)}
    assert found["cat"].precision == pytest.approx(1 / 3)
    assert found["cat"].recall == pytest.approx(1 / 2)
    assert in_all(found.values()) == LabelQuality(4, 2, 3)


def test_a_second_label_on_an_object_is_wrong_and_may_go_to_another_object():
    near = (0.0, 0.0, 10.0, 9.0)
    assert label_quality(truth((0, 0, A)), labels((0, 0, 0.9, A), (0, 0, 0.8, near)))["cat"] == LabelQuality(2, 1, 1)
    both = truth((0, 0, A), (0, 0, near))
    assert label_quality(both, labels((0, 0, 0.9, A), (0, 0, 0.8, A)))["cat"] == LabelQuality(2, 2, 2)


def test_the_threshold_itself_counts():
    half = (0.0, 0.0, 10.0, 5.0)
    assert label_quality(truth((0, 0, A)), labels((0, 0, 0.9, half)))["cat"].right == 1
    assert label_quality(truth((0, 0, A)), labels((0, 0, 0.9, half)), threshold=0.51)["cat"].right == 0


def test_difficult_objects_are_neither_found_nor_missed():
    hard = truth((0, 0, A, True), (0, 0, B))
    found = label_quality(hard, labels((0, 0, 0.9, A), (0, 0, 0.8, A), (0, 0, 0.7, (20, 20, 30, 30))))
    assert found["cat"] == LabelQuality(1, 0, 1)


def test_nothing_to_find_and_nothing_said():
    found = label_quality(truth(), labels())
    assert found == {"cat": LabelQuality(0, 0, 0), "dog": LabelQuality(0, 0, 0)}
    assert math.isnan(found["cat"].precision)
    assert math.isnan(found["cat"].recall)


def test_classes_in_another_order():
    found = label_quality(truth((0, 0, A)), labels((0, 1, 0.9, A), classes=("dog", "cat")))
    assert found["cat"] == LabelQuality(1, 1, 1)


def slow(truth, labels, threshold):
    """One label after the other, one object after the other."""
    taken, result = set(), {}
    order = sorted(range(len(labels)), key=lambda i: (-labels.scores[i], labels.images[i], tuple(labels.boxes[i])))
    for c, name in enumerate(CLASSES):
        counted = right = 0
        for i in (i for i in order if labels.labels[i] == c):
            best, best_overlap, spared = None, 0.0, False
            for j in range(len(truth)):
                if truth.images[j] != labels.images[i] or truth.labels[j] != c:
                    continue
                overlap = iou(labels.boxes[i][None], truth.boxes[j][None])[0, 0]
                if truth.difficult[j]:
                    spared |= overlap >= threshold
                elif j not in taken and overlap >= threshold and overlap > best_overlap:
                    best, best_overlap = j, overlap
            if best is not None:
                taken.add(best)
                right += 1
            counted += best is not None or not spared
        objects = sum(1 for j in range(len(truth)) if truth.labels[j] == c and not truth.difficult[j])
        result[name] = LabelQuality(counted, right, objects)
    return result


corner = st.integers(0, 6)
box = st.builds(
    lambda x, y, w, h: (float(x), float(y), float(x + w + 1), float(y + h + 1)), corner, corner, corner, corner
)
place = st.integers(0, 1)


@settings(max_examples=300, deadline=None)
@given(
    objects=st.lists(st.tuples(place, place, box, st.booleans()), max_size=8),
    rows=st.lists(st.tuples(place, place, st.sampled_from([0.1, 0.5, 0.9]), box), max_size=10),
    threshold=st.sampled_from([0.3, 0.5, 0.7]),
)
def test_the_same_as_slowly(objects, rows, threshold):
    assert label_quality(truth(*objects), labels(*rows), threshold) == slow(truth(*objects), labels(*rows), threshold)
