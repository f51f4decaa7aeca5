"""A run directory: which one, with which settings, and what a run writes into it as it goes."""

import math
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tag2box.commands.parts import Part
from tag2box.config import Recipe, differences, load_recipe
from tag2box.data import folder_of
from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.errors import InputError, name_some
from tag2box.evaluation.plots import plot_pr_curves
from tag2box.evaluation.recall import Reach, RecallReport, proposal_recall
from tag2box.evaluation.scores import evaluate
from tag2box.evaluation.voc_ap import precision_recall
from tag2box.files import make_folder, require_writable
from tag2box.report.curves import plot_results
from tag2box.report.example_pictures import keep_pictures
from tag2box.report.findings import PICTURES, Findings, read_findings, write_findings
from tag2box.report.results import in_a_line, write_results
from tag2box.report.sample_pictures import draw_all_samples
from tag2box.report.samples import SampleView, append_samples, read_samples
from tag2box.report.sum_up import reached, sum_up

if TYPE_CHECKING:
    from tag2box.engine.record import Followed

SETTINGS = "args.yaml"
DEFAULT = "fast"
"""The recipe of a run for which none was named."""
MOST_MEASURED = 10_000
"""Pictures from whose proposals their recall is taken."""


def choose_folder(data: Path, out: Path | None, resume: bool) -> Path:
    """The run directory: the one asked for, or the next free runs/NAME-1, …-2. One in use must be meant: `resume`."""
    if out is None:
        if resume:
            raise InputError("expected --out RUN beside --resume: which run is to go on?")
        name, number = folder_of(data).resolve().name or "data", 1
        while (free := Path("runs") / f"{name}-{number}").exists():
            number += 1
        return free
    if out.exists() and not out.is_dir():
        raise InputError(f"expected a folder to write the run to, found a file: {out}")
    if out.is_dir() and any(out.iterdir()):
        if not resume:
            raise InputError(f"{out} is not empty; go on with --resume, or write elsewhere with --out")
        if not (out / SETTINGS).is_file():
            raise InputError(f"expected a run to resume in {out}, found a folder without {SETTINGS}")
    elif resume:
        raise InputError(f"{out}: expected a run to go on with, found nothing")
    return out


def require_place(run: Path) -> None:
    """Find out before the work that the run directory cannot be made or written to; makes nothing yet."""
    there = next(folder for folder in (run, *run.absolute().parents) if folder.exists())
    if not there.is_dir():
        raise InputError(f"expected a folder to write the run to, found a file: {there}")
    require_writable(there / SETTINGS)


def choose_recipe(
    run: Path, recipe: str | Path | None, overrides: Mapping[str, Any], resume: bool, warm_start: Path | None = None
) -> Recipe:
    """The recipe asked for, else that of the run whose warm start is taken, else `fast`, which any machine can do.

    A resumed run keeps its own, and what is asked may not contradict it.
    """
    if not resume or not (run / SETTINGS).is_file():
        default = DEFAULT if warm_start is None else warm_start / SETTINGS
        return load_recipe(default if recipe is None else recipe, overrides)
    own = load_recipe(run / SETTINGS)
    asked = load_recipe(run / SETTINGS if recipe is None else recipe, overrides)
    if asked != own:
        where = name_some(differences(own.as_dict(), asked.as_dict()), 3)
        raise InputError(f"expected the settings that {run} was started with, found others: {where}")
    return own


