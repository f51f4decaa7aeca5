"""A teacher: what it sees, what is kept and learnt of it, and that nothing of it stays."""

import copy
import math
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from tag2box.engine import loop
from tag2box.engine.checkpoint import read_state
from tag2box.engine.loop import Run, train_run
from tag2box.engine.teacher import SOFTNESS, TeacherNet, TeacherStep, lesson_loss, look, look_of_nets
from tag2box.errors import InputError

TEACHER = {"name": "mobilenet_v3_small", "weights": "none", "epochs": 2, "regions": 8, "size": 32, "hints": False}
"""Random weights: what it says means nothing, and can be learnt all the same."""


@pytest.fixture
def teacher():
    torch.manual_seed(0)
    return TeacherNet("mobilenet_v3_small", "none", 32)


def test_the_teacher_sees_nothing_beside_the_region(teacher):
    picture = torch.randint(256, (3, 60, 80), dtype=torch.uint8)
    box = torch.tensor([[20.0, 10, 52, 42]])
    other = picture.clone()
    other[..., :9] = 0
    other[..., 60:] = 255
    other[:, 45:] = 7
    torch.testing.assert_close(teacher(picture, box), teacher(other, box))
    assert not torch.equal(teacher(picture, box), teacher(picture, box + 8))


def test_regions_are_seen_each_for_itself(teacher, monkeypatch):
    picture = torch.randint(256, (3, 60, 80), dtype=torch.uint8)
    boxes = torch.tensor([[0.0, 0, 80, 60], [5, 5, 30, 40], [40, 20, 80, 60]])
    together = teacher(picture, boxes)
    assert together.shape == (3, teacher.dim) == (3, 576)
    assert teacher.logits(together).shape == (3, teacher.classes) == (3, 1000)
    monkeypatch.setattr("tag2box.nets.region_eye.AT_ONCE_ON_CPU", 2)
    torch.testing.assert_close(teacher(picture, boxes), together, rtol=1e-4, atol=1e-4)


def test_a_region_of_the_right_size_is_seen_as_it_is(teacher):
    """Even pixels: enlarging and averaging leave them as they are."""
    picture = torch.full((3, 64, 64), 90.0)
    pixels = (torch.full((1, 3, 32, 32), 90.0) - teacher.mean) / teacher.std
    expected = teacher.classifier(teacher.eye.net(pixels).mean((2, 3)))
    found = teacher.logits(teacher(picture, torch.tensor([[16.0, 16, 48, 48]])))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_net_without_a_last_stage_of_convolutions_cannot_teach():
    with pytest.raises(InputError, match=r"teacher.name: expected resnet.*found vgg16"):
        TeacherNet("vgg16", "none", 32)


def test_the_loss_against_a_loop():
    logits, taught = (3 * torch.randn(4, 5, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    total = 0.0
    for ours, wanted in zip(logits.tolist(), taught.tolist(), strict=True):
        p, q = ([math.exp(value / SOFTNESS) for value in row] for row in (wanted, ours))
        p, q = ([value / sum(row) for value in row] for row in (p, q))
        total += SOFTNESS**2 * sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)) / 4
    assert lesson_loss(logits, taught).item() == pytest.approx(total, rel=1e-4)
    assert lesson_loss(taught, taught).item() == pytest.approx(0, abs=1e-6)


@pytest.fixture
def nets(world, make_recipe, make_nets):
    return make_nets(world, make_recipe(backbone={"frozen": "early"}, data={"cache": False}))


def test_what_is_kept_is_of_the_first_proposals_and_of_large_crops(nets, teacher):
    looks = look(teacher, nets.album, 5, 0, nullcontext)
    assert len(looks.proposals) == len(looks.wholes) == len(nets.album)
    for index in (0, 2):
        picture, boxes = nets.album.picture(index), nets.album.proposals(index)
        width, height = nets.album.dataset[index].size
        torch.testing.assert_close(looks.proposals[index].float(), teacher(picture, boxes[:5]), rtol=0.01, atol=0.01)
        whole = teacher(picture, torch.tensor([[0.0, 0, width, height]]))[0]
        torch.testing.assert_close(looks.wholes[index, 0].float(), whole, rtol=0.01, atol=0.01)
    again = look(teacher, nets.album, 5, 0, nullcontext)
    assert torch.equal(looks.wholes, again.wholes)
    assert not torch.equal(looks.wholes, look(teacher, nets.album, 5, 1, nullcontext).wholes)  # other crops


