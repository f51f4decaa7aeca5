"""What a run is made of, as its recipe says: the device and its precision, nets, optimisers, steps."""

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tag2box.config import Optimiser, Recipe
from tag2box.detector import pick_device
from tag2box.detector_file import build_parts
from tag2box.engine.plan import Phase, seed_for
from tag2box.engine.steps import ConditionalStep, PredictionStep, WarmStep
from tag2box.engine.tags import TagStep
from tag2box.engine.teacher import TeacherStep
from tag2box.nets.backbone import Trunk
from tag2box.nets.conditional import ConditionalNet
from tag2box.nets.mil import MilNet, conditional_from_mil, prediction_from_mil
from tag2box.nets.prediction import PredictionNet
from tag2box.nets.roi_head import ConvHead

if TYPE_CHECKING:
    from lightning.fabric import Fabric
    from lightning.fabric.plugins import MixedPrecision


def make_fabric(device: str, precision: str) -> "Fabric":
    """One process, or those that torchrun has started."""
    from lightning.fabric import Fabric
    from lightning_utilities.core import rank_zero

    rank_zero.log.setLevel(logging.WARNING)  # below are tips for whoever programs a GPU
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    nodes = int(os.environ.get("WORLD_SIZE", "1")) // local
    strategy = "ddp" if local * nodes > 1 else "auto"
    plugins = _mixed(device) if precision == "bf16-mixed" else None
    fabric = Fabric(accelerator=device, devices=local, num_nodes=nodes, strategy=strategy, plugins=plugins)
    fabric.launch()
    return fabric


def _mixed(device: str) -> "MixedPrecision":
    """bfloat16 where a layer gains by it, and boxes as they are: Lightning would round all that goes into a module.

    A coordinate over 512 would then be a multiple of 4.
    """
    from lightning.fabric.plugins import MixedPrecision

    class Mixed(MixedPrecision):
        def convert_input(self, data: Any) -> Any:
            return data

    return Mixed("bf16-mixed", pick_device(device).type)


def build_warm(recipe: Recipe, classes: int) -> MilNet:
    """The warm start's net as the recipe says."""
    trunk, head = build_parts(recipe)
    warm, hints = recipe.warm, bool(recipe.teacher.name) and recipe.teacher.hints
    return MilNet(
        trunk=trunk,
        head=head,
        classes=classes,
        branches=warm.branches,
        regression=warm.regression,
        aside=hints,  # it would pull the features towards the parts that tell a class, where hints are about wholes
    )


class Nets(dict[str, nn.Module]):
    """A run's nets by name: "warm" first, "prediction" and "conditional" from the first round on, "lesson" in one."""

    @property
    def warm(self) -> MilNet:
        """The warm start's."""
        net = self["warm"]
        assert isinstance(net, MilNet)
        return net

    @property
    def prediction(self) -> PredictionNet:
        """The detector."""
        net = self["prediction"]
        assert isinstance(net, PredictionNet)
        return net

    @property
    def conditional(self) -> ConditionalNet:
        """Its teacher."""
        net = self["conditional"]
        assert isinstance(net, ConditionalNet)
        return net

    @property
    def lesson(self) -> nn.Linear:
        """From a proposal's vector to the teacher's classes."""
        net = self["lesson"]
        assert isinstance(net, nn.Linear)
        return net

    def start_rounds(self, recipe: Recipe, device: torch.device) -> None:
        """Both nets start as the warm start's last branch (METHOD §7)."""
        torch.manual_seed(seed_for(recipe.seed, -2))
        self["prediction"] = prediction_from_mil(self.warm).to(device)
        self["conditional"] = conditional_from_mil(self.warm, noise_spread=recipe.rounds.noise_spread).to(device)


def make_step(phase: Phase, nets: Nets, recipe: Recipe) -> nn.Module:
    """A step of the net that learns in this phase, over those of its layers that do."""
    net = nets[phase.net]
    if phase.kind == "lessons":
        return TeacherStep(nets.warm, nets.lesson)
    if isinstance(net, MilNet):
        return TagStep(net) if phase.kind == "tags" else WarmStep(net, recipe.warm)
    if isinstance(net, ConditionalNet):
        rounds = recipe.rounds
        epsilon = rounds.epsilon * rounds.epsilon_decay ** (phase.round - 1)
        return ConditionalStep(net, replace(rounds, epsilon=epsilon))
    assert isinstance(net, PredictionNet)
    return PredictionStep(net, recipe.rounds)


def make_optimiser(module: nn.Module, phase: Phase, settings: Optimiser) -> torch.optim.Optimizer:
    """A fresh one over what learns; the `share` of a group is what it takes of the learning rate."""
    elsewhere = {
        id(one)
        for part in module.modules()
        if isinstance(part, Trunk | ConvHead)  # a head of convolutions is the net's last stage
        for one in part.parameters()
    }
    trunk, others = list[nn.Parameter](), list[nn.Parameter]()
    for parameter in module.parameters():
        if parameter.requires_grad:
            (trunk if id(parameter) in elsewhere else others).append(parameter)
    groups = ({"params": trunk, "share": settings.trunk_rate}, {"params": others, "share": 1.0})
    learnt = [group for group in groups if group["params"]]
    if settings.name == "sgd":
        return torch.optim.SGD(learnt, phase.rate, settings.momentum, weight_decay=settings.weight_decay)
    on_gpu = all(parameter.is_cuda for parameter in (*trunk, *others))  # there one kernel does what else takes hundreds
    return torch.optim.AdamW(learnt, phase.rate, weight_decay=settings.weight_decay, fused=on_gpu or None)
