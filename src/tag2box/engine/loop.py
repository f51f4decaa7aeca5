"""`train_run`: the warm start, then rounds of coordinate descent (METHOD §8); checkpoints and resume."""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tag2box.config import Recipe
from tag2box.data.records import Dataset
from tag2box.detections import Detections
from tag2box.detector_file import build_parts, save_detector
from tag2box.engine.checkpoint import load_net, load_optimiser, read_state, save_state
from tag2box.engine.forward import conditional_outputs, noise_for, prediction_outputs
from tag2box.engine.measure import detect, measure_diversities, prediction_scorer, refined_scorer, wsddn_scorer
from tag2box.engine.plan import Phase, generator_for, phases, rate_at, seed_for, showings
from tag2box.engine.record import Record, Report, follow
from tag2box.engine.steps import ConditionalStep, Logs, PredictionStep, WarmStep, pseudo_truths
from tag2box.engine.views import Album, View
from tag2box.errors import InputError, TrainingError
from tag2box.mil import MilNet, conditional_from_mil, prediction_from_mil
from tag2box.nets.conditional import ConditionalNet
from tag2box.nets.prediction import PredictionNet
from tag2box.progress import progress
from tag2box.proposals.store import ProposalStore

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Evaluate = Callable[[str, Detections, Detections | None], dict[str, float]]
"""Scores a stage's detections on training and held-out pictures, where somebody knows the boxes: map, corloc."""

SAVE_EVERY_S = 60.0
LITTER = (".*.safetensors", ".tmp*")
"""What a kill leaves half-written among the weights: our own temporary files, and those of safetensors."""
LOOK_EVERY = 20
"""Updates between two looks at whether all is finite, on a GPU, where looking means waiting."""


def train_run(
    dataset: Dataset,
    store: ProposalStore,
    recipe: Recipe,
    out: Path,
    *,
    evaluate: Evaluate | None = None,
    val: tuple[Dataset, ProposalStore] | None = None,
    report: Report | None = None,
    resume: bool = False,
    device: str = "auto",
) -> None:
    """Train on tagged images and leave the weights in `out`/weights; with `resume`, go on from the last checkpoint.

    `evaluate` scores each stage, `val` holds pictures to score the detector on, `report` hears of each stage.
    """
    run = Run(dataset, store, recipe, out, evaluate=evaluate, val=val, report=report, device=device)
    if resume:
        run.resume()
    run.go()