def test_nets_with_the_same_eye_have_seen_it_all(world, make_recipe, make_nets):
    """Pictures at their own size, so that both are shown the same pixels; up to half precision and the crops' grid."""
    torch.manual_seed(0)
    backbone, head = {"name": "mobilenet_v3_small"}, {"kind": "cut", "pixels": 32}
    nets = make_nets(world, make_recipe(backbone=backbone, head=head, data={"max_proposals": 9}))
    teacher = TeacherNet("mobilenet_v3_small", "none", 32)
    own = nn.Sequential(*nets.warm.head.eye.net, *nets.warm.head.layers)
    teacher.eye.net.load_state_dict(own.state_dict())
    for index in range(len(nets.album)):
        scale = min(nets.album.dataset[index].size)
        wanted = look(teacher, nets.album, 5, 0, nullcontext, mapped=True)
        found = look_of_nets(nets.warm, nets.album, 5, 0, scale, mapped=True)
        assert len(found.proposals[index]) == 5
        torch.testing.assert_close(found.proposals[index], wanted.proposals[index], rtol=0.01, atol=0.01)
        torch.testing.assert_close(found.wholes[index], wanted.wholes[index], rtol=0.01, atol=0.01)
        assert [len(one) for one in found.maps[index]] == [len(one) for one in wanted.maps[index]] == [48, 96]


@pytest.mark.parametrize(
    ("change", "own"),
    [
        ({}, True),
        ({"teacher": {"size": 48}}, False),
        ({"teacher": {"epochs": 1}}, False),
        ({"data": {"cache": False}}, False),
        ({"head": {"kind": "conv", "size": 4}}, False),
    ],
)
def test_no_region_is_looked_at_twice(world, make_recipe, tmp_path, monkeypatch, change, own):
    """Where the teacher is the net that the nets look through, what they see of proposals is what it sees."""
    calls = []
    for name in ("look", "look_of_nets"):
        there = getattr(loop, name)
        monkeypatch.setattr(loop, name, lambda *args, _=(name, there), **how: calls.append(_[0]) or _[1](*args, **how))
    sections = {
        "backbone": {"name": "mobilenet_v3_small", "frozen": "all"},
        "head": {"kind": "cut", "pixels": 32},
        "teacher": {**TEACHER, "epochs": 0, "hints": True, "hint_epochs": 1.0},
        "rounds": {"number": 0},
    }
    recipe = make_recipe(**{name: sections.get(name, {}) | change.get(name, {}) for name in {**sections, **change}})
    run = make_run(world, recipe, tmp_path)
    run._look_first()
    assert calls == (["look_of_nets"] if own else ["look"])
    assert (run.teacher is None) == (not recipe.teacher.epochs)


def test_what_does_not_fit_on_the_device_is_kept_beside_it(nets, teacher, monkeypatch):
    wanted, pinned = look(teacher, nets.album, 5, 0, nullcontext), []
    monkeypatch.setattr("tag2box.engine.teacher.free_bytes", lambda device: 0.0)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: pinned.append(len(self)) or self)
    looks = look(teacher, nets.album, 5, 0, nullcontext)
    assert len(pinned) == len(nets.album)
    assert torch.equal(looks.wholes, wanted.wholes)
    assert all(torch.equal(one, other) for one, other in zip(looks.proposals, wanted.proposals, strict=True))


def test_a_gpu_is_shown_few_different_numbers_of_regions(make_world, make_recipe, make_nets, monkeypatch, tmp_path):
    """Which they are is all that a device decides here, so a CPU can take its place."""
    world = make_world(tmp_path, images=6, proposals=(12, 11, 10, 9, 3, 1))
    album, numbers = make_nets(world, make_recipe()).album, []

    def teacher(picture, boxes):
        numbers.append(len(boxes))
        return boxes.float()  # a vector that says which region it is of

    teacher.dim = 4
    wanted = look(teacher, album, 12, 0, nullcontext)
    assert len(set(numbers)) == 6
    numbers.clear()
    monkeypatch.setattr(album, "device", torch.device("cuda"))
    monkeypatch.setattr("tag2box.engine.teacher.free_bytes", lambda device: 1e12)
    looks = look(teacher, album, 12, 0, nullcontext)
    assert numbers == [19, 19, 19, 19, 19, 9]  # seven large regions, and those with them that twelve or five hold
    assert torch.equal(looks.wholes, wanted.wholes)
    assert all(torch.equal(one, other) for one, other in zip(looks.proposals, wanted.proposals, strict=True))


