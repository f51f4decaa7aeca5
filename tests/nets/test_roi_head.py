"""RoI heads: pooling against slow loops, shapes, where the layers come from."""

import math

import pytest
import torch
from torch import Tensor, nn
from torchvision.ops import roi_align

from tag2box.errors import InputError
from tag2box.nets import build_head, build_trunk_and_head
from tag2box.nets.roi_head import ConvHead, CutHead, MlpHead

BOXES = torch.tensor([[0.0, 0, 64, 48], [8, 8, 40, 24], [30, 20, 31, 21], [50, 33, 96, 64]])


def _head(pooling: str, size: int = 2) -> MlpHead:
    return MlpHead(channels=3, width=8, stride=8, size=size, pooling=pooling)


def test_max_pooling_against_a_loop():
    features = torch.randn(3, 8, 12)
    pooled = _head("max", 7).pool(features[None], [BOXES])
    torch.testing.assert_close(pooled, torch.stack([_slow_max(features, box.tolist(), 7, 8) for box in BOXES]))


def _slow_max(features: Tensor, box: list[float], size: int, stride: int) -> Tensor:
    """Fast R-CNN's: corners rounded to cells, the last one counted in; a cell of the output is a maximum."""
    x0, y0, x1, y1 = (_round(side / stride) for side in (box[0], box[1], box[2] - 1, box[3] - 1))
    width, height = max(x1 - x0 + 1, 1), max(y1 - y0 + 1, 1)
    output = torch.zeros(len(features), size, size)
    for i in range(size):
        for j in range(size):
            rows = range(max(y0 + math.floor(i * height / size), 0), min(y0 + math.ceil((i + 1) * height / size), 8))
            columns = range(max(x0 + math.floor(j * width / size), 0), min(x0 + math.ceil((j + 1) * width / size), 12))
            cells = [features[:, y, x] for y in rows for x in columns]
            if cells:
                output[:, i, j] = torch.stack(cells).amax(0)
    return output


def _round(value: float) -> int:
    """Half away from zero, as C does."""
    return math.floor(value + 0.5)


def test_align_against_a_loop():
    features = torch.randn(3, 8, 12)
    pooled = _head("align").pool(features[None], [BOXES])
    torch.testing.assert_close(pooled, torch.stack([_slow_align(features, box.tolist(), 2, 8) for box in BOXES]))


def _slow_align(features: Tensor, box: list[float], size: int, stride: int) -> Tensor:
    """Two by two bilinear samples in each cell of the output, averaged; the centre of a map's cell is at its middle."""
    x0, y0, x1, y1 = (side / stride - 0.5 for side in box)
    output = torch.zeros(len(features), size, size)
    for i in range(size):
        for j in range(size):
            for a in (0.25, 0.75):
                for b in (0.25, 0.75):
                    y, x = y0 + (i + a) * (y1 - y0) / size, x0 + (j + b) * (x1 - x0) / size
                    output[:, i, j] += _bilinear(features, y, x) / 4
    return output


def _bilinear(features: Tensor, y: float, x: float) -> Tensor:
    height, width = features.shape[1:]
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    upper = (1 - (x - left)) * features[:, top, left] + (x - left) * features[:, top, right]
    lower = (1 - (x - left)) * features[:, bottom, left] + (x - left) * features[:, bottom, right]
    return (1 - (y - top)) * upper + (y - top) * lower


@pytest.mark.parametrize("pooling", ["max", "align"])
def test_proposals_of_several_images_come_image_after_image(pooling: str):
    features, head = torch.randn(2, 3, 8, 12), _head(pooling)
    both = head.pool(features, [BOXES[:1], BOXES[1:]])
    assert torch.equal(both[:1], head.pool(features[:1], [BOXES[:1]]))
    assert torch.equal(both[1:], head.pool(features[1:], [BOXES[1:]]))


