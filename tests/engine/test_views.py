"""What the nets are shown: boxes go with the picture, and kept features give what fresh ones give."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tag2box.engine.forward import prediction_outputs, warm_outputs
from tag2box.engine.views import padded


def colourful(pixels: torch.Tensor) -> torch.Tensor:
    """Where a picture is not grey [H, W]."""
    return (pixels.amax(0) - pixels.amin(0)) > 100


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("scale", [48, 96, 131])
def test_a_rectangle_stays_under_its_box(make_world, make_recipe, make_nets, tmp_path, scale, mirrored):
    world = make_world(tmp_path, tags=(("red",), ("blue",)))
    album = make_nets(world, make_recipe(data={"cache": False})).album
    for index in range(len(album)):
        view = album.view(index, scale, mirrored)
        assert min(view.size) == scale
        assert view.pixels.shape == (3, view.size[1], view.size[0])
        rows, columns = colourful(view.pixels).nonzero(as_tuple=True)
        found = torch.stack([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
        torch.testing.assert_close(view.boxes[0], found.float(), rtol=0, atol=0.03 * scale)  # resizing blurs the edge


def test_boxes_mirror_exactly(world, make_recipe, make_nets):
    album = make_nets(world, make_recipe(data={"cache": False})).album
    plain, mirrored = album.view(0, 96), album.view(0, 96, mirrored=True)
    width = plain.size[0]
    for one, other in zip(plain.boxes.tolist(), mirrored.boxes.tolist(), strict=True):
        assert other == pytest.approx([width - one[2], one[1], width - one[0], one[3]])
    assert torch.equal(mirrored.pixels, plain.pixels.flip(2))


def test_the_longest_side_is_bounded_and_boxes_go_with_it(world, make_recipe, make_nets):
    album = make_nets(world, make_recipe(data={"max_side": 80, "cache": False})).album
    view = album.view(1, 96)  # 50 × 70 pixels
    assert view.size == (57, 80)
    own = album.proposals(1)
    torch.testing.assert_close(view.boxes, own * torch.tensor([57 / 50, 80 / 70] * 2))


def test_tags_and_proposals_are_the_picture_s(world, make_recipe, make_nets):
    album = make_nets(world, make_recipe(data={"max_proposals": 5})).album
    for index, image in enumerate(world.dataset):
        view = album.view(index, 48)
        assert [name for name, there in zip(world.dataset.classes, view.tags, strict=True) if there] == [*image.tags]
        assert np.array_equal(album.proposals(index).numpy(), world.store[image.id][:5])  # the first, the likeliest
        assert len(view.boxes) == len(view.pooled) == 5


@pytest.mark.parametrize("number", [1, 2, 3, 7])
def test_drawn_proposals_are_the_first_half_and_others_in_their_order(world, make_recipe, make_nets, number):
    album = make_nets(world, make_recipe(data={"drawn_proposals": number, "cache": False})).album
    everything, seen = album.view(0, 48).boxes.tolist(), set()
    assert len(everything) > number
    for seed in range(30):
        boxes = album.view(0, 48, draw=torch.Generator().manual_seed(seed)).boxes.tolist()
        rows = [everything.index(box) for box in boxes]
        assert len(rows) == number
        assert rows == sorted(set(rows))
        assert rows[: -(-number // 2)] == list(range(-(-number // 2)))
        seen.update(rows)
    assert len(seen) == (1 if number == 1 else len(everything))


@pytest.mark.parametrize("among", [2, 5, 8, 1000])
def test_others_are_drawn_from_the_first_so_many(world, make_recipe, make_nets, among):
    data = {"drawn_proposals": 5, "drawn_among": among, "cache": False}
    album, seen = make_nets(world, make_recipe(data=data)).album, set()
    everything = album.view(0, 48).boxes.tolist()
    for seed in range(40):
        boxes = album.view(0, 48, draw=torch.Generator().manual_seed(seed)).boxes.tolist()
        assert len(boxes) == 5
        seen.update(everything.index(box) for box in boxes)
    assert seen == set(range(min(max(among, 5), len(everything))))


def test_as_many_proposals_are_drawn_as_there_are_tags(world, make_recipe, make_nets):
    album = make_nets(world, make_recipe(data={"drawn_proposals": 1, "cache": False})).album
    album.tags = torch.ones_like(album.tags)
    assert len(album.view(0, 48, draw=torch.Generator()).boxes) == album.tags.shape[1] > 1


@pytest.mark.parametrize("number", [0, 1000])
def test_all_proposals_where_none_are_to_be_drawn_or_there_are_fewer(world, make_recipe, make_nets, number):
    album = make_nets(world, make_recipe(data={"drawn_proposals": number, "cache": False})).album
    drawn = album.view(0, 48, draw=torch.Generator())
    assert torch.equal(drawn.boxes, album.view(0, 48).boxes)


CUT = {"backbone": {"name": "mobilenet_v3_small"}, "head": {"kind": "cut", "pixels": 32, "width": 16}}
HEADS = {
    "align": {"head": {"width": 16, "pooling": "align"}},
    "max": {"head": {"width": 16, "pooling": "max"}},
    "cut": CUT,
}


@pytest.mark.parametrize("kind", HEADS)
def test_of_kept_features_the_same_proposals_are_drawn(world, make_recipe, make_nets, kind):
    """With their own features where they are kept pooled."""
    recipe = make_recipe(data={"drawn_proposals": 4, "cache": True}, **HEADS[kind])
    album = make_nets(world, recipe).album
    everything = album.view(0, 48)
    kept = album.view(0, 48, draw=torch.Generator().manual_seed(3))
    fresh = album.view(0, 48, fresh=True, draw=torch.Generator().manual_seed(3))
    assert torch.equal(kept.boxes, fresh.boxes)
    assert len(kept.boxes) == 4 < len(everything.boxes)
    if kind != "max":
        rows = [everything.boxes.tolist().index(box) for box in kept.boxes.tolist()]
        assert torch.equal(kept.pooled, everything.pooled[rows])
    else:
        assert kept.map is everything.map


@pytest.mark.parametrize("kind", HEADS)
@torch.no_grad()
def test_kept_features_give_what_fresh_ones_give(world, make_recipe, make_nets, kind):
    """Up to half precision, in which they are kept: of a part in 2,000."""
    nets = make_nets(world, make_recipe(**HEADS[kind]))
    nets.album._kept = None
    fresh = [nets.album.view(index, 48, index % 2 == 0) for index in range(3)]
    nets.album._kept = {}
    kept = [nets.album.view(index, 48, index % 2 == 0) for index in range(3)]
    assert all((view.pooled is not None, view.map is not None) == (kind != "max", kind == "max") for view in kept)
    assert all(view.pixels is None for view in kept)
    for one, other in zip(fresh, kept, strict=True):
        assert one.grid == other.grid
        (a,), (b,) = (prediction_outputs(nets.prediction, [view]) for view in (one, other))
        torch.testing.assert_close(b.scores, a.scores, rtol=5e-3, atol=5e-3 * float(a.scores.abs().max()))
        c, d = (warm_outputs(nets.warm, [view]) for view in (one, other))
        torch.testing.assert_close(
            d.class_logits, c.class_logits, rtol=5e-3, atol=5e-3 * float(c.class_logits.abs().max())
        )


def test_features_are_computed_once_for_each_scale_and_side(world, make_recipe, make_nets, monkeypatch):
    album = make_nets(world, make_recipe(data={"scales": (48, 64)})).album
    runs = []
    features = album._trunk.features
    monkeypatch.setattr(album._trunk, "features", lambda pixels: runs.append(1) or features(pixels))
    for _ in range(3):
        assert album.view(0, 48).boxes[0, 2] != album.view(0, 64).boxes[0, 2]
        album.view(0, 48, mirrored=True)
    assert len(runs) == 3


def test_nothing_is_kept_of_a_trunk_that_learns(world, make_recipe, make_nets):
    view = make_nets(world, make_recipe(backbone={"frozen": "early"})).album.view(0, 48)
    assert view.pixels is not None
    assert view.pooled is view.map is None


def test_kept_features_do_not_depend_on_who_asks_first(world, make_recipe, make_nets):
    """An evaluation under autocast may be the first to look at a picture; after a resume it may not."""
    recipe = make_recipe()
    plain = make_nets(world, recipe).album.view(0, 48).pooled
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first_seen_there = make_nets(world, recipe).album.view(0, 48).pooled
    assert torch.equal(plain, first_seen_there)


@pytest.mark.parametrize("name", ["tiny", "vgg11", "resnet18"])
@pytest.mark.parametrize("size", [(64, 64), (65, 71), (79, 63)])
def test_the_grid_is_no_smaller_than_the_trunk_s_map(name, size, make_recipe):
    """It is where noise is drawn; VGG's pooling drops what does not fill a cell, others round up."""
    from tag2box.nets import build_trunk

    trunk = build_trunk(name, weights="none")
    height, width = trunk.features(torch.zeros(1, 3, size[1], size[0])).shape[2:]
    assert (-(-size[1] // trunk.stride) - height, -(-size[0] // trunk.stride) - width) >= (0, 0)


def test_padding_goes_to_the_right_and_below():
    small, large = torch.rand(3, 4, 6), torch.rand(3, 5, 3)
    batch = padded([small, large])
    assert batch.shape == (2, 3, 5, 6)
    assert torch.equal(batch[0, :, :4, :6], small)
    assert torch.equal(batch[1, :, :5, :3], large)
    assert batch.sum() == pytest.approx(float(small.sum() + large.sum()), rel=1e-5)


@torch.no_grad()
def test_padding_is_felt_at_the_border_only(make_world, make_recipe, make_nets, tmp_path):
    """A cell of `tiny` sees 43 pixels to each side: proposals as far from the padding as that do not know of it."""
    world = make_world(tmp_path, images=2, sizes=((240, 96), (320, 120)), proposals=30)
    nets = make_nets(world, make_recipe(data={"cache": False}))
    small, large = nets.album.view(0, 96), nets.album.view(1, 120)
    boxes = torch.tensor([[0.0, 0, 160, 40], [20, 10, 100, 44], [180, 40, 240, 96]])
    small = replace(small, boxes=boxes)
    (alone,), (beside, _) = (prediction_outputs(nets.prediction, views) for views in ([small], [small, large]))
    torch.testing.assert_close(beside.scores[:2], alone.scores[:2], rtol=1e-4, atol=1e-4)
    assert not torch.allclose(beside.scores[2], alone.scores[2], rtol=1e-3, atol=1e-3)  # black is not what is outside
