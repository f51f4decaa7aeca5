"""`train_run`: the warm start, then rounds of coordinate descent (METHOD §8); checkpoints and resume."""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tag2box import remembered
from tag2box.config import Recipe
from tag2box.data.records import Dataset
from tag2box.engine import inheriting
from tag2box.engine.checkpoint import fingerprint, load_net, plain, read_state, save_state, sweep
from tag2box.engine.feed import Feed
from tag2box.engine.findings import find_again
from tag2box.engine.hints import find_places, with_sureness
from tag2box.engine.known import fingerprint_of_known, retagged
from tag2box.engine.learning import Learner
from tag2box.engine.making import Nets, build_warm, make_fabric
from tag2box.engine.measure import refined_scorer
from tag2box.engine.plan import Phase, phases, seed_for
from tag2box.engine.record import Record, Report
from tag2box.engine.stages import Evaluate, Stages
from tag2box.engine.teacher import Looks, TeacherNet, look, look_of_nets
from tag2box.engine.views import Album, View
from tag2box.errors import InputError
from tag2box.files import atomic_path, write_atomically
from tag2box.known import Known
from tag2box.looks import keep_looks
from tag2box.nets.roi_head import CutHead
from tag2box.progress import progress
from tag2box.proposals.store import ProposalStore

SAVE_EVERY_S = 60.0
THREADS = 2
"""Of the CPU, for small tensors, where a GPU does the work."""
FIRST = "first.safetensors"
"""In `weights`, until the rounds: the warm start as lessons and tags have left it, to begin there again."""


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
    known: Known | None = None,
    warm_start: Path | None = None,
) -> None:
    """Train on tagged images and leave the weights in `out`/weights; with `resume`, go on from the last checkpoint.

    `evaluate` scores each stage, `val` holds pictures to score the detector on, `report` hears of each stage. `known`
    are boxes that a person has given for the purpose: the only ones that training can see. `warm_start` is another
    run, of which it is taken over.
    """
    run = Run(dataset, store, recipe, out, evaluate=evaluate, val=val, report=report, device=device, known=known)
    if resume:
        run.resume()
    begun = run.checkpoint.exists()
    run.fabric.barrier()  # before the first process writes one
    if warm_start is not None and not begun:
        run.inherit(warm_start)
    with few_threads() if run.fabric.device.type == "cuda" else nullcontext():
        run.go()


