"""The warm start learnt anew, from what the net before found."""

import pytest
import torch

from tag2box.engine.findings import find_again
from tag2box.engine.hints import SHARPNESS, with_sureness
from tag2box.engine.loop import FIRST, Run
from tag2box.engine.measure import detect, refined_scorer, see
from tag2box.overlap import pair_iou
from tag2box.remembered import load_places, recall_of


def liking(wanted, chance=0.9):
    """A net that moves the proposals that overlap a box of any class to it, surely, and leaves all others."""

    def score(views):
        seen = []
        for view in views:
            boxes = view.boxes[:, None].expand(-1, 4, -1).clone()
            near = pair_iou(view.boxes, wanted[view.index])[:, 0] > 0.2
            boxes[near] = wanted[view.index]
            chances = torch.where(near, chance, 0.01)[:, None].expand(-1, 4) / 4
            seen.append((chances, boxes))
        return seen

    return score


@pytest.fixture
def recipe(make_recipe):
    return make_recipe(data={"cache": False, "drawn_proposals": 5}, inference={"scales": (64,)})


@pytest.fixture
def nets(world, recipe, make_nets):
    return make_nets(world, recipe)


def autocast():
    return torch.autocast("cpu", enabled=False)


def test_it_finds_where_boxes_land_and_says_it_of_proposals_too(nets, recipe):
    album = nets.album
    views = [album.view(index, 64) for index in range(len(album))]
    wanted = [view.boxes[2:3] for view in views]
    found = find_again(liking(wanted), album, recipe, autocast)
    for index, (boxes, places) in enumerate(zip(found.boxes, found.places, strict=True)):
        tags = album.tags[index]
        assert len(boxes) == tags.sum()
        width = album.dataset[index].size[0]
        grown = views[index].size[0] / width
        for box in boxes:
            torch.testing.assert_close(box * grown, wanted[index][0], rtol=0, atol=0.5)
        regions = min(recipe.teacher.regions, len(album.proposals(index)))
        assert places.shape == (len(boxes) + regions, len(tags))
        assert (places[:, ~tags] == -1).all()
        most = places[:, tags].float().amax(0)
        assert most.tolist() == pytest.approx([(0.9 / 4) ** (1 / SHARPNESS)] * len(most), abs=2e-3)
        assert places[:, tags].argmax(0).tolist() == list(range(len(most)))  # each class's own box
        overlaps = pair_iou(album.proposals(index)[:regions], boxes)
        torch.testing.assert_close(places[len(boxes) :][:, tags].float(), overlaps * most, rtol=0, atol=2e-3)


def test_no_more_proposals_are_looked_at_than_count(nets, make_recipe):
    recipe = make_recipe(data={"cache": False}, inference={"scales": (64,), "flip": True}, teacher={"regions": 4})
    album = nets.album
    inner, shown = refined_scorer(nets.warm.eval()), []

    def scorer(views):
        shown.extend(len(view.boxes) for view in views)
        return inner(views)

    counts = [len(album.proposals(index)) for index in range(len(album))]
    assert max(counts) > 4
    find_again(scorer, album, recipe, autocast)
    assert shown == [min(count, 4) for count in counts for _ in range(2)]
    with torch.no_grad():
        for index in range(len(album)):
            ((few, moved),), ((every, every_moved),) = (see(inner, album, [index], recipe, most) for most in (4, None))
            torch.testing.assert_close(few, every[:4])
            torch.testing.assert_close(moved, every_moved[:4])


def test_what_was_found_is_a_proposal_and_no_detection(nets, recipe):
    album = nets.album
    wanted = [album.view(index, 64).boxes[2:3] for index in range(len(album))]
    before = detect(refined_scorer(nets.warm), album, recipe, tagged_only=True, min_score=0.0)
    found = find_again(liking(wanted), album, recipe, autocast)
    stored = [album.proposals(index).clone() for index in range(len(album))]
    album.take_hints(with_sureness(found.places, album.tags), found.boxes)
    for index, own in enumerate(stored):
        number = album.number_found(index)
        assert number == len(found.boxes[index])
        torch.testing.assert_close(album.proposals(index), torch.cat([found.boxes[index], own]))
        view = album.view(index, 64)
        assert len(view.boxes) == len(view.hints.places) == number + len(own)
        drawn = album.view(index, 64, draw=torch.Generator().manual_seed(0), seeded=True)
        for box in view.boxes[:number]:
            assert (drawn.boxes == box).all(1).any()  # a seed is always shown
    after = detect(refined_scorer(nets.warm), album, recipe, tagged_only=True, min_score=0.0)
    torch.testing.assert_close(torch.as_tensor(after.boxes), torch.as_tensor(before.boxes), rtol=0, atol=1e-3)


