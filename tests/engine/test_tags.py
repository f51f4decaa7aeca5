"""Learning the tags: the loss against a loop, the crops, and that only what shall learn does."""

import math
from dataclasses import replace

import pytest
import torch

from tag2box.engine.plan import generator_for
from tag2box.engine.tags import CROPS, LEAST_AREA, MOST_ODD, TagStep, regions, tags_loss


@pytest.mark.parametrize("count", [1, 4])
def test_the_loss_against_a_loop(count):
    logits = 3 * torch.randn(count, 3, generator=torch.Generator().manual_seed(0))
    tags, loss = torch.tensor([True, False, True]), 0.0
    for c in range(3):
        whole = math.log(sum(math.exp(logits[r, c]) for r in range(count)) / count)
        probability = 1 / (1 + math.exp(-whole))
        loss -= math.log(probability if tags[c] else 1 - probability)
    assert tags_loss(logits, tags).item() == pytest.approx(loss, rel=1e-5)


def test_of_one_region_it_is_plain_cross_entropy():
    logits, tags = torch.tensor([[2.0, -1.0]]), torch.tensor([True, False])
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits[0], tags.float(), reduction="sum")
    torch.testing.assert_close(tags_loss(logits, tags), expected)


def test_a_region_without_the_object_is_not_made_to_show_it():
    logits = torch.tensor([[12.0], [-12.0]], requires_grad=True)
    loss = tags_loss(logits, torch.tensor([True]))
    loss.backward()
    assert loss < 1e-3
    assert logits.grad.abs().max() < 1e-3
    low = torch.zeros(2, 1, requires_grad=True)
    tags_loss(low, torch.tensor([True])).backward()
    assert (low.grad < 0).all()  # all learn while none is sure


def test_large_logits_stay_finite():
    for value in (1e4, -1e4):
        assert tags_loss(torch.full((4, 2), value), torch.tensor([True, False])).isfinite()


def test_half_precision():
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert tags_loss(logits, torch.tensor([True, False, True])).dtype == torch.float32


@pytest.mark.parametrize("size", [(640, 480), (333, 500), (7, 900)])
def test_regions_are_the_whole_and_large_crops(size):
    shares = []
    for number in range(300):
        whole, *crops = regions(size, generator_for(number)).tolist()
        assert whole == [0, 0, *size]
        assert len(crops) == CROPS
        for x0, y0, x1, y1 in crops:
            width, height = (x1 - x0) / size[0], (y1 - y0) / size[1]
            assert -1e-3 <= x0 < x1 <= size[0] * (1 + 1e-6)
            assert -1e-3 <= y0 < y1 <= size[1] * (1 + 1e-6)
            assert 1 / MOST_ODD - 1e-4 <= width / height <= MOST_ODD + 1e-4
            shares.append(width * height)
    assert min(shares) >= LEAST_AREA - 1e-4
    assert LEAST_AREA < min(shares) < LEAST_AREA + 0.02
    assert max(shares) > 0.98
    assert sum(shares) / len(shares) == pytest.approx((1 + LEAST_AREA) / 2, abs=0.03)


def test_regions_follow_from_the_place_in_the_run():
    one, again, other = (regions((90, 60), generator_for(*place)) for place in ((1, 2), (1, 2), (1, 3)))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@pytest.fixture
def nets(world, make_recipe, make_nets):
    return make_nets(world, make_recipe(backbone={"frozen": "early"}, data={"cache": False}))


def regions_of(views):
    return [regions(view.size, generator_for(number)) for number, view in enumerate(views)]


def test_the_step_is_the_mean_of_the_pictures_and_pools_as_proposals_are(nets):
    views = [nets.album.view(index, 48) for index in (0, 3)]  # both 64 × 48
    boxes = regions_of(views)
    loss, logs = TagStep(nets.warm)(views, boxes)
    total = 0.0
    for view, own in zip(views, boxes, strict=True):
        outputs = nets.warm(view.pixels[None], [own])
        total += tags_loss(outputs.class_logits, view.tags).item() / 2
    assert loss.item() == pytest.approx(total, rel=1e-4)
    assert logs["loss_tags"].item() == loss.item()


def test_what_does_not_learn_is_no_part_of_it(nets):
    step = TagStep(nets.warm)
    views = [nets.album.view(index, 48) for index in (0, 1)]
    step(views, regions_of(views))[0].backward()
    for name, parameter in step.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, name  # or several processes would wait for it
    for name in ("detection", "refinements", "regression"):
        assert all(parameter.grad is None for parameter in getattr(nets.warm.mil, name).parameters())


def test_a_picture_without_tags(nets):
    view = nets.album.view(0, 48)
    view = replace(view, tags=torch.zeros_like(view.tags))
    loss, _ = TagStep(nets.warm)([view], regions_of([view]))
    assert loss.isfinite()
