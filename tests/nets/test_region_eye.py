"""A net in blocks: fixed ones that look at regions, and the last of them, which learns."""

import pytest
import torch
from torch import nn

from tag2box.errors import InputError
from tag2box.nets.architectures import parts_of
from tag2box.nets.region_eye import RegionEye, coarse_blocks, divided, maps_at, whole_net
from tag2box.nets.weights import initialise

NETS = {
    "efficientnet_lite0": (112, 320, 4),
    "mobilenet_v3_small": (48, 96, 4),
    "resnet18": (256, 512, 4),
}
"""Channels of the last blocks at strides 16 and 32, and cells a side of a region of 128 pixels before the last."""


@pytest.fixture(params=NETS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def net(name: str) -> nn.Sequential:
    torch.manual_seed(0)
    return whole_net(name, None).eval()


@torch.no_grad()
def test_its_blocks_are_the_net(name: str, net: nn.Sequential):
    parts = parts_of(name)
    assert parts.top is not None
    for part in (parts.body, parts.top):
        part.to_empty(device="cpu")
        initialise(part)
    own = [*parts.body.state_dict().values(), *parts.top.state_dict().values()]
    for mine, theirs in zip(own, net.state_dict().values(), strict=True):
        mine.copy_(theirs)
    picture = torch.randn(1, 3, 96, 64)
    torch.testing.assert_close(net(picture), parts.top.eval()(parts.body.eval()(picture)))


@torch.no_grad()
def test_what_is_fixed_and_what_learns_are_the_net_together(name: str, net: nn.Sequential):
    fixed, learning = divided(net)
    picture = torch.randn(2, 3, 128, 128)
    assert torch.equal(learning(fixed(picture)), net(picture))
    assert any(isinstance(one, nn.Conv2d) and one.kernel_size != (1, 1) for one in learning[0].modules())
    assert not any(isinstance(one, nn.Conv2d) and one.kernel_size != (1, 1) for one in learning[1:].modules())
    assert RegionEye(fixed, 128).cells == NETS[name][2]


@torch.no_grad()
def test_maps_at_the_two_coarsest_resolutions(name: str, net: nn.Sequential):
    """On any picture the same layers', also where it is too small for two resolutions."""
    places = coarse_blocks(net)
    fine, coarse, _ = NETS[name]
    assert [tuple(one.shape) for one in maps_at(net, places, torch.randn(1, 3, 128, 192))] == [
        (fine, 8, 12),
        (coarse, 4, 6),
    ]
    assert [one.shape[0] for one in maps_at(net, places, torch.randn(1, 3, 9, 9))] == [fine, coarse]
    blank = torch.randn(1, 3, 64, 64)
    assert torch.equal(maps_at(net, places, blank)[1], net[: places[1] + 1](blank)[0].half())


def test_it_sees_with_weights_as_a_file_has_them(net: nn.Sequential):
    eye = RegionEye(net, 64)
    assert all(torch.equal(one, one.half().float()) for one in eye.parameters() if one.dim() > 1)
    assert not any(one.requires_grad for one in eye.parameters())


def test_a_net_without_a_last_stage_cannot_look_at_regions():
    with pytest.raises(InputError, match="backbone vgg11: expected one with a last stage"):
        whole_net("vgg11", None)
