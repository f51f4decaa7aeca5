"""`tag2box train DATA`: tagged pictures in, a run directory with a detector out."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from tag2box.commands.parts import Part, Source, held_out, require_same_classes
from tag2box.commands.reviewed import COPY, choose_reviewed, describe, keep_reviewed, within
from tag2box.commands.run_folder import (
    DEFAULT,
    SETTINGS,
    Judge,
    RunReport,
    choose_folder,
    choose_recipe,
    complete_findings,
    require_place,
)
from tag2box.config import Recipe, write_recipe
from tag2box.data import Dataset
from tag2box.errors import InputError, name_some
from tag2box.evaluation.tables import counted
from tag2box.files import make_folder
from tag2box.known import Known
from tag2box.report.page import write_report
from tag2box.report.results import results_table


def train(
    data: Path,
    *,
    recipe: str | Path | None = None,
    out: Path | None = None,
    split: str | None = None,
    val_split: str | None = None,
    val_fraction: float | None = None,
    images: Path | None = None,
    proposals: Path | None = None,
    reviewed: Path | None = None,
    warm_start: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    device: str = "auto",
    workers: int | None = None,
    skip_bad_images: bool = False,
) -> Path:
    """Train on the tags of a data set; the run directory. See `tag2box.train` for what the arguments mean."""
    if val_split is not None and val_fraction is not None:
        raise InputError("expected one of --val-split and --val-fraction, found both")
    first = int(os.environ.get("RANK", "0")) == 0  # of the processes that torchrun has started
    if out is None and "RANK" in os.environ:
        raise InputError("expected --out RUN: several processes must agree on where to write")
    run = choose_folder(data, out, resume) if first or resume or out is None else out
    if first:  # another's trial file would make the folder look as if it were in use
        require_place(run)
    warm_start = _still_to_take(run, warm_start, resume)
    settings = choose_recipe(run, recipe, overrides or {}, resume, warm_start)
    if warm_start is not None:
        from tag2box.engine.inheriting import require_warm_start

        require_warm_start(warm_start, settings)  # before another net's weights are fetched
    source = Source(
        data=data,
        images=images,
        preset=settings.data.proposals,
        proposals=proposals,
        workers=workers,
        skip_bad_images=skip_bad_images,
    )
    source.listed(split)  # before weights are fetched for what is no data set
    _require_workable(settings, device)
    decisions = _decisions(source, split, run, reviewed, resume)
    own, other = _open_parts(source, split, val_split, val_fraction)
    console = Console(highlight=False, quiet=not first)
    _tell_of_recipe(settings, device, console, chosen=recipe is not None or warm_start is not None or resume)
    known = within(decisions, own.dataset)
    if known:
        console.print(describe(known, own.dataset, others=len(decisions) - len(known)), soft_wrap=True)
    own = fit_for_training(_retagged(own, known), settings.data.max_proposals, console)
    if warm_start is not None:
        from tag2box.engine.inheriting import require_same_data

        require_same_data(warm_start, settings, own.dataset, own.store, decided=bool(known))
    if other is not None and not other.truth:  # none, or not a single box
        console.print(f"the {len(other.dataset):,} held-out images have no boxes, so they cannot be scored")
    given = {"recipe": recipe, "out": run, "split": split, "val-split": val_split, "val-fraction": val_fraction}
    given |= {"images": images, "proposals": proposals, "reviewed": reviewed, "warm-start": warm_start}
    command = _started_with(run) or _command(data, {**given, **(overrides or {})})
    make_folder(run)
    if first and not (run / SETTINGS).exists():
        keep_reviewed(run, decisions)
        write_recipe(settings, run / SETTINGS, comment=command)
    try:
        report = RunReport(run, own.dataset.classes)
        _learn(own, other, settings, report, resume=resume, device=device, known=known, warm_start=warm_start)
        if first:
            _conclude(own, other, report, console)
            where = {"split": split, "images": images, "proposals": proposals}
            console.print(_what_next(run, data, where, known=bool(known)), soft_wrap=True, markup=False)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; go on with: {command} --resume") from None
    return run


def _still_to_take(run: Path, warm_start: Path | None, resume: bool) -> Path | None:
    """The run whose warm start is asked for, None where it was taken over before this one was stopped."""
    if (run / "weights" / "state.safetensors").exists():
        return None
    if warm_start is not None and not (warm_start / SETTINGS).is_file():
        raise InputError(f"expected a run to take the warm start of, found no {warm_start / SETTINGS}")
    if resume and warm_start is None and "--warm-start" in shlex.split(_started_with(run)):
        raise InputError(f"{run} was stopped before it had taken its warm start: expected --warm-start, found none")
    return warm_start


def _require_workable(settings: Recipe, device: str) -> None:
    """Find out before the proposals, which may take an hour, that there is no such device, net or weights."""
    from tag2box.detector import build_prediction_net, pick_device

    pick_device(device)
    build_prediction_net(settings, classes=1)
    if settings.teacher.name:
        from tag2box.engine.teacher import TeacherNet

        TeacherNet(settings.teacher.name, settings.teacher.weights, settings.teacher.size)


def _tell_of_recipe(settings: Recipe, device: str, console: Console, *, chosen: bool) -> None:
    """Which one it is where nobody said, and that it is none for this machine where it is not."""
    from tag2box.detector import pick_device

    if not chosen:
        console.print(f"recipe {DEFAULT}, since none is named; for large GPUs there is voc07", soft_wrap=True)
    trunk = settings.backbone
    if pick_device(device).type == "cpu" and trunk.frozen != "all" and trunk.name != "tiny":
        console.print(
            f"on a CPU, and {trunk.name} is to learn: that takes days with thousands of pictures; "
            "`fast` is the recipe for CPUs",
            soft_wrap=True,
        )


def _decisions(source: Source, split: str | None, run: Path, reviewed: Path | None, resume: bool) -> Known:
    """What a person has decided, where there is anything; read before the proposals, which may take an hour."""
    if reviewed is None and not (resume and (run / COPY).is_file()):
        return {}
    return choose_reviewed(run, reviewed, source.listed(split), resume)


def _open_parts(
    source: Source, split: str | None, val_split: str | None, val_fraction: float | None
) -> tuple[Part, Part | None]:
    """What to learn from and, where asked for, what to be scored on."""
    own = source.open(split)
    if val_fraction is not None:
        return held_out(own, val_fraction)
    if val_split is None:
        return own, None
    other = source.open(val_split)
    if set(own.dataset.ids) & set(other.dataset.ids):
        raise InputError(
            f"expected other images in --val-split {val_split} than in {own.dataset.split}, found shared ones"
        )
    classes = own.dataset.classes
    require_same_classes(classes, other.dataset.classes, of=own.dataset.split, and_of=val_split)
    return own, replace(other, dataset=replace(other.dataset, classes=classes))


def _retagged(part: Part, known: Known) -> Part:
    """With the tags that a person's decisions leave."""
    if not known:
        return part
    from tag2box.engine.known import retagged

    return replace(part, dataset=retagged(part.dataset, known))


