"""Lessons from another net: what the teacher sees, what is learnt from it, and that nothing of it stays."""

import copy
import math

import pytest
import torch

from tag2box.engine.checkpoint import read_state
from tag2box.engine.loop import Run, train_run
from tag2box.engine.plan import generator_for
from tag2box.engine.teacher import SOFTNESS, TeacherNet, TeacherStep, lesson_loss, taught_regions
from tag2box.errors import InputError

TEACHER = {"name": "mobilenet_v3_small", "weights": "none", "epochs": 2, "regions": 4, "size": 32}
"""Random weights: what it says means nothing, and can be learnt all the same."""


@pytest.fixture
def teacher():
    torch.manual_seed(0)
    return TeacherNet("mobilenet_v3_small", "none", 32)


def test_the_teacher_sees_nothing_beside_the_region(teacher):
    picture = torch.randint(256, (1, 3, 60, 80)).float()
    box = torch.tensor([[20.0, 10, 52, 42]])
    other = picture.clone()
    other[..., :9] = 0
    other[..., 60:] = 255
    other[:, :, 45:] = 7
    torch.testing.assert_close(teacher(picture, [box]), teacher(other, [box]))
    assert not torch.equal(teacher(picture, [box]), teacher(picture, [box + 8]))


def test_regions_of_several_pictures_come_one_after_the_other(teacher):
    pictures = torch.randint(256, (2, 3, 60, 80)).float()
    boxes = [torch.tensor([[0.0, 0, 80, 60], [5, 5, 30, 40]]), torch.tensor([[40.0, 20, 80, 60]])]
    together = teacher(pictures, boxes)
    assert together.shape == (3, teacher.classes) == (3, 1000)
    alone = torch.cat([teacher(pictures[i : i + 1], boxes[i : i + 1]) for i in range(2)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


def test_a_region_of_the_right_size_is_seen_as_it_is(teacher):
    """Even pixels: enlarging and averaging leave them as they are."""
    picture = torch.full((1, 3, 64, 64), 90.0)
    pixels = (torch.full((1, 3, 32, 32), 90.0) - teacher.mean) / teacher.std
    expected = teacher.classifier(teacher.top(teacher.body(pixels)).mean((2, 3)))
    torch.testing.assert_close(teacher(picture, [torch.tensor([[16.0, 16, 48, 48]])]), expected, rtol=1e-4, atol=1e-4)


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


def test_regions_are_the_whole_and_proposals(nets):
    view = nets.album.view(0, 48)
    for number in (1, 3, 1000):
        whole, *others = taught_regions(view, number, generator_for(number)).tolist()
        assert whole == [0, 0, *view.size]
        assert len(others) == min(number - 1, len(view.boxes))
        assert all(box in view.boxes.tolist() for box in others)


def test_what_does_not_learn_is_no_part_of_it(nets, teacher):
    view = nets.album.view(0, 48)
    boxes = [taught_regions(view, 4, generator_for(0))]
    lesson = torch.nn.Linear(nets.warm.head.dim, teacher.classes)
    step = TeacherStep(nets.warm, lesson)
    loss, logs = step([view], boxes, teacher(view.pixels[None], boxes))
    loss.backward()
    assert logs["loss_teacher"] == loss
    for name, parameter in step.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, name
    assert all(parameter.grad is None for parameter in nets.warm.mil.parameters())


def test_a_run_has_lessons_and_then_forgets_the_teacher(world, make_recipe, tmp_path):
    recipe = make_recipe(teacher={**TEACHER, "epochs": 20}, optimiser={"name": "adamw"}, rounds={"number": 0})
    run = Run(world.dataset, world.store, recipe, tmp_path, evaluate=None, val=None, report=None, device="cpu")
    before = copy.deepcopy(run.nets.warm.state_dict())
    assert [phase.kind for phase in run.phases] == ["lessons", "warm"]
    run.go()
    assert run.record.rows[0]["stage"] == "lessons"
    assert set(run.nets) == {"warm"}
    assert run.teacher is None
    assert not torch.equal(run.nets.warm.head.fc6.weight, before["head.fc6.weight"])
    tensors, state = read_state(tmp_path / "weights" / "state.safetensors")
    assert state["nets"] == ["warm"]
    assert not any(key.startswith("lesson") for key in tensors)


def test_the_lessons_are_learnt(world, make_recipe, tmp_path):
    recipe = make_recipe(teacher={**TEACHER, "epochs": 1}, optimiser={"name": "adamw"}, head={"dropout": 0.0})
    run = Run(world.dataset, world.store, recipe, tmp_path, evaluate=None, val=None, report=None, device="cpu")
    phase = run.phases[0]
    run._begin(phase)
    module, optimiser = run._set_up(phase)
    losses = []
    for _ in range(30):  # one step again and again
        losses.append(float(run._one_step(phase, module, optimiser)["loss_teacher"]))
    assert losses[-1] < losses[0] / 2


def test_lessons_that_were_stopped_go_on_as_if_they_had_not_been(world, make_recipe, tmp_path):
    recipe = make_recipe(teacher=TEACHER, rounds={"number": 0}, head={"dropout": 0.3})
    train_run(world.dataset, world.store, recipe, tmp_path / "whole", device="cpu")

    def one(out, steps, resume):
        run = Run(world.dataset, world.store, recipe, out, evaluate=None, val=None, report=None, device="cpu")
        if resume:
            run.resume()
        if not steps:
            run.go()
            return
        phase = run.phases[0]
        run._begin(phase)
        module, optimiser = run._set_up(phase)
        run.feed.begin(0, phase, 0)
        for _ in range(steps):
            run._one_step(phase, module, optimiser)
            run.step += 1
        run._save(optimiser)

    one(tmp_path / "parts", 2, resume=False)
    assert "lesson.weight" in read_state(tmp_path / "parts" / "weights" / "state.safetensors")[0]
    one(tmp_path / "parts", 0, resume=True)
    whole, parts = (read_state(tmp_path / name / "weights" / "state.safetensors")[0] for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(value, parts[key]) for key, value in whole.items())