class Run:
    """The nets of a run and where in its plan it is."""

    def __init__(
        self,
        dataset: Dataset,
        store: ProposalStore,
        recipe: Recipe,
        out: Path,
        *,
        evaluate: Evaluate | None,
        val: tuple[Dataset, ProposalStore] | None,
        report: Report | None,
        device: str,
    ) -> None:
        self.recipe, self.evaluate, self.report = recipe, evaluate, report
        self.fabric = make_fabric(device, recipe.precision)
        if recipe.optimiser.images % self.fabric.world_size:
            found = f"{recipe.optimiser.images} for {self.fabric.world_size} processes"
            raise InputError(f"optimiser.images: expected as many pictures in a step for each process, found {found}")
        torch.manual_seed(seed_for(recipe.seed))
        self.nets: dict[str, nn.Module] = {"warm": build_warm(recipe, len(dataset.classes)).to(self.fabric.device)}
        warm = self._warm
        make = partial(Album, data=recipe.data, device=self.fabric.device, trunk=warm.trunk, head=warm.head)
        self.album = make(dataset, store)
        self.val_album = None if val is None else make(*val)
        self.phases = phases(recipe, len(dataset))
        self.phase, self.step = 0, 0
        self.weights, self.checkpoint = out / "weights", out / "weights" / "state.safetensors"
        self.weights.mkdir(parents=True, exist_ok=True)
        self.record = Record()
        self._restored: dict[str, Tensor] = {}
        self._sound = torch.tensor(True, device=self.fabric.device)

    def go(self) -> None:
        """Every phase that is left, each followed by what is said of it."""
        while self.phase < len(self.phases):
            phase = self.phases[self.phase]
            self._begin(phase)
            self._learn(phase)
            self._conclude(phase)
            self.phase, self.step, self._restored = self.phase + 1, 0, {}
            self._save(None)

    def resume(self) -> None:
        """Take over nets, optimiser and place from the last checkpoint; a run that has none yet starts anew."""
        if self.fabric.is_global_zero:
            for litter in chain.from_iterable(self.weights.glob(pattern) for pattern in LITTER):
                litter.unlink(missing_ok=True)
        if not self.checkpoint.exists():
            return
        tensors, state = read_state(self.checkpoint)
        if state["recipe"] != _plain(self.recipe) or state.get("data") != _fingerprint(self.album.dataset):
            raise InputError(f"{self.checkpoint} was made with another recipe or data set; resume with the same")
        self.phase, self.step = state["phase"], state["step"]
        if "prediction" in state["nets"]:
            self._make_nets()
        for name in state["nets"]:
            load_net(self.nets[name], name, tensors)
        self._restored = tensors
        self.record.restore(state["record"])

    @property
    def _warm(self) -> MilNet:
        net = self.nets["warm"]
        assert isinstance(net, MilNet)
        return net

    @property
    def _prediction(self) -> PredictionNet:
        net = self.nets["prediction"]
        assert isinstance(net, PredictionNet)
        return net

    @property
    def _conditional(self) -> ConditionalNet:
        net = self.nets["conditional"]
        assert isinstance(net, ConditionalNet)
        return net

    def _make_nets(self) -> None:
        """Both nets start as the warm start's last branch (METHOD §7)."""
        torch.manual_seed(seed_for(self.recipe.seed, -2))
        prediction = prediction_from_mil(self._warm)
        conditional = conditional_from_mil(self._warm, noise_spread=self.recipe.rounds.noise_spread)
        made = {"prediction": prediction, "conditional": conditional}
        self.nets |= {name: net.to(self.fabric.device) for name, net in made.items()}

    def _begin(self, phase: Phase) -> None:
        if phase.kind != "warm" and "prediction" not in self.nets:
            self._make_nets()
            self._conditional.scale_noise(self._some_features())
        for net in self.nets.values():
            net.eval()

    @torch.no_grad()
    def _some_features(self) -> Tensor:
        """The trunk's map of one picture: how large its values are."""
        view = self.album.view(0, self.recipe.data.scales[0])
        if view.pooled is not None or view.map is not None:
            kept = view.pooled if view.pooled is not None else view.map
            assert kept is not None
            return kept
        assert view.pixels is not None
        return self._warm.trunk.features(view.pixels[None])

    def _learn(self, phase: Phase) -> None:
        """The steps of a phase that are left."""
        net = self.nets[phase.kind]
        net.train()
        module = self.fabric.setup_module(_step_module(net, self.recipe))
        optimiser = self._optimiser(net, phase)
        due = time.monotonic() + SAVE_EVERY_S
        with progress(phase.name, phase.steps, self.step, unit="steps") as count_one:
            while self.step < phase.steps:
                logs = self._one_step(phase, module, optimiser)
                self.step += 1
                self.record.log(logs, self.recipe.optimiser.images)
                count_one()
                if time.monotonic() > due and self.step % self.recipe.optimiser.accumulate == 0:
                    self._require_sound(phase)
                    due = self._save(optimiser)
        self._require_sound(phase)
        net.eval()

    def _optimiser(self, net: nn.Module, phase: Phase) -> Any:
        settings = self.recipe.optimiser
        learnt = [parameter for parameter in net.parameters() if parameter.requires_grad]
        optimiser: torch.optim.Optimizer
        if settings.name == "sgd":
            optimiser = torch.optim.SGD(learnt, phase.rate, settings.momentum, weight_decay=settings.weight_decay)
        else:
            optimiser = torch.optim.AdamW(learnt, phase.rate, weight_decay=settings.weight_decay)
        if self._restored:
            load_optimiser(optimiser, self._restored)
        return self.fabric.setup_optimizers(optimiser)

    def _one_step(self, phase: Phase, module: Any, optimiser: Any) -> Logs:
        settings = self.recipe.optimiser
        torch.manual_seed(seed_for(self.recipe.seed, self.phase, self.step, self.fabric.global_rank))  # for dropout
        for group in optimiser.param_groups:
            group["lr"] = rate_at(self.step, phase, settings)
        views = self._views()
        last = (self.step + 1) % settings.accumulate == 0 or self.step + 1 == phase.steps
        with self.fabric.no_backward_sync(module, enabled=not last):
            loss, logs = module(*self._inputs(phase, views))
            self.fabric.backward(loss / settings.accumulate)
        if last:
            norm = self.fabric.clip_gradients(module, optimiser, max_norm=settings.clip, error_if_nonfinite=False)
            self._watch(phase, loss, norm)
            optimiser.step()
            optimiser.zero_grad()
        return {name: value.detach() for name, value in logs.items()}

    def _views(self) -> list[View]:
        """This process's share of the step's pictures."""
        chosen = showings(self.recipe, len(self.album), self.phase, self.step)
        own = chosen[self.fabric.global_rank :: self.fabric.world_size]
        return [self.album.view(one.index, one.scale, one.mirrored) for one in own]

    @torch.no_grad()
    def _inputs(self, phase: Phase, views: Sequence[View]) -> tuple[Any, ...]:
        """What a step needs besides the views: of the other net, which stands still."""
        if phase.kind == "warm":
            return (views,)
        # Not the stream that chose the pictures, and another one for the pictures of every process.
        generator = generator_for(self.recipe.seed, self.phase, self.step, self.fabric.global_rank, 1)
        rounds = self.recipe.rounds
        noise = noise_for(views, rounds.samples if rounds.noise else 0, generator)
        with self.fabric.autocast():
            if phase.kind == "conditional":
                return views, noise, prediction_outputs(self._prediction, views)
            outputs = conditional_outputs(self._conditional, views, noise)
        return views, [pseudo_truths(*one, rounds)[1] for one in zip(views, outputs, strict=True)]

    def _watch(self, phase: Phase, loss: Tensor, norm: Tensor | None) -> None:
        """Note whether the loss and the gradient's length are finite; look at every update on the CPU."""
        self._sound = self._sound & loss.detach().isfinite() & (loss.detach() if norm is None else norm).isfinite()
        update = self.step // self.recipe.optimiser.accumulate
        if self.fabric.device.type == "cpu" or update % LOOK_EVERY == 0:
            self._require_sound(phase)

    def _require_sound(self, phase: Phase) -> None:
        """Stop, before anything is saved, where something since the start was not finite."""
        if bool(self._sound):
            return
        where = f"{phase.name}, by step {min(self.step + 1, phase.steps)} of {phase.steps}"
        rate = rate_at(min(self.step, phase.steps - 1), phase, self.recipe.optimiser)
        left = f"the last good state is {self.checkpoint}" if self.checkpoint.exists() else "nothing was saved yet"
        raise TrainingError(f"the loss is not finite ({where}, learning rate {rate:g}); {left}: try a lower rate")

    def _conclude(self, phase: Phase) -> None:
        """What is said of a stage: scores, diversities, samples, and the weights themselves."""
        if phase.kind == "warm":
            self._say("wsddn", wsddn_scorer(self._warm), min_score=0.0)
            self._say("refined", refined_scorer(self._warm), min_score=self.recipe.inference.min_score)
            if not self.recipe.rounds.number:  # the detector is what the rounds would have started from
                net = prediction_from_mil(self._warm).to(self.fabric.device).eval()
                row = self._say("round-0", prediction_scorer(net), min_score=self.recipe.inference.min_score)
                if self.fabric.is_global_zero:
                    self._keep_weights(row, net)
        if phase.kind == "prediction":
            extra = measure_diversities(self._conditional, self._prediction, self.album, self.recipe)
            scorer = prediction_scorer(self._prediction)
            row = self._say(f"round-{phase.round}", scorer, min_score=self.recipe.inference.min_score, **extra)
            if self.fabric.is_global_zero:
                self._keep_weights(row, self._prediction)
                if self.report is not None:
                    nets = (self._conditional, self._prediction)
                    self.report.samples(follow(row["stage"], *nets, self.album, self.recipe))

    def _say(self, stage: str, scorer: Any, *, min_score: float, **extra: float) -> dict[str, Any]:
        if not self.fabric.is_global_zero:
            return {"stage": stage}
        row: dict[str, Any] = {"stage": stage, **extra}
        if self.evaluate is not None:
            with self.fabric.autocast():
                own = detect(scorer, self.album, self.recipe, tagged_only=True, min_score=min_score)
                other = None  # not "nothing found": no pictures to look at
                if self.val_album is not None:
                    other = detect(scorer, self.val_album, self.recipe, tagged_only=False, min_score=min_score)
            row |= self.evaluate(stage, own, other)
        row = self.record.add(row, self.fabric.device)
        if self.report is not None:
            self.report.results(self.record.rows)
        return row

    def _keep_weights(self, row: dict[str, Any], net: PredictionNet) -> None:
        """The detector of this stage and, where it is the best so far, that one and the net that taught it."""
        classes = self.album.dataset.classes
        save_detector(self.weights / "last.safetensors", net, self.recipe, classes)
        if self.record.is_best(row):
            if "conditional" in self.nets:
                save_detector(self.weights / "conditional.safetensors", self._conditional, self.recipe, classes)
            save_detector(self.weights / "best.safetensors", net, self.recipe, classes)

    def _save(self, optimiser: Any) -> float:
        """Write the state from which the run goes on as if nothing had happened; when to do so again."""
        began = time.monotonic()
        if not self.fabric.is_global_zero:
            return began + SAVE_EVERY_S
        # Once both nets have started the warm start has done its work.
        nets = {name: net for name, net in self.nets.items() if name != "warm" or len(self.nets) == 1}
        inner = None if optimiser is None else optimiser.optimizer
        state = {
            "phase": self.phase,
            "step": self.step,
            "nets": list(nets),
            "recipe": _plain(self.recipe),
            "data": _fingerprint(self.album.dataset),
            "record": self.record.state(),
        }
        save_state(self.checkpoint, nets, inner, state)
        now = time.monotonic()
        return now + max(SAVE_EVERY_S, 30 * (now - began))  # large nets take long to write