@contextmanager
def few_threads() -> Iterator[None]:
    """What is left to the CPU beside a GPU is small, and many threads wait for each other longer than they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, THREADS))
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
        known: Known | None = None,
    ) -> None:
        self.recipe = recipe
        known = {one.id: known[one.id] for one in dataset if known.get(one.id)} if known else {}
        dataset, self._decisions = retagged(dataset, known), fingerprint_of_known(known)
        self.fabric = make_fabric(device, recipe.precision)
        if recipe.optimiser.images % self.fabric.world_size:
            found = f"{recipe.optimiser.images} for {self.fabric.world_size} processes"
            raise InputError(f"optimiser.images: expected as many pictures in a step for each process, found {found}")
        torch.manual_seed(seed_for(recipe.seed))
        warm = build_warm(recipe, len(dataset.classes)).to(self.fabric.device)
        if recipe.data.keep_looks:
            keep_looks(warm.head, store.path.parent)
        self.nets = Nets(warm=warm)
        make = partial(Album, device=self.fabric.device, trunk=warm.trunk, head=warm.head)
        self.album = make(dataset, store, recipe.data, known=known)
        looked_at = replace(recipe.data, max_proposals=recipe.looked_at)  # nobody learns from the others
        self.val_album = None if val is None else make(*val, looked_at)
        self.feed = Feed(self.album, recipe, process=self.fabric.global_rank, processes=self.fabric.world_size)
        self.phases = phases(recipe, len(dataset))
        self.phase, self.step = 0, 0
        self.at_once: int | None = None  # pictures that go through a net together; by default all of a step
        self.weights, self.checkpoint = out / "weights", out / "weights" / "state.safetensors"
        self.weights.mkdir(parents=True, exist_ok=True)
        self.record = Record()
        self.stages = Stages(
            recipe, self.fabric, self.album, self.val_album, self.record, self.weights, evaluate, report, len(known)
        )
        self.teacher: TeacherNet | None = None
        self.looks: Looks | None = None
        self._restored: dict[str, Tensor] = {}

    def go(self) -> None:
        """Every phase that is left, each followed by what is said of it."""
        for album in (self.album, self.val_album) if self.phase < len(self.phases) else ():
            if album is not None:
                album.settle()
        if self.phase < len(self.phases):
            if self.recipe.teacher.name:
                self._look_first()
            if self.album.hints is None and self._was_anew() and (self.weights / remembered.FILE).exists():
                self._take_hints()
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
            sweep(self.weights)
        if not self.checkpoint.exists():
            return
        tensors, state = read_state(self.checkpoint)
        if state["recipe"] != plain(self.recipe) or state.get("data") != fingerprint(self.album.dataset):
            raise InputError(f"{self.checkpoint} was made with another recipe or data set; resume with the same")
        if state.get("known", "") != self._decisions:
            raise InputError(f"{self.checkpoint} was made with other known boxes; resume with the same")
        self.phase, self.step, self.at_once = state["phase"], state["step"], state.get("at_once")
        if "prediction" in state["nets"]:
            self.nets.start_rounds(self.recipe, self.fabric.device)
        if "lesson" in state["nets"]:
            self._call_teacher()
        for name in state["nets"]:
            load_net(self.nets[name], name, tensors)
        self._restored = tensors
        self.record.restore(state["record"])

    def inherit(self, other: Path) -> None:
        """Begin with the rounds, from the warm start of another run."""
        album = self.album
        tensors, state = inheriting.finished_warm_start(
            other, self.recipe, album.dataset, album.store, decided=bool(self._decisions)
        )
        load_net(self.nets.warm, "warm", tensors)
        self.phase = state["phase"]
        self.record.restore(state["record"])
        if self.fabric.is_global_zero:
            if (kept := other / "weights" / remembered.FILE).exists():
                write_atomically(self.weights / remembered.FILE, kept.read_bytes())
            self._save(None)
        self.fabric.barrier()

    def _was_anew(self) -> bool:
        """Whether the warm start has begun again, and its hints with it."""
        here = self.phases[self.phase]
        return here.anew > 0 or (here.round > 0 and self.recipe.warm.again > 0)

    def _begin(self, phase: Phase) -> None:
        for net in self.nets.values():
            net.eval()
        if phase.kind == "warm" and not self.step:
            self._start_anew() if phase.anew else self._keep_first_weights()
        if phase.kind in ("conditional", "prediction") and "prediction" not in self.nets:
            self._keep_warm_start()
            self.nets.start_rounds(self.recipe, self.fabric.device)
            self.nets.conditional.scale_noise(self._some_features())
            for net in self.nets.values():
                net.eval()

    def _keep_warm_start(self) -> None:
        """The rounds may begin once more, with what a person will have said by then: see `inheriting`."""
        if self.fabric.is_global_zero:
            with atomic_path(self.weights / inheriting.FILE) as temporary:
                shutil.copyfile(self.checkpoint, temporary)
            (self.weights / FIRST).unlink(missing_ok=True)

    def _keep_first_weights(self) -> None:
        """Those that the warm start begins with, where they were learnt and it is to begin with them again."""
        if self.phase and self.recipe.warm.again and self.fabric.is_global_zero:
            save_state(self.weights / FIRST, {"warm": self.nets.warm}, None, {})

    def _start_anew(self) -> None:
        """What the warm start has found becomes its hints, and it begins again with the weights it began with."""
        warm, regions = self.nets.warm, self.recipe.teacher.regions
        self.album.take_hints(None)  # it looks at proposals alone, as it does where it is resumed here
        if self.fabric.is_global_zero:
            found = find_again(refined_scorer(warm), self.album, self.recipe, self.fabric.autocast)
            boxes = [self.album.proposals(index)[:regions] for index in range(len(self.album))]
            kept = self.weights / remembered.FILE
            remembered.save_places(kept, found.places, boxes, self.album.dataset.ids, found.boxes)
        self.fabric.barrier()
        self._take_hints()
        if (self.weights / FIRST).exists():
            load_net(warm, "warm", read_state(self.weights / FIRST)[0])
            return
        torch.manual_seed(seed_for(self.recipe.seed))
        warm.load_state_dict(build_warm(self.recipe, warm.classes).state_dict())

    def _take_hints(self) -> None:
        places, found = remembered.load_places(self.weights / remembered.FILE)
        self.album.take_hints(with_sureness(places, self.album.tags), found)

    def _call_teacher(self) -> None:
        """The teacher, and the layer in which its classes are learnt."""
        settings, device = self.recipe.teacher, self.fabric.device
        torch.manual_seed(seed_for(self.recipe.seed, -3))
        self.teacher = TeacherNet(settings.name, settings.weights, settings.size).to(device)
        self.nets["lesson"] = nn.Linear(self.nets.warm.head.dim, self.teacher.classes).to(device)

    def _look_first(self) -> None:
        """Let the teacher look at all regions where lessons or hints are still to come of it; then the hints."""
        settings, kept = self.recipe.teacher, self.weights / remembered.FILE
        lessons = self.phases[self.phase].kind == "lessons"
        hints = settings.hints and not kept.exists()
        if lessons or hints:
            self.looks = self._look(lessons)
        if hints and self.fabric.is_global_zero and self.looks is not None:
            boxes = [self.album.proposals(index)[: settings.regions] for index in range(len(self.album))]
            number, seed, device = settings.hint_epochs, self.recipe.seed, self.fabric.device
            places = find_places(
                self.looks,
                boxes,
                self.album.tags,
                epochs=number,
                seed=seed,
                device=device,
                sizes=[image.size for image in self.album.dataset],
                common=settings.common,
            )
            remembered.save_places(kept, places, boxes, self.album.dataset.ids)
        self.fabric.barrier()
        if settings.hints:
            self._take_hints()
        if not lessons:
            self._dismiss_teacher()

    def _look(self, lessons: bool) -> Looks:
        """What the teacher sees; where the nets look through the same eye, and no lessons are wanted, what they see."""
        own, settings, seed = self.recipe.head, self.recipe.teacher, self.recipe.seed
        mapped = settings.hints and settings.common > 0
        theirs = (own.kind, self.recipe.backbone.name, self.recipe.backbone.weights, own.pixels)
        alike = theirs == ("cut", settings.name, settings.weights, settings.size)
        if alike and not lessons and self.album.keeps and (self.phase, self.step) == (0, 0):  # before it learns
            scale = self.recipe.data.scales[0]
            return look_of_nets(self.nets.warm, self.album, settings.regions, seed, scale, mapped=mapped)
        if self.teacher is None:
            self._call_teacher()
        assert self.teacher is not None
        return look(self.teacher, self.album, settings.regions, seed, self.fabric.autocast, mapped=mapped)

    def _dismiss_teacher(self) -> None:
        self.teacher, self.looks = None, None
        self.nets.pop("lesson", None)

    def _lessons(self, views: Sequence[View]) -> tuple[Any, ...]:
        """Regions of the views, and what the teacher made of them."""
        assert self.teacher is not None
        assert self.looks is not None
        seen = [self.looks.proposals[view.index] for view in views]
        boxes = [view.boxes[: len(own)] for view, own in zip(views, seen, strict=True)]
        vectors = torch.cat([own.to(self.fabric.device, non_blocking=True) for own in seen])
        return views, boxes, self.teacher.logits(vectors.float())

    @torch.no_grad()
    def _some_features(self) -> Tensor:
        """What the noise is put beside, of one picture: how large its values are."""
        view = self.album.view(0, self.recipe.data.scales[0])
        if view.pooled is not None or view.map is not None:
            kept = view.pooled if view.pooled is not None else view.map
            assert kept is not None
            return kept
        assert view.pixels is not None
        net = self.nets.warm
        features = net.trunk.features(view.pixels[None])
        return net.head.pool(features, [view.boxes]) if isinstance(net.head, CutHead) else features

    def _learn(self, phase: Phase) -> None:
        """The steps of a phase that are left."""
        learner = self.learner(phase)
        due, told = time.monotonic() + SAVE_EVERY_S, self.step
        with progress(phase.name, phase.steps, self.step, unit="steps") as count_one:
            while self.step < phase.steps:
                began = time.perf_counter()
                logs = learner.take_step()
                self.step, self.at_once = learner.step, learner.at_once
                seconds = time.perf_counter() - began
                if self.step > told:  # and not once more where it had to go back
                    self.record.log(logs, self.recipe.optimiser.images, seconds, self.feed.waited)
                    count_one()
                    told = self.step
                if time.monotonic() > due and self.step % self.recipe.optimiser.accumulate == 0:
                    learner.require_sound()
                    due = self._save(learner.optimiser)
        learner.require_sound()
        self.nets[phase.net].eval()

    def learner(self, phase: Phase) -> Learner:
        """What takes the steps of a phase, from where the run is in it."""
        return Learner(
            self.phase,
            phase,
            self.recipe,
            self.fabric,
            self.nets,
            self.feed,
            lessons=self._lessons,
            checkpoint=self.checkpoint,
            step=self.step,
            at_once=self.at_once,
            restored=self._restored,
        )

    def _conclude(self, phase: Phase) -> None:
        """What is said of a stage."""
        if phase.kind == "lessons":
            self.stages.lessons()
            self._dismiss_teacher()
        elif phase.kind == "tags":
            self.stages.tags()
        elif phase.kind == "warm":
            self.stages.warm(self.nets.warm, phase.anew)
        elif phase.kind == "prediction":
            self.stages.round(phase.round, self.nets.conditional, self.nets.prediction)

    def _save(self, optimiser: Any) -> float:
        """Write the state from which the run goes on as if nothing had happened; when to do so again."""
        began = time.monotonic()
        if not self.fabric.is_global_zero:
            return began + SAVE_EVERY_S
        # Once both nets have started the warm start has done its work.
        nets = {name: net for name, net in self.nets.items() if name != "warm" or "prediction" not in self.nets}
        inner = None if optimiser is None else optimiser.optimizer
        state = {
            "phase": self.phase,
            "step": self.step,
            "nets": list(nets),
            "recipe": plain(self.recipe),
            "data": fingerprint(self.album.dataset),
            "pictures": fingerprint(self.album.dataset, tags=False),
            "record": self.record.state(),
        }
        state |= {"known": self._decisions} if self._decisions else {}
        state |= {"at_once": self.at_once} if self.at_once else {}
        save_state(self.checkpoint, nets, inner, state)
        now = time.monotonic()
        return now + max(SAVE_EVERY_S, 30 * (now - began))  # large nets take long to write
