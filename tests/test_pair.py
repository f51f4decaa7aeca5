"""Both nets of a run on one picture."""

from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from PIL import Image

from tag2box.config import load_recipe
from tag2box.data.records import TaggedImage
from tag2box.detector import Detector, build_prediction_net
from tag2box.detector_file import build_conditional_net
from tag2box.nets.region_eye import RegionEye
from tag2box.pair import Pair
from tag2box.proposals.store import ProposalStore, write_store

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


@pytest.fixture
def stored(tmp_path: Path) -> tuple[TaggedImage, ProposalStore]:
    """A picture of a data set, and its proposals."""
    folder = tmp_path / ".tag2box"
    folder.mkdir()
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    write_store(folder / "p.safetensors", ["a"], [(80, 60)], {}, [3], [PROPOSALS.astype(np.int16)])
    return TaggedImage("a", tmp_path / "a.png", (80, 60), ("cat",)), ProposalStore(folder / "p.safetensors")


@pytest.mark.parametrize("keep", [True, False])
def test_what_was_seen_of_a_picture_of_a_data_set_is_not_looked_at_again(pair: Pair, stored, keep: bool):
    """By another pair of the same run neither: rank after review, say."""
    recipe = replace(pair.recipe, data=replace(pair.recipe.data, keep_looks=keep))
    pair.detector.recipe, (image, store) = recipe, stored
    first = pair.study_image(image, store)
    pair.conditional.head.memory = None
    with mock.patch.object(RegionEye, "maps", autospec=True, side_effect=RegionEye.maps) as looks:
        again = pair.study_image(image, store)
    assert looks.call_count == (0 if keep else 1)
    assert first is not None
    assert again is not None
    assert torch.equal(first.probabilities, again.probabilities)
    assert torch.equal(first.samples, again.samples)
    alone = pair.study(PIXELS, PROPOSALS, np.array([True, False]), id="a")
    assert torch.equal(first.probabilities, alone.probabilities)


def test_a_picture_with_fewer_proposals_than_tags_cannot_be_studied(pair: Pair, stored, tmp_path: Path):
    image, store = stored
    assert pair.study_image(replace(image, tags=("cat", "dog")), store) is not None
    write_store(tmp_path / "less", ["a"], [(80, 60)], {}, [1], [PROPOSALS[:1].astype(np.int16)])
    less = ProposalStore(tmp_path / "less")
    assert pair.study_image(replace(image, tags=("cat", "dog")), less) is None
    write_store(tmp_path / "none", ["a"], [(80, 60)], {}, [0], [PROPOSALS[:0].astype(np.int16)])
    assert pair.study_image(replace(image, tags=()), ProposalStore(tmp_path / "none")) is None
