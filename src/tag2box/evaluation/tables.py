"""Scores and recalls for the eye: rich tables of at most 80 columns, plain text where the output is no terminal."""

import math
from collections.abc import Iterable
from typing import Any

from rich import box
from rich.table import Table

from tag2box.evaluation.coco_ap import SUMMARY
from tag2box.evaluation.recall import Reach, RecallReport
from tag2box.evaluation.scores import Scores

HEADINGS = {"voc07": "VOC07 AP", "voc12": "VOC12 AP", "corloc": "CorLoc", "coco": "COCO AP"}
COCO_HEADINGS = (
    "AP50",
    "AP75",
    "APs",
    "APm",
    "APl",
    "AR1",
    "AR10",
    "AR100",
    "ARs",
    "ARm",
    "ARl",
)  # SUMMARY without the mean


def counted(number: int, noun: str) -> str:
    """A number of things in words.

    >>> counted(1, "image"), counted(4952, "image")
    ('1 image', '4,952 images')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def scores_table(scores: Scores) -> Table:
    """A row per class in the data set's order, a column per metric, the mean last."""
    table = _table([HEADINGS[metric] for metric in scores], first="class")
    classes = list(next(iter(scores.values()))["per_class"])
    for name in classes:
        table.add_row(name, *(_percent(score["per_class"][name]) for score in scores.values()))
    table.add_section()
    table.add_row("mean", *(_percent(score["mean"]) for score in scores.values()), style="bold")
    return table


def coco_table(coco: dict[str, Any]) -> Table:
    """COCO's other numbers in one row: at fixed IoU, by object size, and recall with 1, 10 and 100 detections."""
    table = _table(COCO_HEADINGS)
    table.padding = (0, 0, 0, 0)  # eleven times 100.0 fit in 80 columns
    table.add_row(*(_percent(coco[name]) for name in SUMMARY[1:]))
    return table


def recall_table(report: RecallReport) -> Table:
    """What proposals reach: by class, by size, and over all objects."""
    table = _table(["number", "recall@0.5", "recall@0.7", "best overlap"], first="objects")
    for group in (report.per_class, report.per_size):
        _add_reach(table, group.items())
        table.add_section()
    _add_reach(table, [("all", report.overall)], style="bold")
    return table


def _add_reach(table: Table, rows: Iterable[tuple[str, Reach]], style: str | None = None) -> None:
    for name, reach in rows:
        shares = (reach.recall_50, reach.recall_70, reach.average_best_overlap)
        table.add_row(name, f"{reach.objects:,}", *(_percent(100 * share) for share in shares), style=style)


def _table(numbers: Iterable[str], first: str | None = None) -> Table:
    """Columns of numbers, after a first one of names."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    if first:
        table.add_column(first, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _percent(value: float) -> str:
    """One decimal; a dash where there was nothing to find."""
    return "–" if math.isnan(value) else f"{value:.1f}"
