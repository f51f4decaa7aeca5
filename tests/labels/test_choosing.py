from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tag2box.data.records import Dataset, TaggedImage
from tag2box.detections import Detections
from tag2box.labels.choosing import choose, whole_ones, with_known
from tag2box.labels.records import Label

CLASSES = ("ant", "bee", "cow")


def dataset(*tags):
    images = [TaggedImage(f"i{n}", Path(f"i{n}.jpg"), (100, 50), own) for n, own in enumerate(tags)]
    return Dataset(CLASSES, tuple(images), "some/part")


def detections(count, rows, classes=CLASSES):
    """Rows (image, class, score, box)."""
    images, names, scores, boxes = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Detections(
        tuple(classes),
        tuple(f"i{n}" for n in range(count)),
        np.array(images, dtype=np.int64),
        np.array([classes.index(name) for name in names], dtype=np.int64),
        np.array(scores, dtype=np.float64),
        np.array(boxes, dtype=np.float64).reshape(-1, 4),
    )


A, B, C = (0.0, 0.0, 10.0, 10.0), (20.0, 20.0, 40.0, 40.0), (50.0, 0.0, 100.0, 50.0)


def test_the_best_of_each_tag_and_all_above_the_score():
    found = detections(
        2,
        [
            (0, "bee", 0.5, A),
            (0, "bee", 0.9, B),
            (0, "bee", 0.49, C),
            (0, "ant", 0.01, A),
            (0, "ant", 0.02, C),
            (0, "cow", 0.99, A),  # not tagged
            (1, "cow", 0.1, B),
        ],
    )
    labelled = choose(found, dataset(("ant", "bee"), ("cow",)), 0.5)
    assert labelled.images[0].labels == (Label("ant", C, 0.02), Label("bee", B, 0.9), Label("bee", A, 0.5))
    assert labelled.images[1].labels == (Label("cow", B, 0.1),)
    assert labelled.classes == CLASSES
    assert labelled.split == "some_part"


def test_a_part_is_not_labelled_beside_its_whole():
    eyes, owl, other = (30.0, 5.0, 50.0, 15.0), (25.0, 0.0, 60.0, 50.0), (52.0, 5.0, 80.0, 45.0)
    rows = [(0, "ant", 0.9, eyes), (0, "ant", 0.6, owl), (0, "ant", 0.5, other), (0, "bee", 0.9, eyes)]
    found, tagged = detections(1, rows), dataset(("ant", "bee"))
    ours = choose(found, tagged, 0.4).images[0].labels
    assert ours == (Label("ant", owl, 0.6), Label("ant", other, 0.5), Label("bee", eyes, 0.9))
    assert choose(found, tagged, 0.7).images[0].labels[0] == Label("ant", eyes, 0.9)  # nobody is sure of the whole
    assert len(choose(found, tagged, 0.4, parts=True).images[0].labels) == 4


@given(
    st.lists(
        st.tuples(*[st.integers(0, 9)] * 4).map(lambda b: (b[0], b[1], b[0] + b[2] + 1, b[1] + b[3] + 1)),
        min_size=1,
        max_size=8,
    )
)
def test_whole_ones_against_the_plain_words(boxes):
    """A box goes if four fifths of it lie in a larger one that stays; of equals the first stays."""

    def size(box):
        return (box[2] - box[0]) * (box[3] - box[1])

    def shared(a, b):
        return max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))

    stays = []
    for place in sorted(range(len(boxes)), key=lambda place: (-size(boxes[place]), place)):
        if all(shared(boxes[place], boxes[other]) < 0.8 * size(boxes[place]) for other in stays):
            stays.append(place)
    assert np.flatnonzero(whole_ones(np.array(boxes, dtype=np.float64))).tolist() == sorted(stays)


def test_a_class_that_is_nowhere_is_somewhere():
    labelled = choose(detections(2, []), dataset(("bee",), ()), 0.5)
    assert labelled.images[0].labels == (Label("bee", (0, 0, 100, 50), 0.0),)
    assert labelled.images[1].labels == ()


def test_the_detector_may_know_more_classes_in_another_order():
    classes = ("dog", "cow", "bee", "ant")
    found = detections(1, [(0, "dog", 0.9, A), (0, "cow", 0.8, B)], classes)
    assert choose(found, dataset(("cow",)), 0.5).images[0].labels == (Label("cow", B, 0.8),)


@given(
    tags=st.lists(st.sets(st.sampled_from(CLASSES)), min_size=1, max_size=4),
    rows=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(CLASSES), st.floats(0, 1), st.sampled_from([A, B, C])), max_size=12
    ),
    score=st.floats(0, 1),
)
def test_the_promise(tags, rows, score):
    """Every tagged class has a box in every image, and no other class has one."""
    ordered = [tuple(name for name in CLASSES if name in own) for own in tags]
    found = detections(len(tags), [row for row in rows if row[0] < len(tags)])
    for parts in (False, True):
        labelled = choose(found, dataset(*ordered), score, parts=parts)
        assert [{label.name for label in image.labels} for image in labelled.images] == list(map(set, ordered))
    assert [image.id for image in labelled.images] == [f"i{n}" for n in range(len(tags))]
    for number, (image, own) in enumerate(zip(labelled.images, ordered, strict=True)):
        for name in own:
            scores = sorted((s for i, n, s, _ in rows if (i, n) == (number, name)), reverse=True)
            expected = [s for rank, s in enumerate(scores) if rank == 0 or s >= score] or [0.0]
            assert [label.score for label in image.labels if label.name == name] == expected


def test_a_person_has_the_last_word():
    found = detections(2, [(0, "ant", 0.6, A), (0, "bee", 0.7, B), (1, "ant", 0.8, C)])
    labelled = choose(found, dataset(("ant", "bee"), ("ant",)), 0.5)
    decided = with_known(labelled, {"i0": {"cow": [C], "ant": [B, A], "bee": []}, "gone": {"ant": []}})
    assert decided.images[0].labels == (Label("ant", B, 1.0), Label("ant", A, 1.0), Label("cow", C, 1.0))
    assert decided.images[1] == labelled.images[1]
    assert with_known(labelled, {}) == labelled


@pytest.mark.parametrize(
    ("decisions", "reviewed"),
    [
        ({"ant": [B], "bee": []}, True),
        ({"ant": [], "bee": []}, True),
        ({"ant": [B], "bee": [], "cow": [C]}, True),
        ({"ant": [B]}, False),
        ({"cow": [C]}, False),
        ({}, False),
    ],
)
def test_a_picture_is_reviewed_when_every_tag_is_decided_on(decisions, reviewed):
    found = detections(1, [(0, "ant", 0.6, A), (0, "bee", 0.7, B)])
    (image,) = with_known(choose(found, dataset(("ant", "bee")), 0.5), {"i0": decisions}).images
    assert image.reviewed == reviewed


def test_a_picture_without_a_tag_and_a_word_is_not_reviewed():
    assert not with_known(choose(detections(1, []), dataset(()), 0.5), {"i0": {}}).images[0].reviewed
