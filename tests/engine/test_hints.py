"""Hints: learnt from tags on fixed vectors, and where they go in a run."""

import math

import pytest
import torch

from tag2box.engine.hints import SHARPNESS, RegionNet, Scale, find_places, with_sureness
from tag2box.engine.loop import Run
from tag2box.engine.steps import with_promise
from tag2box.engine.teacher import Looks
from tag2box.mil import Bags, Hints, mil_losses, refinement_loss, refinement_targets, wsddn_scores
from tag2box.nets.mil import MilOutputs
from tag2box.overlap import pair_iou
from tag2box.remembered import load_places, recall_of

TEACHER = {"name": "mobilenet_v3_small", "weights": "none", "epochs": 0, "regions": 6, "size": 32, "hint_epochs": 1}
CPU = torch.device("cpu")


def planted(pictures: int, seed: int = 0):
    """Pictures with one object each; a region's vector shows a class by how much of the region the object is.

    Wherever on the object the region is: a part of it looks like all of it.
    """
    generator = torch.Generator().manual_seed(seed)
    tags = torch.zeros(pictures, 3, dtype=torch.bool)
    regions, boxes, wholes, objects = [], [], [], []
    signs = torch.randn(3, 12, generator=generator)
    for index in range(pictures):
        label = index % 3
        tags[index, label] = True
        low = 40 * torch.rand(2, generator=generator)
        thing = torch.cat([low, low + 25 + 30 * torch.rand(2, generator=generator)])
        start, size = 80 * torch.rand(60, 2, generator=generator), 8 + 50 * torch.rand(60, 2, generator=generator)
        own = torch.cat([thing[None], torch.cat([start, (start + size).clamp(max=100)], 1)])
        large = torch.tensor([[0.0, 0, 100, 100], [0, 0, 90, 90], [10, 10, 100, 100]])

        def seen(rows, thing=thing, label=label):
            low, high = torch.maximum(rows[:, :2], thing[:2]), torch.minimum(rows[:, 2:], thing[2:])
            share = (high - low).clamp(min=0).prod(1) / (rows[:, 2:] - rows[:, :2]).prod(1)
            noise = 0.3 * torch.randn(len(rows), 12, generator=generator)
            return (share[:, None].sqrt() * signs[label] + noise).half()

        regions.append(seen(own))
        wholes.append(seen(large))
        boxes.append(own)
        objects.append(thing)
    return Looks(regions, torch.stack(wholes), [[]] * pictures), boxes, tags, torch.stack(objects)


def test_the_planted_objects_are_found_from_tags_alone():
    looks, boxes, tags, objects = planted(96)
    hints = find_places(looks, boxes, tags, epochs=30, seed=0, device=CPU)
    overlaps = [
        pair_iou(own[hint[:, label].argmax()][None].float(), thing[None]).item()
        for own, hint, label, thing in zip(boxes, hints, tags.int().argmax(1), objects, strict=True)
    ]
    assert sum(overlap >= 0.5 for overlap in overlaps) > 80
    assert all(hint.shape == (61, 3) and hint.abs().max() <= 1 for hint in hints)


def test_the_same_seed_gives_the_same_hints():
    looks, boxes, tags, _ = planted(6)
    one, same, other = (find_places(looks, boxes, tags, epochs=2, seed=seed, device=CPU) for seed in (0, 0, 1))
    assert all(map(torch.equal, one, same))
    assert not all(map(torch.equal, one, other))


def test_what_pictures_have_in_common_weighs_as_it_is_told(monkeypatch):
    looks, boxes, tags, _ = planted(6)
    looks = looks._replace(maps=[[torch.zeros(1, 2, 2), torch.ones(1, 2, 2)]] * 6)
    said = [[torch.full((61, 3), value)] * 6 for value in (0.2, 0.8)]
    monkeypatch.setattr(
        "tag2box.engine.hints.common_in", lambda maps, *rest: said[int(maps[0].max())] if rest[1] == "sizes" else None
    )
    how = {"epochs": 1, "seed": 0, "device": CPU}
    alone = find_places(looks, boxes, tags, **how)
    both = find_places(looks, boxes, tags, sizes="sizes", common=0.5, **how)
    for one, other in zip(alone, both, strict=True):
        torch.testing.assert_close(other.float(), (one.float() + 0.5 * 0.2 + 0.5 * 0.8) / 2, atol=1e-3, rtol=0)


