"""The conditional net: K samples at once against the convolution written out, one sample at a time."""

import pytest
import torch
from torch import Tensor

from tag2box.errors import InputError
from tag2box.nets import ConditionalNet, Outputs, PredictionNet, RoIHead, Trunk, build_trunk_and_head, draw_noise
from tag2box.nets.roi_head import CutHead

IMAGES = torch.randint(0, 256, (2, 3, 48, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
BOXES = [torch.tensor([[0.0, 0, 64, 48], [8, 8, 40, 24], [30, 20, 50, 47]]), torch.tensor([[5.0, 5, 30, 40]])]
# Both heads, both poolings, and a net that looks at regions cut out.
KINDS = [("tiny", "align"), ("tiny", "max"), ("mobilenet_v3_small", "align"), ("mobilenet_v3_small", "cut")]
every_kind = pytest.mark.parametrize(("name", "pooling"), KINDS)


def _net(name: str = "tiny", pooling: str = "align", frozen: str = "early") -> ConditionalNet:
    torch.manual_seed(0)
    trunk, head = _trunk_and_head(name, pooling, frozen)
    net = ConditionalNet(trunk=trunk, head=head, classes=3, noise_spread=1.0).eval()
    with torch.no_grad():
        net.mix.weight += 0.1 * torch.randn_like(net.mix.weight)  # no longer the identity
        net.predictor.scores.weight.normal_()
    return net


def _trunk_and_head(name: str, pooling: str, frozen: str = "early") -> tuple[Trunk, RoIHead]:
    if pooling == "cut":
        return build_trunk_and_head(name, weights="none", head="cut", pixels=32)
    return build_trunk_and_head(name, weights="none", pooling=pooling, frozen=frozen, width=16)


def _slow(net: ConditionalNet, noise: Tensor) -> Outputs:
    """The paper's words: for each sample, noise beside conv5, a 1×1 convolution, RoI pooling, and the head.

    Where regions are cut out: the field's mean at four points of a region beside the region's vector.
    """
    features = net.trunk.features(IMAGES)
    outputs = []
    for field in noise:
        if isinstance(net.head, CutHead):
            values = [_four_points(own[0], box) for own, rows in zip(field, BOXES, strict=True) for box in rows]
            beside = torch.stack(values)[:, None, None, None]
            mixed = net.mix(torch.cat([net.head.pool(features, BOXES), beside], dim=1))  # [ΣB, C' + 1, 1, 1]
            outputs.append(net.predictor(net.head(mixed)))
            continue
        mixed = net.mix(torch.cat([features, field], dim=1))  # [N, C' + 1, h, w] → [N, C', h, w]
        outputs.append(net.predictor(net.head(net.head.pool(mixed, BOXES))))
    return Outputs(*(torch.stack(samples) for samples in zip(*outputs, strict=True)))


def _four_points(field: Tensor, box: Tensor) -> Tensor:
    """The mean of a field [h, w] of cells of 16 pixels at a quarter and three quarters of a box's sides."""
    x0, y0, x1, y1 = (side / 16 - 0.5 for side in box.tolist())
    found = []
    for a in (0.25, 0.75):
        for b in (0.25, 0.75):
            y = min(max(y0 + a * (y1 - y0), 0), len(field) - 1)
            x = min(max(x0 + b * (x1 - x0), 0), field.shape[1] - 1)
            top, left = int(y), int(x)
            bottom, right = min(top + 1, len(field) - 1), min(left + 1, field.shape[1] - 1)
            upper = (1 - x + left) * field[top, left] + (x - left) * field[top, right]
            lower = (1 - x + left) * field[bottom, left] + (x - left) * field[bottom, right]
            found.append((1 - y + top) * upper + (y - top) * lower)
    return torch.stack(found).mean()


def _noise(net: ConditionalNet, samples: int = 3) -> Tensor:
    return draw_noise(net.head.cells(net.trunk.features(IMAGES)), samples, torch.Generator().manual_seed(1))


def _assert_same(one: Outputs, other: Outputs) -> None:
    assert one.scores.shape == other.scores.shape
    torch.testing.assert_close(one.scores, other.scores, rtol=1e-3, atol=1e-3 * one.scores.abs().max().item())
    torch.testing.assert_close(one.offsets, other.offsets, rtol=1e-3, atol=1e-3 * one.offsets.abs().max().item())


@every_kind
@torch.no_grad()
def test_samples_in_one_batch_equal_the_convolution_written_out(name: str, pooling: str):
    net = _net(name, pooling)
    noise = _noise(net)
    outputs = net(IMAGES, BOXES, noise=noise)
    assert outputs.scores.shape == (3, 4, 4)
    assert outputs.offsets.shape == (3, 4, 4, 4)
    _assert_same(outputs, _slow(net, noise))
    assert (outputs.scores[0] - outputs.scores[1]).abs().max() > 1e-2 * outputs.scores.abs().max()  # the noise matters


@every_kind
def test_gradients_equal_those_of_the_convolution_written_out(name: str, pooling: str):
    net = _net(name, pooling)
    noise = _noise(net)
    gradients = []
    for outputs in (net(IMAGES, BOXES, noise=noise), _slow(net, noise)):
        net.zero_grad()
        (outputs.scores.square().mean() + outputs.offsets.mean()).backward()
        gradients.append({key: p.grad.clone() for key, p in net.named_parameters() if p.grad is not None})
    fast, slow = gradients
    assert fast.keys() == slow.keys() == {key for key, p in net.named_parameters() if p.requires_grad}
    for key in fast:
        scale = slow[key].abs().max().item()
        torch.testing.assert_close(fast[key], slow[key], rtol=1e-2, atol=2e-3 * scale + 1e-7, msg=key)


@every_kind
@torch.no_grad()
def test_a_batch_of_samples_equals_a_pass_for_each(name: str, pooling: str):
    net = _net(name, pooling)
    noise = _noise(net)
    one_by_one = [net(IMAGES, BOXES, noise=noise[k : k + 1]) for k in range(len(noise))]
    joined = Outputs(*(torch.cat(samples) for samples in zip(*one_by_one, strict=True)))
    _assert_same(net(IMAGES, BOXES, noise=noise), joined)


@pytest.mark.parametrize(("name", "pooling"), [kind for kind in KINDS if kind[1] != "max"])
@pytest.mark.parametrize("times", [1, 10])  # proposals fewer than fc6's 16 outputs, and more
def test_cached_pooled_features_give_the_same(name: str, pooling: str, times: int):
    net, boxes = _net(name, pooling, frozen="all"), [rows.repeat(times, 1) for rows in BOXES]
    noise, features = _noise(net), net.trunk.features(IMAGES)
    cached = net.from_pooled(net.head.pool(features, boxes), net.pool_noise(noise, boxes))
    wanted = net.from_features(features, boxes, noise=noise)
    _assert_same(cached, wanted)
    learning = [parameter for parameter in net.parameters() if parameter.requires_grad]
    gradients = (
        torch.autograd.grad(outputs.scores.square().mean(), learning, allow_unused=True) for outputs in (cached, wanted)
    )
    for one, other in zip(*gradients, strict=True):
        if other is not None:  # the regression's
            torch.testing.assert_close(one, other, rtol=1e-2, atol=2e-3 * other.abs().max().item() + 1e-7)


@torch.no_grad()
def test_cached_features_are_exact_beyond_the_border_too():
    """RoIAlign counts samples far outside the map as 0; the 1×1 convolution has no bias that could tell."""
    net = _net()
    noise, features, boxes = _noise(net), net.trunk.features(IMAGES), [torch.tensor([[-40.0, -40, 130, 99]])] * 2
    outputs = net.from_pooled(net.head.pool(features, boxes), net.pool_noise(noise, boxes))
    _assert_same(outputs, net.from_features(features, boxes, noise=noise))


def test_max_pooling_is_not_linear_and_refused():
    net = _net(pooling="max")
    with pytest.raises(InputError, match=r"expected --head\.pooling align, found max"):
        net.from_pooled(torch.zeros(1, 128, 4, 4), torch.zeros(1, 1, 1, 4, 4))


@every_kind
@torch.no_grad()
def test_zero_noise_is_the_prediction_net_at_first(name: str, pooling: str):
    trunk, head = _trunk_and_head(name, pooling)
    prediction = PredictionNet(trunk=trunk, head=head, classes=3).eval()
    conditional = ConditionalNet(trunk=trunk, head=head, classes=3).eval()
    conditional.predictor = prediction.predictor
    outputs, wanted = conditional(IMAGES, BOXES, samples=0), prediction(IMAGES, BOXES)
    assert outputs.scores.shape == (1, 4, 4)
    torch.testing.assert_close(outputs.scores[0], wanted.scores, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(outputs.offsets[0], wanted.offsets, rtol=1e-4, atol=1e-5)


def test_noise_is_uniform_and_repeatable():
    features = torch.zeros(2, 8, 30, 40)
    one, same, other = (draw_noise(features, 5, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert one.shape == (5, 2, 1, 30, 40)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert -0.5 <= one.min() < -0.49 < 0.49 < one.max() < 0.5
    assert one.mean().item() == pytest.approx(0, abs=0.01)
    assert one.var().item() == pytest.approx(1 / 12, rel=0.02)


@torch.no_grad()
def test_a_generator_gives_the_same_samples_again():
    net = _net()
    one, same = (net(IMAGES, BOXES, samples=2, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one.scores, same.scores)


def test_the_spread_of_the_noise_follows_the_maps():
    trunk, head = build_trunk_and_head("tiny", weights="none", width=16)
    net = ConditionalNet(trunk=trunk, head=head, classes=3, noise_spread=0.1)
    before = net.mix.weight.detach().clone()
    features = 7 * torch.randn(1, 128, 6, 8)
    net.scale_noise(features)
    torch.testing.assert_close(net.mix.weight[:, -1], before[:, -1] * features.std())
    assert torch.equal(net.mix.weight[:, :-1], before[:, :-1])
    assert torch.equal(before[:, :-1, 0, 0], torch.eye(128))


@every_kind
@pytest.mark.parametrize("counts", [(0, 0), (0, 1), (1, 0)])
def test_none_or_one_proposal(name: str, pooling: str, counts: tuple[int, int]):
    boxes = [rows[:count] for rows, count in zip(BOXES, counts, strict=True)]
    outputs = _net(name, pooling)(IMAGES, boxes, samples=2)
    assert outputs.scores.shape == (2, sum(counts), 4)
    assert outputs.offsets.shape == (2, sum(counts), 4, 4)


@every_kind
def test_half_precision_by_autocast(name: str, pooling: str):
    net = _net(name, pooling)
    noise = _noise(net)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = net(IMAGES, BOXES, noise=noise).scores
        half.sum().backward()
    full = net(IMAGES, BOXES, noise=noise).scores
    torch.testing.assert_close(half.float(), full, rtol=0.1, atol=0.1 * full.abs().max().item())
    assert net.mix.weight.grad.dtype == torch.float32


def test_a_frozen_trunk_still_lets_the_noise_learn():
    net = _net(frozen="all")
    net(IMAGES, BOXES, samples=2).scores.sum().backward()
    assert net.mix.weight.grad[:, -1].any()
    assert all(parameter.grad is None for parameter in net.trunk.parameters())
