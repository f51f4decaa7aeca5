import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tag2box.config import Recipe
from tag2box.data.records import TaggedImage
from tag2box.pair import Study
from tag2box.ranking import BY, DoubtedImage, Doubts, box_distance, doubt_of, doubts_of, in_order
from tag2box.uncertainty import Uncertainty, class_uncertainty, image_uncertainty

PAIR = SimpleNamespace(classes=("cat", "dog", "yak"), recipe=Recipe())


def overlap(one, other):
    width, height = (max(min(one[2 + i], other[2 + i]) - max(one[i], other[i]), 0) for i in (0, 1))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return width * height / (sum(areas) - width * height)


def random_boxes(count, generator):
    corner = 50 * torch.rand(count, 2, generator=generator)
    return torch.cat([corner, corner + 5 + 40 * torch.rand(count, 2, generator=generator)], dim=1)


def random_study(seed, samples=3, proposals=6) -> Study:
    generator = torch.Generator().manual_seed(seed)
    boxes = random_boxes(proposals, generator)
    labels = torch.randint(0, 4, (samples, proposals), generator=generator)
    truths = [(boxes[row > 0] + 3, row[row > 0]) for row in labels]
    probabilities = torch.randn(proposals, 4, generator=generator).softmax(-1)
    moved = boxes[:, None] + 2 * torch.rand(proposals, 4, 4, generator=generator)
    return Study(boxes, probabilities, moved, labels, truths)


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3))
def test_the_distance_against_a_loop(seed, samples, label):
    study = random_study(seed, samples)
    (box,) = random_boxes(1, torch.Generator().manual_seed(seed + 1)).tolist()
    apart = 0.0
    for boxes, labels in study.truths:
        own = [other for other, one in zip(boxes.tolist(), labels.tolist(), strict=True) if one == label]
        apart += 1 - max((overlap(box, other) for other in own), default=0.0)
    assert box_distance(study, label, tuple(box)) == pytest.approx(apart / samples, abs=1e-5)


@given(st.floats(0, 1), st.floats(0.001, 0.999))
def test_a_doubt_is_confidence_and_distance_in_log_odds(distance, confidence):
    odds = math.log(confidence / (1 - confidence))
    assert doubt_of(distance, confidence) == pytest.approx(1 / (1 + math.exp(odds - distance)))


def test_the_ends_of_confidence_leave_no_room():
    assert [doubt_of(distance, sure) for sure in (0.0, 1.0) for distance in (0.0, 1.0)] == [1.0, 1.0, 0.0, 0.0]


def test_a_picture_and_its_tags():
    study = random_study(3)
    image = TaggedImage("x", "x.jpg", (100, 100), ("cat", "yak"))
    found = doubts_of(PAIR, image, study, "dissimilarity")
    least = min(float(study.probabilities[:, label].max()) for label in (1, 3))
    assert found.doubts.labels == image_uncertainty(study, least)
    by_name = {one.name: one for one in found.classes}
    assert set(by_name) == {"cat", "yak"}
    for name, label in (("cat", 1), ("yak", 3)):
        one = by_name[name]
        best = study.probabilities[:, label].argmax()  # the detector's best box is that proposal's, regressed
        assert one.box == pytest.approx(study.boxes[best, label].tolist())
        score = float(study.probabilities[best, label])
        distance, labels = box_distance(study, label, one.box), class_uncertainty(study, label, score)
        assert one.doubts == (pytest.approx(doubt_of(distance, score)), distance, labels)
    assert found.doubts.distance == max(one.doubts.distance for one in found.classes)
    assert found.doubts.doubt == max(one.doubts.doubt for one in found.classes)
    first, second = (one.doubts.by("dissimilarity") for one in found.classes)
    assert first >= second


def test_a_picture_without_a_tag_and_one_without_proposals():
    image = TaggedImage("x", "x.jpg", (100, 100), ())
    study = random_study(3)
    assert doubts_of(PAIR, image, study) == DoubtedImage(image, Doubts(0.0, 0.0, image_uncertainty(study, 1.0)), ())
    assert doubts_of(PAIR, image, None) == DoubtedImage(image, None, ())


def test_the_score_is_that_of_the_box_beside_it():
    """Not the highest of the class, where the run remembers that another box is the better one."""
    study = random_study(3)
    last = len(study.proposals) - 1
    favoured = study.probabilities.clone()
    favoured[:last, 1] *= 1e-3
    image = TaggedImage("x", "x.jpg", (100, 100), ("cat",))
    (found,) = doubts_of(PAIR, image, replace(study, favoured=favoured)).classes
    assert found.box == pytest.approx(study.boxes[last, 1].tolist())
    assert found.doubts.labels.confidence == pytest.approx(float(favoured[last, 1]))
    assert float(study.probabilities[:, 1].max()) > found.doubts.labels.confidence


def test_without_any_box_it_is_all_of_the_picture():
    study = random_study(0)
    gone = Study(study.proposals, study.probabilities, torch.zeros_like(study.boxes), study.samples, study.truths)
    found = doubts_of(PAIR, TaggedImage("x", "x.jpg", (90, 60), ("dog",)), gone)
    assert found.classes[0].box == (0, 0, 90, 60)
    assert found.classes[0].doubts.labels.confidence == 0


def test_every_doubt_by_name():
    doubts = Doubts(0.4, 0.7, Uncertainty(0.1, 0.2, 0.9))
    assert {name: pytest.approx(doubts.by(name)) for name in BY} == {
        "doubt": 0.4,
        "distance": 0.7,
        "total": 0.3,
        "dissimilarity": 0.1,
        "self-diversity": 0.2,
        "confidence": 0.1,
    }


def test_the_order():
    def image(id, *numbers):
        doubts = Doubts(doubt_of(numbers[0], numbers[3]), numbers[0], Uncertainty(*numbers[1:])) if numbers else None
        return DoubtedImage(TaggedImage(id, id, (9, 9), ()), doubts, ())

    images = [
        image("sure", 0.1, 0.1, 0.1, 0.94),
        image("far", 1.0, 0.0, 0.0, 0.8),
        image("far and unsure", 1.0, 0.0, 0.0, 0.2),
        image("split", 0.6, 0.5, 0.3, 0.95),
        image("unknown"),
    ]

    def order(by):
        return [one.image.id for one in in_order(images, by)]

    assert order("doubt") == ["unknown", "far and unsure", "far", "split", "sure"]
    assert order("distance") == ["unknown", "far and unsure", "far", "split", "sure"]
    assert order("confidence") == ["unknown", "far and unsure", "far", "sure", "split"]
    assert order("total") == ["unknown", "split", "sure", "far and unsure", "far"]
