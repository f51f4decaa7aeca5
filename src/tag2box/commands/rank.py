"""`tag2box rank`: where a human look pays most, and how far that order is to be trusted."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np
from rich import box as lines
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tag2box.boxes import as_box
from tag2box.commands.parts import Part, Source, Where, require_known_classes, require_tagged, tagged
from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.errors import InputError, require_choice
from tag2box.evaluation.ranking import DoubtScores, Verdict, judge_top, score_doubts
from tag2box.evaluation.ranking_plot import plot_risk
from tag2box.evaluation.tables import counted
from tag2box.files import make_folder, require_writable, write_atomically
from tag2box.progress import progress

if TYPE_CHECKING:
    from tag2box.pair import Pair, Study
    from tag2box.ranking import DoubtedImage
    from tag2box.report.rank_sheet import Shown


def rank_dataset(
    run: Path,
    data: Path,
    *,
    out: Path = Path("ranking.csv"),
    by: str = "doubt",
    top: int = 20,
    pictures: bool = True,
    only: Sequence[str] = (),
    split: str | None = None,
    device: str = "auto",
    **where: Unpack[Where],
) -> "list[DoubtedImage]":
    """Write the ranking and a sheet of its first pictures; print it and, where the data has boxes, what it is worth.

    only: of these classes, if any are named; other tags of their pictures are then neither ranked nor judged.
    """
    from tag2box.pair import open_pair
    from tag2box.ranking import ranking_csv

    sheet, curve = out.with_suffix(".jpg"), out.with_name(f"{out.stem}-risk.png")
    _require_sensible(out, by, top)
    for path in (out, *((sheet, curve) if pictures else ())):
        _require_place(path)
    pair = open_pair(run, device)
    source = Source(data=data, preset=pair.recipe.data.proposals, **where)
    listed = source.listed(split)
    require_known_classes(listed, pair.classes, run)
    require_tagged(listed, only)
    part = tagged(source.open(split), only)
    require_tagged(part.dataset, only)  # those may be the ones that were broken
    ranked = rank_part(pair, part, by, only)
    scores = score_ranking(ranked, part.truth)
    console = Console(highlight=False)
    make_folder(out.parent)
    write_atomically(out, ranking_csv(ranked))
    _print_top(ranked[:top], len(ranked), by, console)
    if scores is not None:
        _print_scores(scores, console)
    console.print(f"the ranking: {out}", soft_wrap=True, markup=False)
    if pictures:
        _draw(pair, part, ranked[:top], sheet)
        console.print(f"its first pictures: {sheet}", soft_wrap=True, markup=False)
    if pictures and scores is not None:
        plot_risk(scores.curves, curve)
        console.print(f"what it is worth: {curve}", soft_wrap=True, markup=False)
    return ranked


def rank_part(pair: "Pair", part: Part, by: str = "doubt", only: Sequence[str] = ()) -> "list[DoubtedImage]":
    """Every image, the most doubtful first; by these classes alone, if any are named."""
    from tag2box.ranking import doubts_of, in_order, studies

    found = []
    with progress("ranking", len(part.dataset)) as count_one:
        for image, study in studies(pair, part.dataset, part.store):
            found.append(doubts_of(pair, image, study, by, only))
            count_one()
    return in_order(found, by)


def score_ranking(ranked: "Sequence[DoubtedImage]", truth: GroundTruth | None) -> DoubtScores | None:
    """How well each doubt about a tag tells that its best box is wrong; None where there are no boxes to tell by."""
    from tag2box.ranking import BY

    tags = [(one.image.id, tag) for one in ranked for tag in one.classes]
    if truth is None or not len(truth) or not tags:
        return None
    places = {id: place for place, id in enumerate(truth.ids)}
    top = Detections(
        truth.classes,
        truth.ids,
        np.array([places[id] for id, _ in tags]),
        np.array([truth.classes.index(tag.name) for _, tag in tags]),
        np.ones(len(tags)),
        np.array([tag.box for _, tag in tags]),
    )
    verdicts = judge_top(truth, top)
    counts = [(tag, verdict) for (_, tag), verdict in zip(tags, verdicts, strict=True) if verdict != Verdict.UNCOUNTED]
    doubts = {name: [tag.doubts.by(name) for tag, _ in counts] for name in BY}
    return score_doubts(doubts, [verdict == Verdict.WRONG for _, verdict in counts]) if counts else None


def _require_sensible(out: Path, by: str, top: int) -> None:
    from tag2box.ranking import BY

    require_choice("--by", by, BY)
    if top < 1:
        raise InputError(f"expected --top 1 or more, found {top}")
    if out.suffix.lower() != ".csv":
        raise InputError(f"expected a file to write that ends in .csv, found {out}")


def _require_place(path: Path) -> None:
    """Find out before the work that a file cannot be written; makes nothing yet."""
    there = next(folder for folder in path.absolute().parents if folder.exists())
    require_writable(path if there == path.absolute().parent else there / path.name)


def _print_top(top: "Sequence[DoubtedImage]", number: int, by: str, console: Console) -> None:
    console.print(f"{counted(number, 'image')}, the most uncertain first (by {by})")
    table = Table(box=lines.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", justify="right")
    table.add_column("image", overflow="fold", max_width=20)
    table.add_column("tags", overflow="fold", max_width=20)
    headings = ("doubt", "distance", "dissim.", "self-div.", "conf.")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for rank, one in enumerate(top, 1):
        numbers = ["–"] * len(headings) if one.doubts is None else [f"{value:.3f}" for value in one.doubts.numbers()]
        tags = [tag.name for tag in one.classes] or one.image.tags
        # Texts, because a name in square brackets would be taken for a style.
        table.add_row(str(rank), Text(one.image.id), Text(", ".join(tags)), *numbers)
    console.print(table)


def _print_scores(scores: DoubtScores, console: Console) -> None:
    share = 100 * scores.wrong / scores.boxes
    console.print(
        f"the best boxes of {counted(scores.boxes, 'tag')}, {share:.1f} % of them wrong at IoU 0.5: who knows which?",
        soft_wrap=True,
    )
    table = Table(box=lines.SIMPLE_HEAD, pad_edge=False)
    table.add_column("by")
    table.add_column("AUROC", justify="right")
    table.add_column("AURC, %", justify="right")
    for name, curve in scores.curves.items():
        table.add_row(name, f"{scores.auroc[name]:.3f}", f"{100 * curve.area:.1f}")
    table.add_section()
    table.add_row("no order", "0.500", f"{share:.1f}")
    table.add_row("perfect order", "1.000", f"{100 * scores.perfect:.1f}")
    console.print(table)


def _draw(pair: "Pair", part: Part, top: "Sequence[DoubtedImage]", path: Path) -> None:
    from tag2box.ranking import studies
    from tag2box.report.colours import colours_of
    from tag2box.report.rank_sheet import draw_ranking

    wanted = {one.image.id: (rank, one) for rank, one in enumerate(top, 1)}
    again = part.subset([image.id in wanted for image in part.dataset])
    shown = {
        image.id: _shown(pair, *wanted[image.id], study) for image, study in studies(pair, again.dataset, again.store)
    }
    draw_ranking([shown[id] for id in wanted], path, colours_of(pair.classes))


def _shown(pair: "Pair", rank: int, one: "DoubtedImage", study: "Study | None") -> "Shown":
    from tag2box.report.rank_sheet import Shown

    truths = [] if study is None else study.truths
    samples = [
        [
            (pair.classes[label - 1], as_box(box))
            for box, label in zip(boxes.tolist(), labels.tolist(), strict=True)
            if pair.classes[label - 1] in one.image.tags  # some may not have been asked for
        ]
        for boxes, labels in truths
    ]
    words = [(f"{tag.name} {tag.doubts.labels.confidence:.2f}", tag.name) for tag in one.classes]
    caption: list[tuple[str, str | None]] = [(f"{rank}", None), *words]
    return Shown(one.image.path, [(tag.name, tag.box) for tag in one.classes], samples, caption)
