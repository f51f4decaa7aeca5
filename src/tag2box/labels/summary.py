"""What labels there are, class by class, and how good they are where somebody has drawn boxes."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from tag2box.evaluation.label_quality import LabelQuality, in_all
from tag2box.labels.records import LabelledSet

Summary = dict[str, Any]
"""`{"all": {"boxes": 9, "images": 4, "objects": 8, "precision": 66.7, "recall": 75.0}, "per_class": {"cat": {…}, …}}`:
percentages, unrounded; what is against annotated objects, only where there are any."""


def summarise(labelled: LabelledSet, quality: Mapping[str, LabelQuality] | None = None) -> Summary:
    """Count the labels, and put their quality beside where it is known."""
    held = [Counter(label.name for label in image.labels) for image in labelled.images]
    boxes, images = sum(held, Counter()), Counter(name for own in held for name in own)
    per_class: dict[str, Any] = {name: {"boxes": boxes[name], "images": images[name]} for name in labelled.classes}
    everything: dict[str, Any] = {"boxes": boxes.total(), "images": sum(map(bool, held))}
    if quality is not None:
        for name, row in per_class.items():
            row.update(_judged(quality[name]))
        everything.update(_judged(in_all(quality.values())))
    return {"all": everything, "per_class": per_class}


def _judged(quality: LabelQuality) -> dict[str, Any]:
    return {"objects": quality.objects, "precision": 100 * quality.precision, "recall": 100 * quality.recall}


def summary_table(summary: Summary) -> Table:
    """A row per class in the data set's order, all together last."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("class", overflow="fold")
    for heading in summary["all"]:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, row in summary["per_class"].items():
        table.add_row(escape(name), *map(_shown, row.values()))
    table.add_section()
    table.add_row("all", *map(_shown, summary["all"].values()), style="bold")
    return table


def _shown(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return "–" if math.isnan(value) else f"{value:.1f}"
