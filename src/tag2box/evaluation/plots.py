"""Precision–recall curves and proposal recall as pictures. matplotlib is loaded when drawing; no display needed."""

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tag2box.errors import InputError
from tag2box.evaluation.recall import RecallReport
from tag2box.evaluation.voc_ap import PrecisionRecall, average_precision_area
from tag2box.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#2f6db3", "#d9772b", "#8a8f98"
OWN = "DejaVu Sans"
"""The font that comes with matplotlib."""


def plot_pr_curves(classes: tuple[str, ...], curves: tuple[PrecisionRecall, ...], path: Path) -> None:
    """A small panel per class, all to one scale: twenty curves in one panel cannot be told apart."""
    from matplotlib.figure import Figure

    columns = max(1, math.ceil(math.sqrt(1.25 * len(classes))))
    rows = max(1, math.ceil(len(classes) / columns))
    figure = Figure(figsize=(1.9 * columns + 0.6, 1.9 * rows + 0.6), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for number, (panel, name, curve) in enumerate(zip(panels, classes, curves, strict=False), 1):
        fonts = _fonts_for(name)
        _draw_curve(panel, " ".join(name.split()) if fonts else f"#{number}", fonts or [OWN], curve)
    for panel in panels[len(classes) :]:
        panel.set_visible(False)
    figure.supxlabel("recall")
    figure.supylabel("precision")
    save(figure, path)


def plot_recall(report: RecallReport, path: Path) -> None:
    """Recall at IoU 0.5 and 0.7 and average best overlap against the number of boxes kept."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    kept = [boxes for boxes, _ in report.budgets]
    lines = (
        ("recall at IoU 0.5", BLUE, [reach.recall_50 for _, reach in report.budgets]),
        ("average best overlap", GREY, [reach.average_best_overlap for _, reach in report.budgets]),
        ("recall at IoU 0.7", ORANGE, [reach.recall_70 for _, reach in report.budgets]),
    )
    for label, colour, values in lines:
        axes.plot(kept, values, marker="o", markersize=4, color=colour, label=f"{label}: {values[-1]:.3f}")
    axes.set(xscale="log", ylim=(0, 1), xlabel="boxes kept per image (mean)", ylabel="share of objects")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_title(f"{report.overall.objects:,} objects in {report.images:,} images", fontsize="medium")
    _tidy(axes)
    axes.legend(frameon=False, loc="best", title=f"all {report.boxes_per_image:,.0f} boxes an image", alignment="left")
    save(figure, path)


def save(figure: "Figure", path: Path) -> None:
    """Write a figure, whole or not at all, in the format its name ends in."""
    ending = path.suffix[1:].lower() or "png"
    known = figure.canvas.get_supported_filetypes()
    if ending not in known:
        raise InputError(f"expected a picture ending in {', '.join(sorted(known))}, found {path.name}")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=ending, dpi=144)


@cache
def _fonts_for(name: str) -> list[str]:
    """matplotlib's own font and, if that lacks letters of the name, one that has them; nothing where none has."""
    from matplotlib.font_manager import fontManager, get_font

    letters = {ord(letter) for letter in name if not letter.isspace()}
    for font in sorted(fontManager.ttflist, key=lambda font: (font.name != OWN, font.weight, font.name)):
        # The last resort has a frame with a number for every letter there is.
        if not font.name.startswith("Last Resort") and all(map(get_font(font.fname).get_char_index, letters)):
            return list(dict.fromkeys((OWN, font.name)))
    return []


def _draw_curve(axes: "Axes", name: str, fonts: Sequence[str], curve: PrecisionRecall) -> None:
    """One class, with its AP (the area) in the title and its share below the curve shaded."""
    score = average_precision_area(curve)
    words = f"{name}  {'–' if math.isnan(score) else f'{100 * score:.1f}'}"
    axes.set_title(words, fontsize="small", fontfamily=fonts, parse_math=False)  # a name may have two dollar signs
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    if curve.positives:
        axes.fill_between(curve.recall, curve.precision, step="post", color=BLUE, alpha=0.15, linewidth=0)
        axes.step(curve.recall, curve.precision, where="post", color=BLUE, linewidth=1.2)
    _tidy(axes)


def _tidy(axes: "Axes") -> None:
    axes.grid(color="#e4e6ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