def test_a_picture_without_regions_has_no_hints():
    looks, boxes, tags, _ = planted(4)
    looks = looks._replace(proposals=[looks.proposals[0][:0], *looks.proposals[1:]])
    hints = find_places(looks, [boxes[0][:0], *boxes[1:]], tags, epochs=1, seed=0, device=CPU)
    assert [len(own) for own in hints] == [0, 61, 61, 61]


def test_vectors_are_scaled_by_what_whole_pictures_show():
    wholes = 5 + 3 * torch.randn(20, 4, 7, generator=torch.Generator().manual_seed(0))
    scaled = Scale(wholes)(wholes).flatten(0, 1)
    torch.testing.assert_close(scaled.mean(0), torch.zeros(7), atol=1e-4, rtol=0)
    torch.testing.assert_close(scaled.std(0), torch.ones(7), atol=1e-2, rtol=0)
    assert RegionNet(Scale(wholes), 7, 3)(wholes[0]).class_logits.shape == (4, 3)


def some_outputs(count: int, seed: int = 0) -> MilOutputs:
    generator = torch.Generator().manual_seed(seed)
    refined = tuple(torch.randn(count, 4, generator=generator) for _ in range(2))
    return MilOutputs(*torch.randn(2, count, 3, generator=generator), refined, None)


def test_the_first_branch_learns_from_the_best_hints():
    boxes = [torch.tensor([[0.0, 0, 40, 40], [5, 5, 20, 20], [50, 50, 90, 90], [0, 0, 90, 90]])] * 2
    tags = [torch.tensor([True, False, False]), torch.tensor([False, True, True])]
    places = [torch.rand(4, 3, generator=torch.Generator().manual_seed(seed)) for seed in (5, 6)]
    sureness = torch.tensor([[0.5, 9, 9], [9, 0.8, 1.6]])
    outputs = some_outputs(8)
    found = mil_losses(outputs, boxes, tags, hints=list(map(Hints, places, sureness)))
    bags = Bags.of(boxes, tags)
    scores = outputs.class_logits.softmax(-1).unflatten(0, (2, 4))
    targets = refinement_targets(scores, bags, choice=torch.stack(places), sureness=sureness)
    expected = refinement_loss(outputs.refined[0].unflatten(0, (2, 4)), targets, bags.tags)
    torch.testing.assert_close(found.refined[0], torch.tensor([0.5, 1.2]) * expected)  # as sure as their tags' hints
    assert targets.seeds[0, targets.labels[0] == 1].unique().tolist() == [int(places[0][:, 0].argmax())]
    assert {round(weight, 4) for weight in targets.weights[1].tolist()} <= {0, 0.8, 1.6}
    plain = mil_losses(outputs, boxes, tags)
    torch.testing.assert_close(found.wsddn, plain.wsddn)
    scores = wsddn_scores(outputs.class_logits.unflatten(0, (2, 4)), outputs.proposal_logits.unflatten(0, (2, 4)))
    torch.testing.assert_close(
        plain.refined[0], refinement_loss(outputs.refined[0].unflatten(0, (2, 4)), refinement_targets(scores, bags))
    )


def test_every_branch_learns_from_the_same_hints():
    boxes, tags = (
        [torch.tensor([[0.0, 0, 40, 40], [5, 5, 20, 20], [50, 50, 90, 90]])],
        [torch.tensor([True, False, True])],
    )
    outputs = some_outputs(3)
    outputs = outputs._replace(refined=(outputs.refined[0],) * 3)
    losses = mil_losses(outputs, boxes, tags, hints=[Hints(torch.rand(3, 3), torch.ones(3))])
    assert losses.refined[0] == losses.refined[1] == losses.refined[2]


def test_hints_of_pictures_side_by_side_are_those_of_each():
    boxes = [torch.rand(count, 4).cumsum(1) * 20 for count in (5, 9)]
    boxes = [torch.cat([own[:, :2], own[:, :2] + own[:, 2:]], 1) for own in boxes]
    tags = [torch.tensor([True, False, True]), torch.tensor([False, True, False])]
    hints = [Hints(torch.rand(count, 3), torch.rand(3)) for count in (5, 9)]
    outputs = some_outputs(14)
    together = mil_losses(outputs, boxes, tags, hints=hints)
    for index, part in enumerate(outputs.split([5, 9])):
        alone = mil_losses(part, [boxes[index]], [tags[index]], hints=[hints[index]])
        for one, other in zip(together.refined, alone.refined, strict=True):
            torch.testing.assert_close(one[index], other[0], rtol=1e-4, atol=1e-5)