def test_what_does_not_learn_is_no_part_of_it(nets, teacher):
    view = nets.album.view(0, 48)
    lesson = torch.nn.Linear(nets.warm.head.dim, teacher.classes)
    step = TeacherStep(nets.warm, lesson)
    taught = teacher.logits(teacher(nets.album.picture(0), nets.album.proposals(0)[:4]))
    loss, logs = step([view], [view.boxes[:4]], taught)
    loss.backward()
    assert logs["loss_teacher"] == loss
    for name, parameter in step.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, name
    assert all(parameter.grad is None for parameter in nets.warm.mil.parameters())


def make_run(world, recipe, out):
    return Run(world.dataset, world.store, recipe, out, evaluate=None, val=None, report=None, device="cpu")


def test_a_run_has_lessons_and_then_forgets_the_teacher(world, make_recipe, tmp_path):
    recipe = make_recipe(teacher={**TEACHER, "epochs": 20}, optimiser={"name": "adamw"}, rounds={"number": 0})
    run = make_run(world, recipe, tmp_path)
    before = copy.deepcopy(run.nets.warm.state_dict())
    assert [phase.kind for phase in run.phases] == ["lessons", "warm"]
    run.go()
    assert run.record.rows[0]["stage"] == "lessons"
    assert set(run.nets) == {"warm"}
    assert run.teacher is None
    assert run.looks is None
    assert not torch.equal(run.nets.warm.head.fc6.weight, before["head.fc6.weight"])
    tensors, state = read_state(tmp_path / "weights" / "state.safetensors")
    assert state["nets"] == ["warm"]
    assert not any(key.startswith("lesson") for key in tensors)
    assert not (tmp_path / "weights" / "hints.safetensors").exists()


def test_the_lessons_are_learnt_of_the_same_regions_whatever_the_view(world, make_recipe, tmp_path):
    recipe = make_recipe(
        teacher=TEACHER, optimiser={"name": "adamw"}, head={"dropout": 0.0}, data={"drawn_proposals": 4, "cache": False}
    )
    run = make_run(world, recipe, tmp_path)
    run._look_first()
    phase = run.phases[0]
    run._begin(phase)
    views = run.feed.views(0, phase, 0)
    _, boxes, taught = run._lessons(views)
    assert [len(own) for own in boxes] == [len(run.looks.proposals[view.index]) for view in views]
    assert sum(map(len, boxes)) == len(taught)
    for view, own in zip(views, boxes, strict=True):
        grown = view.size[0] / world.dataset[view.index].size[0]
        expected = grown * run.album.proposals(view.index)[: len(own)]
        widths = (expected[:, 2] - expected[:, 0], own[:, 2] - own[:, 0])
        torch.testing.assert_close(*widths, rtol=0.05, atol=0.5)  # mirrored or not
    learner, losses = run.learner(phase), []
    for _ in range(30):
        learner.step = 0  # one step each time
        losses.append(float(learner.take_step()["loss_teacher"]))
    assert losses[-1] < losses[0] / 2


def test_lessons_that_were_stopped_go_on_as_if_they_had_not_been(world, make_recipe, tmp_path):
    recipe = make_recipe(
        teacher={**TEACHER, "hints": True, "hint_epochs": 1}, rounds={"number": 0}, head={"dropout": 0.3}
    )
    train_run(world.dataset, world.store, recipe, tmp_path / "whole", device="cpu")

    def one(out, steps, resume):
        run = make_run(world, recipe, out)
        if resume:
            run.resume()
        if not steps:
            run.go()
            return
        run._look_first()
        phase = run.phases[0]
        run._begin(phase)
        learner = run.learner(phase)
        for _ in range(steps):
            learner.take_step()
        run.step = learner.step
        run._save(learner.optimiser)

    one(tmp_path / "parts", 2, resume=False)
    assert "lesson.weight" in read_state(tmp_path / "parts" / "weights" / "state.safetensors")[0]
    one(tmp_path / "parts", 0, resume=True)
    whole, parts = (read_state(tmp_path / name / "weights" / "state.safetensors")[0] for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(value, parts[key]) for key, value in whole.items())
