"""Detectors of random weights, pictures, and what both give: fixtures that are functions."""

import numpy as np
import pytest
import torch

from tag2box.config import load_recipe
from tag2box.detector import Detector, build_prediction_net
from tag2box.export.file import write_onnx

CLASSES = ["owl", "crème <brûlée>", "kite"]


@pytest.fixture(autouse=True, scope="module")
def _one_thread(one_thread):
    """For all tests here."""


@pytest.fixture(scope="session")
def make_detector():
    """`make_detector({"head.pooling": "max"})`: small, on the CPU; the demo's recipe but for these fields."""

    def make(fields=None, net=None):
        small = {"backbone.weights": "none", "head.width": 16, "inference.scales": "64", "data.max_side": 150}
        small |= {"inference.parts": 0.0}  # more to compare
        recipe = load_recipe("demo", small | (fields or {}))
        torch.manual_seed(3)
        net = net or build_prediction_net(recipe, len(CLASSES))
        return Detector(net=_telling(net), recipe=recipe, classes=CLASSES, device="cpu")

    return make


@pytest.fixture(scope="session")
def detector(make_detector):
    """One with RoIAlign, for all tests."""
    return make_detector()


@pytest.fixture(scope="session")
def file(detector, tmp_path_factory):
    """What is made of it."""
    path = tmp_path_factory.mktemp("export") / "detector.onnx"
    write_onnx(path, detector, detector.settings())
    return path


def _telling(net):
    """A net that says something else of every proposal, however large or small its random features are."""
    with torch.no_grad():
        boxes = [torch.tensor([[0.0, 0, 60, 60], [10, 20, 50, 40], [0, 30, 90, 64]])]
        outputs = net.eval()(torch.rand(1, 3, 64, 96) * 255, boxes)
        net.predictor.scores.weight.mul_(2 / outputs.scores.std())
        net.predictor.offsets.weight.mul_(1 / outputs.offsets.std())
    return net


@pytest.fixture(scope="session")
def draw():
    """`draw(width, height, proposals=40)` → a picture of soft noise, and boxes in it as selective search has them."""
    return _draw


def _draw(width, height, proposals=40):
    rng = np.random.default_rng([width, height])
    coarse = torch.from_numpy(rng.uniform(0, 255, (1, 3, 9, 9)))
    pixels = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")[0]
    ends = np.sort(rng.random((proposals, 2, 2)), axis=1) * (width, height)
    boxes = np.concatenate([np.floor(ends[:, 0]), np.ceil(ends[:, 1])], axis=1)
    return pixels.permute(1, 2, 0).byte().numpy().copy(), boxes.astype(np.int16)