def test_promise_of_hints_lowers_what_less_speaks_for():
    scores = torch.zeros(2, 3, 3)
    hints = torch.tensor([[0.5, -1.0], [0.2, 0.1], [0.4, 0.3]])
    raised = with_promise(scores, 10.0, hints)
    torch.testing.assert_close(raised[0], torch.tensor([[0.0, 0, -13], [0, -3, -2], [0, -1, 0]]))
    assert torch.equal(raised[0], raised[1])
    order = with_promise(scores, 1.0)[0, :, 1]
    assert order.tolist() == pytest.approx([math.log(10), math.log(5), math.log(10 / 3)])


def test_a_run_finds_hints_once_and_shows_them(world, make_recipe, tmp_path, monkeypatch):
    recipe = make_recipe(teacher=TEACHER, rounds={"number": 1, "promise": 3.0})

    def make():
        return Run(world.dataset, world.store, recipe, tmp_path, evaluate=None, val=None, report=None, device="cpu")

    run = make()
    assert [phase.kind for phase in run.phases] == ["warm", "conditional", "prediction"]
    run.go()
    kept, found = load_places(tmp_path / "weights" / "hints.safetensors")
    assert found is None
    assert [len(own) for own in kept] == [min(6, len(run.album.proposals(index))) for index in range(len(run.album))]
    view = run.album.view(1, 48)
    assert view.index == 1
    assert view.hints.places.shape == (len(view.boxes), len(world.dataset.classes))
    torch.testing.assert_close(view.hints.places[:6], kept[1].float())
    assert (view.hints.places[6:] == -1).all()
    image = world.dataset[1]
    torch.testing.assert_close(recall_of(tmp_path)(image.id, world.store[image.id]), view.hints.places)
    assert run.teacher is None

    monkeypatch.setattr("tag2box.engine.loop.look", lambda *_: pytest.fail("it has looked before"))
    again = make()
    again.phase = 1  # stopped after the warm start
    again._look_first()
    assert all(torch.equal(own.places, kept[index]) for index, own in enumerate(again.album.hints))


def test_the_surer_count_more_and_every_tag_the_same():
    tags = torch.tensor([[True, False], [True, True], [False, True], [True, False]])
    places = [torch.tensor([[best, best], [-0.5, 0.1]]).half() for best in (0.9, 0.6, 0.7)] + [torch.zeros(0, 2).half()]
    sureness = torch.stack([own.sureness for own in with_sureness(places, tags)])
    assert (sureness[0, 0] / sureness[1, 0]).item() == pytest.approx((0.9 / 0.6) ** SHARPNESS, rel=0.01)
    assert not sureness[~tags].any()
    assert sureness[3].tolist() == [0, 0]  # it has no regions to speak for
    for label in range(2):
        assert sureness[tags[:, label], label].mean().item() == pytest.approx(1)


def test_views_with_some_of_their_proposals_have_those_hints(world, make_recipe, make_nets):
    nets = make_nets(world, make_recipe(data={"cache": False, "drawn_proposals": 5}))
    count, classes = len(nets.album.proposals(0)), len(world.dataset.classes)
    nets.album.hints = [Hints(torch.arange(count * classes).view(count, classes) / 100, torch.ones(classes))] * 6
    whole, some = nets.album.view(0, 48), nets.album.view(0, 48, draw=torch.Generator().manual_seed(0))
    assert len(some.boxes) == 5 < count
    for box, row in zip(some.boxes, some.hints.places, strict=True):
        (place,) = (whole.boxes == box).all(1).nonzero()[0]
        assert torch.equal(row, whole.hints.places[place])


def test_a_warm_start_is_shown_proposals_around_the_seeds_and_a_round_is_not(world, make_recipe, make_nets):
    nets = make_nets(world, make_recipe(data={"cache": False, "drawn_proposals": 6}))
    album = nets.album
    places = [torch.rand(len(album.proposals(index)), 3).half() for index in range(len(album))]
    album.hints = with_sureness(places, album.tags)
    for index in range(len(album)):
        everything, tags = album.view(index, 48).boxes.tolist(), album.tags[index]
        seeds = places[index].float()[:, tags].argmax(0).tolist()
        for seed in range(10):
            view = album.view(index, 48, draw=torch.Generator().manual_seed(seed), seeded=True)
            assert len(view.boxes) <= 6
            assert all(everything[row] in view.boxes.tolist() for row in seeds)
            first = album.view(index, 48, draw=torch.Generator().manual_seed(seed))
            assert first.boxes[:3].tolist() == everything[:3]
