"""The steps of a phase: gradients in as much memory as there is, updates, and whether all is finite."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tag2box.config import Recipe
from tag2box.engine.checkpoint import load_optimiser
from tag2box.engine.feed import Feed
from tag2box.engine.forward import conditional_outputs, noise_for, prediction_outputs
from tag2box.engine.making import Nets, make_optimiser, make_step
from tag2box.engine.memory import in_parts, less_memory
from tag2box.engine.plan import Phase, generator_for, rate_at, seed_for
from tag2box.engine.steps import Logs, all_pseudo_truths
from tag2box.engine.tags import regions
from tag2box.engine.views import View
from tag2box.errors import TrainingError

if TYPE_CHECKING:
    from lightning.fabric import Fabric

LOOK_EVERY = 20
"""Updates between two looks at whether all is finite, on a GPU, where looking means waiting."""


class Learner:
    """The net of a phase, in training, its optimiser, and where in the phase it is.

    place: of the phase in the plan. at_once: pictures that go through a net together; by default all of a step.
    lessons: the inputs of a step of lessons. checkpoint: where the last good state is, if any was saved.
    """

    def __init__(
        self,
        place: int,
        phase: Phase,
        recipe: Recipe,
        fabric: "Fabric",
        nets: Nets,
        feed: Feed,
        *,
        lessons: Callable[[Sequence[View]], tuple[Any, ...]],
        checkpoint: Path,
        step: int = 0,
        at_once: int | None = None,
        restored: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.place, self.phase, self.step, self.at_once = place, phase, step, at_once
        self.recipe, self.fabric, self.nets, self.feed = recipe, fabric, nets, feed
        self._lessons, self._checkpoint = lessons, checkpoint
        nets[phase.net].train()
        made = make_step(phase, nets, recipe)
        self.module: Any = fabric.setup_module(made)
        optimiser = make_optimiser(made, phase, recipe.optimiser)
        if restored:
            load_optimiser(optimiser, restored)
        self.optimiser: Any = fabric.setup_optimizers(optimiser)
        self._sound = torch.tensor(True, device=fabric.device)
        feed.begin(place, phase, step)

    def take_step(self) -> Logs:
        """The next one, and the update that it may be the last one for; what to log of it."""
        settings = self.recipe.optimiser
        for group in self.optimiser.param_groups:
            group["lr"] = group["share"] * rate_at(self.step, self.phase, settings)
        try:
            loss, logs = self._gradients_that_fit()
            if self._is_last():
                norm = self.fabric.clip_gradients(
                    self.module, self.optimiser, max_norm=settings.clip, error_if_nonfinite=False
                )
                self._watch(loss, norm)
                self.optimiser.step()
                self.optimiser.zero_grad()
        except torch.OutOfMemoryError as error:
            advice = less_memory(self.recipe, self.fabric.world_size, self.at_once)
            raise TrainingError(f"{self._too_little()}: start again, in another --out, with {advice}") from error
        self.step += 1
        return logs

    def require_sound(self) -> None:
        """Stop, before anything is saved, where something since the start was not finite."""
        if bool(self._sound):
            return
        phase, step = self.phase, self.step
        where = f"{phase.name}, by step {min(step + 1, phase.steps)} of {phase.steps}"
        rate = rate_at(min(step, phase.steps - 1), phase, self.recipe.optimiser)
        left = f"the last good state is {self._checkpoint}" if self._checkpoint.exists() else "nothing was saved yet"
        raise TrainingError(f"the loss is not finite ({where}, learning rate {rate:g}); {left}: try a lower rate")

    def _is_last(self) -> bool:
        """Whether the parameters move after this step."""
        return (self.step + 1) % self.recipe.optimiser.accumulate == 0 or self.step + 1 == self.phase.steps

    def _too_little(self) -> str:
        return f"{self.fabric.device} has too little memory ({self.phase.name})"

    def _gradients_that_fit(self) -> tuple[Tensor, Logs]:
        """Those of a step, with fewer pictures at once from here on where there is too little memory for more.

        Several processes would have to agree on that.
        """
        while True:
            views = self.feed.views(self.place, self.phase, self.step)
            try:
                return self._gradients(views)
            except torch.OutOfMemoryError:
                number, now = len(views), min(self.at_once or len(views), len(views))
                if now == 1 or self.fabric.world_size > 1:
                    raise
            del views  # out here, where all else that filled the memory is gone
            self.at_once = -(-now // 2)
            said = f"of {number} pictures in a step {self.at_once} go through the net at once now"
            print(f"{self._too_little()}: {said}", file=sys.stderr)
            # Gradients may be half of this step's, so all that are added up for an update are computed anew.
            self.optimiser.zero_grad()
            self.step -= self.step % self.recipe.optimiser.accumulate
            self.feed.begin(self.place, self.phase, self.step)

    def _gradients(self, views: Sequence[View]) -> tuple[Tensor, Logs]:
        """Add those of a step to what is there; its loss and what to log."""
        torch.manual_seed(seed_for(self.recipe.seed, self.place, self.step, self.fabric.global_rank))  # for dropout
        loss, logs = torch.zeros((), device=self.fabric.device), Logs()
        with self.fabric.no_backward_sync(self.module, enabled=not self._is_last()):
            for part, some in enumerate(in_parts(views, self.at_once)):
                share = len(some) / len(views)  # losses are means over pictures, or nearly: lessons', over regions
                own, more = self.module(*self._inputs(some, part))
                self.fabric.backward(share * own / self.recipe.optimiser.accumulate)
                loss = loss + share * own.detach()
                for name, value in more.items():
                    logs[name] = logs.get(name, 0) + share * value.detach()
        return loss, logs

    @torch.no_grad()
    def _inputs(self, views: Sequence[View], part: int = 0) -> tuple[Any, ...]:
        """What a part of a step needs besides its views: crops, or what the other net says, which stands still."""
        kind, rounds, fabric = self.phase.kind, self.recipe.rounds, self.fabric
        if kind == "warm":
            return (views,)
        if kind == "lessons":
            with fabric.autocast():
                return self._lessons(views)
        # Not the stream that chose the pictures, and another one for the pictures of every process and part.
        which = (self.place, self.step, fabric.global_rank, 1, *([part] if part else []))
        generator = generator_for(self.recipe.seed, *which)
        if kind == "tags":
            boxes = [regions(view.size, generator) for view in views]
            return views, [one.to(fabric.device, non_blocking=True) for one in boxes]
        noise = noise_for(views, rounds.samples if rounds.noise else 0, generator)
        with fabric.autocast():
            if kind == "conditional":
                return views, noise, prediction_outputs(self.nets.prediction, views)
            outputs = conditional_outputs(self.nets.conditional, views, noise)
        return views, [truths for _, truths in all_pseudo_truths(views, outputs, rounds)]

    def _watch(self, loss: Tensor, norm: Tensor | None) -> None:
        """Note whether the loss and the gradient's length are finite; look at every update on the CPU."""
        self._sound = self._sound & loss.detach().isfinite() & (loss.detach() if norm is None else norm).isfinite()
        update = self.step // self.recipe.optimiser.accumulate
        if self.fabric.device.type == "cpu" or update % LOOK_EVERY == 0:
            self.require_sound()