def _step_module(net: nn.Module, recipe: Recipe) -> nn.Module:
    if isinstance(net, MilNet):
        return WarmStep(net, recipe.warm)
    if isinstance(net, ConditionalNet):
        return ConditionalStep(net, recipe.rounds)
    assert isinstance(net, PredictionNet)
    return PredictionStep(net, recipe.rounds)


def build_warm(recipe: Recipe, classes: int) -> MilNet:
    """The warm start's net as the recipe says."""
    trunk, head = build_parts(recipe)
    warm = recipe.warm
    return MilNet(trunk=trunk, head=head, classes=classes, branches=warm.branches, regression=warm.regression)


def make_fabric(device: str, precision: str) -> "Fabric":
    """One process, or those that torchrun has started."""
    from lightning.fabric import Fabric

    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    nodes = int(os.environ.get("WORLD_SIZE", "1")) // local
    strategy = "ddp" if local * nodes > 1 else "auto"
    fabric = Fabric(
        accelerator=device,
        devices=local,
        num_nodes=nodes,
        strategy=strategy,
        precision=precision,  # type: ignore[arg-type]
    )
    fabric.launch()
    return fabric


def _fingerprint(dataset: Dataset) -> str:
    """Of what a run learns from: the classes, and the pictures with their tags, in order."""
    content = repr((dataset.classes, [(one.id, one.size, one.tags) for one in dataset]))
    return blake2b(content.encode(), digest_size=8).hexdigest()


def _plain(recipe: Recipe) -> Any:
    """The recipe as it comes back from JSON."""
    import json

    return json.loads(json.dumps(recipe.as_dict()))