@pytest.mark.parametrize("cache", [False, True])
def test_a_run_learns_anew_from_its_own_finds(world, make_recipe, tmp_path, cache):
    recipe = make_recipe(warm={"again": 2}, rounds={"number": 1}, data={"cache": cache})
    run = Run(world.dataset, world.store, recipe, tmp_path, evaluate=None, val=None, report=None, device="cpu")
    assert [(phase.kind, phase.anew) for phase in run.phases][:3] == [("warm", 0), ("warm", 1), ("warm", 2)]
    run.go()
    assert [row["stage"] for row in run.record.rows] == ["wsddn", "refined", "anew-1", "anew-2", "round-1"]
    places, found = load_places(tmp_path / "weights" / "hints.safetensors")
    assert [len(boxes) for boxes in found] == run.album.tags.sum(1).tolist()
    image = world.dataset[1]
    recalled = recall_of(tmp_path)(image.id, world.store[image.id])
    torch.testing.assert_close(recalled[: len(places[1]) - len(found[1])], places[1][len(found[1]) :].float())


def test_a_run_that_goes_on_has_what_was_found_whatever_its_teacher_is_asked_for(world, make_recipe, tmp_path):
    teacher = {"name": "resnet50", "weights": "none", "hints": False, "epochs": 0}  # never looked for: nothing is asked
    recipe = make_recipe(warm={"again": 1}, rounds={"number": 1}, teacher=teacher)

    def make():
        return Run(world.dataset, world.store, recipe, tmp_path, evaluate=None, val=None, report=None, device="cpu")

    make().go()
    again = make()
    again.phase = 2  # the first round
    again.go()
    assert again.album.number_found(0) == again.album.tags[0].sum() > 0


def test_without_rounds_the_last_one_is_the_detector(world, make_recipe, tmp_path):
    recipe = make_recipe(warm={"again": 1}, rounds={"number": 0})
    run = Run(world.dataset, world.store, recipe, tmp_path, evaluate=None, val=None, report=None, device="cpu")
    run.go()
    assert [row["stage"] for row in run.record.rows] == ["wsddn", "refined", "anew-1", "round-0"]


def test_it_begins_with_the_weights_it_began_with(world, make_recipe, tmp_path):
    recipe = make_recipe(warm={"again": 1}, rounds={"number": 0})
    run = Run(world.dataset, world.store, recipe, tmp_path, evaluate=None, val=None, report=None, device="cpu")
    first = {name: value.clone() for name, value in run.nets.warm.state_dict().items()}
    with torch.no_grad():
        for parameter in run.nets.warm.parameters():
            parameter.add_(0.01)
    trunk = run.nets.warm.trunk
    run._start_anew()
    assert run.nets.warm.trunk is trunk  # the album's features come from this one
    for name, value in run.nets.warm.state_dict().items():
        assert torch.equal(value, first[name])


def test_what_the_tags_have_taught_is_where_it_begins_again(world, make_recipe, tmp_path, monkeypatch):
    recipe = make_recipe(warm={"again": 2, "tag_epochs": 1}, rounds={"number": 1})
    run = Run(world.dataset, world.store, recipe, tmp_path, evaluate=None, val=None, report=None, device="cpu")
    untaught = {name: value.clone() for name, value in run.nets.warm.state_dict().items()}
    begun, learn = [], Run._learn

    def learning(self, phase):
        if phase.kind == "warm":
            begun.append({name: value.clone() for name, value in self.nets.warm.state_dict().items()})
        learn(self, phase)

    monkeypatch.setattr(Run, "_learn", learning)
    run.go()
    first, second, third = begun
    assert all(torch.equal(first[name], second[name]) and torch.equal(first[name], third[name]) for name in first)
    assert any(not torch.equal(first[name], untaught[name]) for name in first)
    assert not (tmp_path / "weights" / FIRST).exists()  # nobody needs it in the rounds