class Judge:
    """Scores a stage's detections against boxes, which training itself never sees. NaN where there are none.

    Of the round that is kept as the best it leaves evaluation.json and PR_curve.png for the report.
    """

    def __init__(
        self,
        run: Path,
        own: GroundTruth | None,
        other: GroundTruth | None,
        tags: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """tags: of the pictures learnt from; CorLoc is then over them, and not over all that is annotated."""
        self.run, self.own, self.other, self.tags = run, own, other, tags
        kept = read_findings(run)  # of a run that is resumed
        self._best = -math.inf if kept is None else _measure(kept)

    def __call__(self, stage: str, own: Detections, other: Detections | None) -> dict[str, float]:
        """CorLoc on the pictures learnt from, or those of them looked at, and mAP (VOC 2007) on the others, in %."""
        truth = None if self.own is None else self.own.subset(own.ids)
        if not stage.startswith("round"):
            tagged = truth if truth is None or self.tags is None else truth.of_tags(self.tags)
            return {"map": _mean(self.other, other, "voc07"), "corloc": _mean(tagged, own, "corloc")}
        findings = sum_up(stage, truth, own, self.other, other, self.tags)
        if _measure(findings) >= self._best:
            self._best = _measure(findings)
            write_findings(self.run, findings)
            if self.other is not None and other is not None:
                plot_pr_curves(self.other.classes, precision_recall(self.other, other), self.run / "PR_curve.png")
        scores = {"map": findings.map, "corloc": findings.corloc}
        return {name: math.nan if score is None else score for name, score in scores.items()}


def _measure(findings: Findings) -> float:
    """By which a round is the best so far: mAP, else CorLoc; with neither, the last one always is."""
    known = [score for score in (findings.map, findings.corloc) if score is not None]
    return known[0] if known else -math.inf


def _mean(truth: GroundTruth | None, found: Detections | None, metric: str) -> float:
    if truth is None or found is None:
        return math.nan
    return float(evaluate(truth, found, [metric])[metric]["mean"])


def complete_findings(run: Path, own: Part, other: Part | None) -> None:
    """Add to evaluation.json what does not change from round to round, and copy the pictures that it speaks of."""
    findings = read_findings(run)
    if findings is None:
        return
    shown = other if findings.shown == "held-out" and other is not None else own
    images = {image.id: image for image in shown.dataset}
    most = load_recipe(run / SETTINGS).looked_at
    parts = [("training", own), *([("held-out", other)] if other is not None else [])]
    reports = {name: report for name, part in parts if (report := _reached(part, most)) is not None}
    reach = reports[max(reports, key=lambda name: name == findings.shown)].per_class if reports else {}
    tagged = dict(zip(own.dataset.classes, own.dataset.tag_matrix().sum(axis=0).tolist(), strict=True))
    classes = [
        replace(one, pictures=tagged.get(one.name), reached=_per_cent(reach.get(one.name))) for one in findings.classes
    ]
    write_findings(
        run,
        replace(
            findings,
            classes=tuple(classes),
            learnt_from=len(own.dataset),
            examples=keep_pictures(run / PICTURES, findings.examples, images),
            proposals=tuple(reached(name, report) for name, report in reports.items()),
            finished=date.today().isoformat(),
        ),
    )


def _reached(part: Part, most: int) -> RecallReport | None:
    """What the proposals that a detector is shown reach, on pictures from all over the part where there are many."""
    if not part.truth:
        return None
    step = -(-len(part.truth.ids) // MOST_MEASURED)
    return proposal_recall(part.truth.subset(part.truth.ids[::step]), lambda id: part.store[id][:most])


def _per_cent(reach: Reach | None) -> float | None:
    return None if reach is None or math.isnan(reach.recall_50) else 100 * reach.recall_50


class RunReport:
    """Writes what a run says of itself: results.csv, results.png, and samples/ as in the paper's figure 2."""

    def __init__(self, run: Path, classes: Sequence[str]) -> None:
        self.run, self.classes = run, classes
        self.rows: list[dict[str, Any]] = []

    def results(self, rows: list[dict[str, Any]]) -> None:
        """All stages so far."""
        self.rows = rows
        write_results(self.run / "results.csv", rows)
        plot_results(rows, self.run / "results.png")
        if not sys.stderr.isatty():  # where there is no bar to watch, a log
            print(in_a_line(rows[-1]), file=sys.stderr, flush=True)

    def samples(self, followed: "list[Followed]") -> None:
        """The pictures that are followed, after the stage just finished."""
        folder = self.run / "samples"
        make_folder(folder)
        append_samples(folder / "samples.jsonl", map(_view, followed))
        draw_all_samples(read_samples(folder / "samples.jsonl"), folder, classes=self.classes)


def _view(one: "Followed") -> SampleView:
    return SampleView(one.image.path, one.image.id, one.stage, one.image.tags, one.prediction, one.samples)
