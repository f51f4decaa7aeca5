"""What a run is made of."""

import pytest
import torch

from tag2box.config import Optimiser, Warm
from tag2box.engine.loop import Run
from tag2box.engine.making import Nets, make_fabric, make_optimiser, make_step
from tag2box.engine.plan import Phase
from tag2box.engine.steps import WarmStep
from tag2box.engine.tags import TagStep


@pytest.mark.parametrize("name", ["sgd", "adamw"])
@pytest.mark.parametrize("make", [lambda net: WarmStep(net, Warm()), TagStep])
def test_the_trunk_has_its_own_share_of_the_rate(world, make_recipe, make_nets, name, make):
    net = make_nets(world, make_recipe(backbone={"name": "tiny", "frozen": "none"})).warm
    step = make(net)
    optimiser = make_optimiser(step, Phase("warm", 0, 10, 0.1), Optimiser(name=name, trunk_rate=0.25))
    shares = {id(one): group["share"] for group in optimiser.param_groups for one in group["params"]}
    trunk = {id(one) for one in net.trunk.parameters()}
    assert shares == {id(one): 0.25 if id(one) in trunk else 1.0 for one in step.parameters()}


def test_a_head_of_convolutions_was_trained_elsewhere_too(world, make_recipe, make_nets):
    backbone = {"name": "mobilenet_v3_small", "weights": "none", "frozen": "early"}
    recipe = make_recipe(backbone=backbone, head={"kind": "conv", "size": 4}, data={"cache": False})
    nets = make_nets(world, recipe)
    for step, fresh in ((WarmStep(nets.warm, Warm()), nets.warm.mil), (nets.prediction, nets.prediction.predictor)):
        optimiser = make_optimiser(step, Phase("warm", 0, 10, 0.1), Optimiser(trunk_rate=0.25))
        others = {id(one) for group in optimiser.param_groups if group["share"] == 1 for one in group["params"]}
        assert others == {id(one) for one in fresh.parameters()}


def test_what_does_not_learn_is_left_out(world, make_recipe, make_nets):
    net = make_nets(world, make_recipe()).warm  # its trunk is frozen
    optimiser = make_optimiser(WarmStep(net, Warm()), Phase("warm", 0, 10, 0.1), Optimiser(trunk_rate=0.5))
    assert [group["share"] for group in optimiser.param_groups] == [1.0]


def test_epsilon_shrinks_from_round_to_round(world, make_recipe, make_nets):
    recipe = make_recipe(rounds={"epsilon": 2.0, "epsilon_decay": 0.5})
    net = make_nets(world, recipe).conditional
    steps = [make_step(Phase("conditional", number, 10, 0.1), Nets(conditional=net), recipe) for number in (1, 2, 3)]
    assert [one.settings.epsilon for one in steps] == [2.0, 1.0, 0.5]


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_trunk_without_a_share_stays_as_it_was(world, make_recipe, tmp_path, share):
    """The rule reaches the steps themselves."""
    recipe = make_recipe(
        backbone={"name": "tiny", "frozen": "none"},
        data={"cache": False},
        optimiser={"name": "sgd", "trunk_rate": share, "weight_decay": 0.0},
    )
    run = Run(world.dataset, world.store, recipe, tmp_path, evaluate=None, val=None, report=None, device="cpu")
    before = [one.clone() for one in run.nets.warm.trunk.parameters()]
    phase = run.phases[0]
    run._begin(phase)
    run.learner(phase).take_step()
    moved = [not torch.equal(a, b) for a, b in zip(before, run.nets.warm.trunk.parameters(), strict=True)]
    assert any(moved) == bool(share)


def test_tips_for_programmers_are_not_for_users(caplog):
    from lightning.fabric.utilities.rank_zero import rank_zero_info

    make_fabric("cpu", "32-true")
    rank_zero_info("You are using a CUDA device that has Tensor Cores.")
    assert not caplog.records


def test_mixed_precision_leaves_boxes_as_they_are():
    """513 is 512 in bfloat16."""

    class Step(torch.nn.Module):
        def forward(self, box):
            return box

    fabric = make_fabric("cpu", "bf16-mixed")
    box = torch.tensor([1.0, 257, 513, 1025])
    assert torch.equal(fabric.setup_module(Step())(box), box)
    with fabric.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
