"""Both nets of a run on one picture."""

from unittest import mock

import numpy as np
import pytest
import torch

from tag2box.config import load_recipe
from tag2box.detector import Detector, build_prediction_net
from tag2box.detector_file import build_conditional_net
from tag2box.nets.region_eye import RegionEye
from tag2box.pair import Pair

CUT = {"backbone.name": "mobilenet_v3_small", "backbone.weights": "none", "head.width": 8, "head.pixels": 32}
PIXELS = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
PROPOSALS = np.array([[0, 0, 80, 60], [10, 10, 40, 50], [30, 5, 70, 55]])


@pytest.fixture
def pair() -> Pair:
    recipe = load_recipe("fast", CUT)
    assert recipe.head.kind == "cut"
    torch.manual_seed(0)
    prediction, conditional = build_prediction_net(recipe, classes=2), build_conditional_net(recipe, classes=2)
    conditional.load_state_dict({**conditional.state_dict(), **dict(prediction.head.state_dict(prefix="head."))})
    return Pair(Detector(net=prediction, recipe=recipe, classes=("cat", "dog"), device="cpu"), conditional.eval())


def test_regions_are_looked_at_once_for_both_nets(pair: Pair):
    with mock.patch.object(RegionEye, "maps", autospec=True, side_effect=RegionEye.maps) as looks:
        study = pair.study(PIXELS, PROPOSALS, np.array([True, False]))
    assert [len(call.args[1]) for call in looks.call_args_list] == [3]
    assert study.samples.shape == (5, 3)
    assert (study.samples == 1).any(dim=1).all()  # the tag is in every sample


def test_it_is_what_the_detector_says_up_to_half_precision(pair: Pair):
    study = pair.study(PIXELS, PROPOSALS, np.array([True, True]))
    found = pair.detector.predict(PIXELS, proposals=PROPOSALS, score=0.0, max_detections=100)
    best = study.probabilities[:, 1:].max(dim=0).values
    for label in range(2):
        np.testing.assert_allclose(found.scores[found.labels == label].max(), best[label], atol=2e-3)
