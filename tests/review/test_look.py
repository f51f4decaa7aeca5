import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tag2box.config import load_recipe
from tag2box.data.records import TaggedImage
from tag2box.detector import Detector, build_prediction_net
from tag2box.detector_file import build_conditional_net
from tag2box.pair import Pair, Study
from tag2box.review.look import LEAST, MOST, look_at
from tag2box.uncertainty import class_uncertainty

CLASSES = ("dog", "cat")
SIZE = (100, 80)
IMAGE = TaggedImage("a", None, SIZE, ("cat",))
SCORES = {"prediction": 0.3, "conditional": 0.1}


@pytest.fixture(scope="module")
def pair() -> Pair:
    small = {"backbone.weights": "none", "head.width": 8, "data.scales": 32, "inference.scales": 32}
    recipe = load_recipe("demo", small)
    detector = Detector(net=build_prediction_net(recipe, 2), recipe=recipe, classes=CLASSES, device="cpu")
    return Pair(detector, build_conditional_net(recipe, 2).eval())


def study_of(scores, boxes, truths) -> Study:
    """The cat's scores at each proposal, and its boxes in each sample."""
    boxes, cat = torch.tensor(boxes), torch.tensor(scores)
    probabilities = torch.stack([1 - cat, torch.zeros_like(cat), cat], dim=-1)
    samples = torch.zeros(len(truths), len(boxes), dtype=torch.long)
    samples[:, 0] = 2
    boxed = [(torch.tensor(own), torch.full((len(own),), 2)) for own in truths]
    return Study(boxes, probabilities, boxes[:, None].expand(-1, 3, -1), samples, boxed)


def test_all_that_the_nets_say(pair):
    boxes = [[10.0, 10, 50, 50], [60, 10, 90, 50], [0, 60, 30, 80], [-5, 0, 3.14159, 9]]
    sampled = [[[12.25, 10, 52, 50]], [[12.25, 10, 52, 50], [60, 10, 120, 90]]]
    study = study_of([0.9, 0.4, 0.25, 0.1], boxes, sampled)
    look = look_at(pair, study, IMAGE, SCORES)
    own = look["classes"]["cat"]
    overlap = 37.75 * 40 / (40 * 40 + 39.75 * 40 - 37.75 * 40)  # of the best box with the nearest of each sample
    odds = math.exp(1 - overlap) * (1 - own["confidence"]) / own["confidence"]
    assert look["doubts"][""]["doubt"] == look["doubts"]["cat"]["doubt"] == pytest.approx(odds / (1 + odds))
    assert look["doubts"]["cat"]["self-diversity"] == own["self_diversity"]
    assert look["doubts"]["cat"]["confidence"] == 1 - own["confidence"]
    assert (own["dissimilarity"], own["self_diversity"], own["confidence"]) == class_uncertainty(
        study, 2, own["predicted"][0][0]
    )
    assert [round(score, 2) for score, _ in own["predicted"]] == [0.9, 0.4, 0.25]
    assert own["suggested"] == [[10, 10, 50, 50], [60, 10, 90, 50]]  # what `label` writes: 0.3 and more
    assert own["samples"] == [[[12.2, 10, 52, 50]], [[12.2, 10, 52, 50], [60, 10, 100, 80]]]  # inside, to a tenth
    assert own["agreed"][0] == [12.2, 10, 52, 50]
    assert list(look["classes"]) == ["cat"]
    assert json.loads(json.dumps(look)) is not None


def test_there_is_always_a_suggestion(pair):
    study = study_of([0.01, 0.02], [[0.0, 0, 9, 9], [20, 20, 40, 40]], [[[0.0, 0, 9, 9]]])
    own = look_at(pair, study, IMAGE, SCORES)["classes"]["cat"]
    assert own["suggested"] == [[20, 20, 40, 40]]
    assert own["agreed"] == [[0, 0, 9, 9]]
    assert len(own["predicted"]) == 1


def test_not_too_many(pair):
    boxes = [[10.0 * n, 0, 10.0 * n + 8, 8] for n in range(9)]
    own = look_at(pair, study_of([LEAST + 0.01] * 9, boxes, [[boxes[0]]]), IMAGE, SCORES)["classes"]["cat"]
    assert len(own["predicted"]) == MOST


def test_of_nets_themselves(pair):
    pixels = np.random.default_rng(0).integers(0, 256, (80, 100, 3), dtype=np.uint8)
    proposals = np.array([[10, 10, 60, 60], [20, 20, 90, 70], [0, 0, 100, 80]], dtype=np.int16)
    image = TaggedImage("a", None, SIZE, ("dog", "cat"))
    look = look_at(pair, pair.study(pixels, proposals, np.array([True, True])), image, SCORES)
    for own in look["classes"].values():
        assert len(own["samples"]) == pair.recipe.rounds.samples
        assert all(own["samples"])
        for box in [*own["suggested"], *own["agreed"], *(box for _, box in own["predicted"])]:
            assert 0 <= box[0] < box[2] <= 100
            assert 0 <= box[1] < box[3] <= 80


def test_what_the_run_remembers_of_a_picture_weighs(pair):
    """On the suggested box, and on what the samples of the conditional net come to."""
    pixels = np.random.default_rng(0).integers(0, 256, (80, 100, 3), dtype=np.uint8)
    proposals = np.array([[10, 10, 60, 60], [20, 20, 90, 70], [0, 0, 50, 30]], dtype=np.int16)
    places = torch.tensor([[-1.0, 1], [-1, -1], [1, -1]])  # the dog is the third, the cat the first
    knowing = replace(pair, recall=lambda id, rows: places if id == "a" and np.array_equal(rows, proposals) else None)
    study = knowing.study(pixels, proposals, np.array([True, True]), id="a")
    assert study.choice[:, 1:].argmax(0).tolist() == [2, 0]
    for boxes, labels in study.truths:
        assert {int(label): box.tolist() for box, label in zip(boxes, labels, strict=True)} == {
            1: [0, 0, 50, 30],
            2: [10, 10, 60, 60],
        }
    other = knowing.study(pixels, proposals, np.array([True, True]), id="b")
    assert other.choice is other.probabilities
    torch.testing.assert_close(other.probabilities, study.probabilities)
