"""Nets on views: several at once give what each gives alone, whatever a view holds."""

import pytest
import torch

from tag2box.engine.forward import conditional_outputs, noise_for, prediction_outputs, warm_outputs
from tag2box.engine.plan import generator_for
from tag2box.nets.conditional import draw_noise

KINDS = {
    "pixels": ({"frozen": "early"}, {"pooling": "align"}),
    "map": ({"frozen": "all"}, {"pooling": "max"}),
    "pooled": ({"frozen": "all"}, {"pooling": "align"}),
    "pooled, cut out": ({"name": "mobilenet_v3_small"}, {"kind": "cut", "pixels": 32}),
    "pixels, cut out": ({"name": "mobilenet_v3_small"}, {"kind": "cut", "pixels": 32}),
}


@pytest.fixture
def equal_sizes(make_world, tmp_path):
    """Pictures of one size need no padding, but they do not have equally many proposals."""
    return make_world(tmp_path, images=3, sizes=((64, 48),), proposals=(12, 1, 7))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_batch_equals_one_by_one(equal_sizes, make_recipe, make_nets, kind):
    backbone, head = KINDS[kind]
    nets = make_nets(equal_sizes, make_recipe(backbone=backbone, head=head))
    views = [nets.album.view(index, 48, index == 1, fresh=kind.startswith("pixels")) for index in range(3)]
    assert all(getattr(view, kind.split(",")[0]) is not None for view in views)
    noise = noise_for(views, 4, generator_for(0))
    together = (
        warm_outputs(nets.warm, views).split([len(view.boxes) for view in views]),
        prediction_outputs(nets.prediction, views),
        conditional_outputs(nets.conditional, views, noise),
    )
    for number, view in enumerate(views):
        warm, (prediction,) = warm_outputs(nets.warm, [view]), prediction_outputs(nets.prediction, [view])
        (conditional,) = conditional_outputs(nets.conditional, [view], noise[:, number : number + 1])
        for a, b in zip(
            (*together[0][number].refined, together[0][number].offsets), (*warm.refined, warm.offsets), strict=True
        ):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
        for outputs, alone in ((together[1][number], prediction), (together[2][number], conditional)):
            torch.testing.assert_close(outputs.scores, alone.scores, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(outputs.offsets, alone.offsets, rtol=1e-4, atol=1e-4)
        assert conditional.scores.shape == (4, len(view.boxes), 4)
        assert conditional.offsets.shape == (4, len(view.boxes), 4, 4)


@pytest.mark.parametrize("kind", ["map", "pooled"])
@torch.no_grad()
def test_kept_views_of_different_sizes(world, make_recipe, make_nets, kind):
    """What was kept does not change beside a larger picture; the map is padded where no proposal reaches."""
    backbone, head = KINDS[kind]
    nets = make_nets(world, make_recipe(backbone=backbone, head=head))
    views = [nets.album.view(index, 48) for index in range(3)]
    assert len({view.grid for view in views}) > 1
    for outputs, view in zip(prediction_outputs(nets.prediction, views), views, strict=True):
        (alone,) = prediction_outputs(nets.prediction, [view])
        torch.testing.assert_close(outputs.scores, alone.scores, rtol=1e-4, atol=1e-4)
    shapes = [
        one.scores.shape for one in conditional_outputs(nets.conditional, views, noise_for(views, 2, generator_for(0)))
    ]
    assert shapes == [(2, len(view.boxes), 4) for view in views]


def test_noise_has_the_map_s_resolution(world, make_recipe, make_nets):
    nets = make_nets(world, make_recipe())
    views = [nets.album.view(index, 48) for index in range(3)]
    noise = noise_for(views, 5, generator_for(0))
    features = torch.zeros(3, 1, max(view.grid[0] for view in views), max(view.grid[1] for view in views))
    assert noise.shape == draw_noise(features, 5).shape
    assert -0.5 <= noise.min() < -0.4
    assert 0.4 < noise.max() < 0.5
    assert torch.equal(noise, noise_for(views, 5, generator_for(0)))
    assert not torch.equal(noise, noise_for(views, 5, generator_for(1)))


@torch.no_grad()
def test_no_samples_means_no_noise(world, make_recipe, make_nets):
    """PW_c: one field of zeros, under which the conditional net gives what it was made from."""
    nets = make_nets(world, make_recipe())
    views = [nets.album.view(index, 48) for index in range(2)]
    noise = noise_for(views, 0, generator_for(0))
    assert noise.shape[:3] == (1, 2, 1)
    assert not noise.any()
    silent, warm = conditional_outputs(nets.conditional, views, noise), warm_outputs(nets.warm, views)
    warm = warm.split([len(view.boxes) for view in views])
    for one, other in zip(silent, warm, strict=True):
        torch.testing.assert_close(one.scores[0], other.refined[-1], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", ["vgg11", "resnet18", "tiny"])
@pytest.mark.parametrize("pooling", ["max", "align"])
@torch.no_grad()
def test_sizes_that_no_stride_divides(make_world, make_recipe, make_nets, tmp_path, name, pooling):
    """VGG's maps round down, others' up: the noise fits either."""
    world = make_world(tmp_path, images=2, sizes=((65, 71), (79, 63)), proposals=4)
    recipe = make_recipe(
        backbone={"name": name, "frozen": "early"}, head={"pooling": pooling, "kind": "mlp", "size": 2}
    )
    nets = make_nets(world, recipe)
    views = [nets.album.view(0, 65), nets.album.view(1, 63)]
    outputs = conditional_outputs(nets.conditional, views, noise_for(views, 2, generator_for(0)))
    assert [one.scores.shape for one in outputs] == [(2, 4, 4)] * 2
