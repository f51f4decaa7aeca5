"""Trunks by name: shapes, strides, what is frozen, normalisation."""

import pytest
import torch
from torch import nn
from torchvision.models import get_model

from tag2box.errors import InputError
from tag2box.nets import TRUNKS, Trunk, build_trunk
from tag2box.nets.architectures import freeze_batch_norm

IMAGES = torch.randint(0, 256, (1, 3, 64, 96), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
EARLY = {  # the last tensor that stays fixed and the first that learns
    "vgg11": ("3.weight", "6.weight"),
    "vgg16": ("7.weight", "10.weight"),
    "vgg16_bn": ("10.weight", "14.weight"),
    "resnet18": ("layer1.1.conv2.weight", "layer2.0.conv1.weight"),
    "mobilenet_v3_small": ("1.block.2.0.weight", "2.block.0.0.weight"),
    "mobilenet_v3_large": ("3.block.2.0.weight", "4.block.0.0.weight"),
    "efficientnet_lite0": ("blocks.1.2.weight", "blocks.2.0.weight"),
    "efficientnet_lite4": ("blocks.3.2.weight", "blocks.4.0.weight"),
    "tiny": ("at4.0.weight", "down8.0.weight"),
}


@pytest.mark.parametrize("name", TRUNKS)
def test_every_trunk_has_the_stride_and_channels_it_says(name: str):
    trunk = build_trunk(name, weights="none")
    with torch.no_grad():
        features = trunk.features(IMAGES)
    assert features.shape == (1, trunk.channels, 64 // trunk.stride, 96 // trunk.stride)
    assert features.isfinite().all()
    assert trunk.stride == (8 if name == "tiny" else 16)
    assert not any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in trunk.modules())


@pytest.mark.parametrize("name", ["vgg11", "vgg11_bn", "mobilenet_v3_small", "efficientnet_lite4"])
def test_dilated_trunks_have_stride_8(name: str):
    trunk = build_trunk(name, weights="none", dilated=True)
    with torch.no_grad():
        assert trunk.features(IMAGES).shape == (1, trunk.channels, 8, 12)
    assert trunk.stride == 8


def test_every_second_cell_of_a_dilated_map_is_a_cell_of_the_plain_one():
    """Away from the border; and not for VGG, which loses a pooling, nor MobileNet, which averages over the map."""
    plain, dilated = (_seeded("resnet18", dilated=flag) for flag in (False, True))
    images = torch.randint(0, 256, (1, 3, 288, 288), dtype=torch.uint8)
    with torch.no_grad():
        coarse, fine = plain.features(images), dilated.features(images)[:, :, ::2, ::2]
    torch.testing.assert_close(fine[:, :, 8:10, 8:10], coarse[:, :, 8:10, 8:10], rtol=1e-3, atol=1e-3)


def _seeded(name: str, **options: bool) -> Trunk:
    torch.manual_seed(0)
    return build_trunk(name, weights="none", **options)


def test_a_trunk_of_stride_8_has_nothing_to_dilate():
    with pytest.raises(InputError, match="its stride is 8 as it is"):
        build_trunk("tiny", weights="none", dilated=True)


def test_an_unknown_name_is_answered_with_a_suggestion():
    with pytest.raises(InputError, match="did you mean 'vgg16'"):
        build_trunk("vg16", weights="none")


@pytest.mark.parametrize("name", EARLY)
def test_early_layers_stay_fixed_by_default(name: str):
    trunk = build_trunk(name, weights="none")
    learns = [parameter.requires_grad for parameter in trunk.body.parameters()]
    assert learns == sorted(learns)  # all that are fixed come first
    last, first = (trunk.body.get_parameter(key) for key in EARLY[name])
    assert (last.requires_grad, first.requires_grad) == (False, True)


@pytest.mark.parametrize(("frozen", "whole"), [("all", True), ("none", False), ("early", False)])
def test_frozen(frozen: str, whole: bool):
    trunk = build_trunk("tiny", weights="none", frozen=frozen)
    assert trunk.frozen == whole
    learns = {parameter.requires_grad for parameter in trunk.parameters()}
    assert learns == {"all": {False}, "none": {True}, "early": {False, True}}[frozen]


def test_gradients_reach_what_learns_and_nothing_else():
    trunk = build_trunk("tiny", weights="none")
    trunk.features(IMAGES).sum().backward()
    for name, parameter in trunk.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, name


def test_images_are_normalised_inside_and_may_be_bytes_or_floats():
    trunk = build_trunk("tiny", weights="none")
    trunk.body = nn.Identity()
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    by_hand = (IMAGES / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    torch.testing.assert_close(trunk.features(IMAGES), by_hand, rtol=1e-4, atol=1e-5)
    assert torch.equal(trunk.features(IMAGES), trunk.features(IMAGES.float()))


@pytest.mark.parametrize(("name", "cut"), [("vgg11_bn", 28), ("mobilenet_v3_small", 9)])
def test_the_trunk_is_the_front_of_torchvision_s_net(name: str, cut: int):
    with torch.device("meta"):  # nobody needs its classifier
        front = get_model(name, weights=None).features[:cut].eval()
    freeze_batch_norm(front)
    trunk = build_trunk(name, weights="none")
    front.load_state_dict(trunk.body.state_dict(), assign=True)
    normal = (IMAGES.float() - trunk.mean) / trunk.std
    with torch.no_grad():
        assert torch.equal(trunk.features(IMAGES), front(normal))


def test_training_mode_changes_nothing_and_statistics_stay():
    trunk = build_trunk("resnet18", weights="none")
    with torch.no_grad():
        before = trunk.eval().features(IMAGES)
        after = trunk.train().features(IMAGES)
    assert torch.equal(before, after)


def test_half_precision_by_autocast():
    trunk = build_trunk("tiny", weights="none")
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        features = trunk.features(IMAGES)
    assert features.dtype == torch.bfloat16
    torch.testing.assert_close(features.float(), trunk.features(IMAGES).detach(), rtol=0.1, atol=0.1)