def fit_for_training(part: Part, max_proposals: int, console: Console) -> Part:
    """The images that can be learnt from; what is odd about their tags is said in a line each.

    An image must have a proposal for each of its tags, since every tagged class labels at least one (eq. 4), and one at
    least. Others are left out and named. An image without a tag stays: it shows what none of the classes looks like.
    """
    fits = [min(len(part.store[one.id]), max_proposals) >= max(len(one.tags), 1) for one in part.dataset]
    misfits = [one.id for one, fit in zip(part.dataset, fits, strict=True) if not fit]
    if not any(fit and one.tags for one, fit in zip(part.dataset, fits, strict=True)):
        raise InputError(
            f"expected images with as many proposals as tags, found none (among them {name_some(misfits)})"
        )
    if misfits:
        console.print(f"left out, with fewer proposals than tags: {name_some(misfits)}", soft_wrap=True)
        part = part.subset(fits)
    _describe_tags(part.dataset, console)
    return part


def _describe_tags(dataset: Dataset, console: Console) -> None:
    tags = dataset.tag_matrix()
    untagged, counts = int((~tags.any(axis=1)).sum()), tags.sum(axis=0)
    classes = f"{len(dataset.classes)} {'class' if len(dataset.classes) == 1 else 'classes'}"
    console.print(f"learning {classes} from the tags of {len(dataset):,} images")
    if len(dataset.classes) == 1:  # what tells it from others is learnt from pictures without it
        console.print("with one class, what all its pictures share is learnt: add others, so that it has a contrast")
    if untagged:
        console.print(f"{counted(untagged, 'image')} without a tag: taken to show none of the classes")
    for count, words in ((0, "no image, so nothing to learn"), (1, "a single image, so little to learn")):
        names = [name for name, number in zip(dataset.classes, counts, strict=True) if number == count]
        if names:
            console.print(f"{words}, of {name_some(names)}", soft_wrap=True)


def _learn(own: Part, other: Part | None, recipe: Recipe, report: RunReport, **how: Any) -> None:
    from tag2box.engine.loop import train_run

    tags = {image.id: image.tags for image in own.dataset}
    train_run(
        own.dataset,
        own.store,
        recipe,
        report.run,
        evaluate=Judge(report.run, own.truth, None if other is None else other.truth, tags),
        val=None if other is None else (other.dataset, other.store),
        report=report,
        **how,
    )


def _conclude(own: Part, other: Part | None, report: RunReport, console: Console) -> None:
    """Print the table, write the page, and say where things are."""
    complete_findings(report.run, own, other)
    page = write_report(report.run)
    if report.rows:
        console.print(results_table(report.rows))
    console.print(f"the detector: {report.run / 'weights' / 'best.safetensors'}\nthe report: {page}", soft_wrap=True)


def _what_next(run: Path, data: Path, where: Mapping[str, Any], *, known: bool) -> str:
    """The command that most people want after this one."""
    labelling = {**where, "known": run / COPY, "format": "label-studio"}
    command, options = ("label", labelling) if known else ("review", where)
    why = "write boxes for other tools" if known else "look over what it found, the doubtful first"
    words = ["tag2box", command, str(run), str(data)]
    for name, value in options.items():
        words += [] if value is None else [f"--{name}", str(value)]
    return f"next, to {why}: {shlex.join(words)}"


def _started_with(run: Path) -> str:
    """The command that a run to be resumed was started with, as its settings' first line has it."""
    settings = run / SETTINGS
    line = settings.read_text(encoding="utf-8").partition("\n")[0] if settings.is_file() else ""
    return line.removeprefix("# ") if line.startswith("# tag2box train ") else ""


def _command(data: Path, options: Mapping[str, Any]) -> str:
    """What to type to get the same again."""
    words = ["tag2box", "train", str(data)]
    for name, value in options.items():
        if value is not None:
            words += [f"--{name}", ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)]
    return shlex.join(words)