KINDS = {  # head, cells a side, pooling, width of the vector
    "vgg11": (MlpHead, 7, "max", 32),
    "resnet18": (ConvHead, 14, "align", 512),
    "mobilenet_v3_small": (ConvHead, 14, "align", 576),
    "mobilenet_v3_large": (ConvHead, 14, "align", 960),
    "efficientnet_lite4": (ConvHead, 14, "align", 1280),
    "tiny": (MlpHead, 4, "align", 32),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_every_head_from_no_proposal_to_several(name: str, count: int):
    kind, size, pooling, dim = KINDS[name]
    trunk, head = build_trunk_and_head(name, weights="none", width=32)
    assert isinstance(head, kind)
    assert (head.size, head.pooling, head.dim) == (size, pooling, dim)
    pooled = head.pool(torch.randn(1, trunk.channels, 6, 8), [BOXES[:count]])
    assert pooled.shape == (count, trunk.channels, size, size)
    assert head(pooled).shape == (count, dim)
    with torch.no_grad():
        assert head(pooled).shape == (count, dim)


def test_the_defaults_of_the_paper():
    with torch.device("meta"):
        head = MlpHead(channels=512, width=4096, stride=16)
    assert (head.fc6.weight.shape, head.fc7.weight.shape) == ((4096, 25088), (4096, 4096))
    assert (head.size, head.pooling, head.dropout.p) == (7, "max", 0.5)


def test_fully_connected_layers_on_any_trunk():
    head = build_head("resnet18", weights="none", stride=16, kind="mlp", width=8)
    assert isinstance(head, MlpHead)
    assert head.fc6.in_features == 256 * 7 * 7


def test_vgg_has_no_convolutions_left_for_a_head():
    with pytest.raises(InputError, match="no stage after its trunk"):
        build_head("vgg11", weights="none", stride=16, kind="conv")


def test_a_conv_head_in_pieces_gives_the_same(monkeypatch: pytest.MonkeyPatch):
    _, head = build_trunk_and_head("mobilenet_v3_small", weights="none")
    pooled = torch.randn(7, 48, 14, 14)
    with_gradient = head.eval()(pooled)
    monkeypatch.setattr("tag2box.nets.roi_head.CHUNK_ON_CPU", 3)
    with torch.no_grad():
        torch.testing.assert_close(head(pooled), with_gradient)
    assert with_gradient.requires_grad


def test_fc6_by_weights_in_the_order_of_the_cells():
    head = MlpHead(channels=5, width=6, stride=16, size=3)
    pooled = torch.randn(9, 5, 3, 3).to(memory_format=torch.channels_last).requires_grad_()
    found, wanted = head.fc6_innermost(pooled), head.fc6(pooled.flatten(1))
    torch.testing.assert_close(found, wanted)
    inputs, factors = [pooled, *head.fc6.parameters()], torch.randn_like(wanted)
    ours, theirs = (torch.autograd.grad((one * factors).sum(), inputs) for one in (found, wanted))
    torch.testing.assert_close(ours, theirs)


# ---- regions cut out


@pytest.fixture
def cut() -> CutHead:
    torch.manual_seed(0)
    trunk, head = build_trunk_and_head("mobilenet_v3_small", weights="none", head="cut", pixels=32)
    assert trunk.frozen
    assert isinstance(head, CutHead)
    return head


def test_a_region_is_seen_as_the_net_sees_it_alone(cut: CutHead):
    """Of one colour, so that enlarging it changes nothing."""
    picture, other = (
        torch.randn(1, 3, 3, 4).repeat_interleave(32, dim=2).repeat_interleave(32, dim=3),
        torch.randn(1, 3, 96, 128),
    )
    square = other[:, :, 32:64, 64:96] = picture[:, :, 32:64, 64:96]
    inner = torch.tensor([[65.0, 33, 95, 63]])  # bilinear samples at the edge would see half of what is beside it
    found = cut.pool(picture, [inner])
    assert found.shape == (1, 96, 1, 1)
    assert torch.equal(cut.pool(other, [inner]), found)
    torch.testing.assert_close(found, cut.eye.net(square), rtol=1e-3, atol=1e-4)  # kept in half precision
    assert not torch.equal(cut.pool(picture, [inner + 8]), found)


def test_regions_of_several_pictures_come_picture_after_picture_and_in_pieces(cut: CutHead, monkeypatch):
    pictures = torch.randn(2, 3, 60, 90)
    boxes = [BOXES[:1], BOXES[:3] + 2]
    both = cut.pool(pictures, boxes)
    monkeypatch.setattr("tag2box.nets.region_eye.AT_ONCE_ON_CPU", 2)
    each = [cut.pool(picture[None], [own]) for picture, own in zip(pictures, boxes, strict=True)]
    torch.testing.assert_close(both, torch.cat(each), rtol=1e-3, atol=1e-4)
    assert cut.pool(pictures, [BOXES[:0], BOXES[:0]]).shape == (0, 96, 1, 1)


def test_what_looks_at_regions_never_learns_and_its_last_block_does(cut: CutHead):
    learning = {name for name, parameter in cut.named_parameters() if parameter.requires_grad}
    assert learning == {f"layers.{name}" for name, _ in cut.layers.named_parameters()} != set()
    picture, boxes = torch.randn(1, 3, 60, 90, requires_grad=True), [BOXES[:2]]
    pooled = cut.eval().pool(picture, boxes)
    assert not pooled.requires_grad
    assert torch.equal(cut.train().pool(picture, boxes), pooled)  # nothing of it depends on the mode


def test_noise_where_regions_are_cut_out_has_cells_of_sixteen_pixels(cut: CutHead):
    assert cut.cells(torch.zeros(2, 3, 96, 130)).shape == (2, 3, 6, 9)
    constant = torch.full((2, 1, 6, 9), 0.3)
    pooled = cut.pool_noise(constant, [BOXES[:2], BOXES[:1]])
    assert pooled.shape == (3, 1, 1, 1)
    torch.testing.assert_close(pooled, torch.full_like(pooled, 0.3))


def test_before_it_learns_it_gives_what_the_whole_net_gives():
    """Up to half precision, to which what is fixed is rounded."""
    torch.manual_seed(0)
    head = build_head("mobilenet_v3_small", weights="none", stride=1, kind="cut", pixels=64).eval()
    assert isinstance(head, CutHead)
    picture, box = torch.randn(1, 3, 70, 70), torch.tensor([[2.0, 3, 66, 67]])
    region = roi_align(picture, [box], 64, sampling_ratio=2, aligned=True)
    whole = nn.Sequential(*head.eye.net, *head.layers)
    with torch.no_grad():
        found, wanted = head(head.pool(picture, [box])), whole(region).mean((2, 3))
    assert found.shape == (1, head.dim) == (1, 576)
    torch.testing.assert_close(found, wanted, rtol=0.01, atol=0.01)
