"""results.png: how a run went, stage by stage. matplotlib is loaded when drawing; no display needed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tag2box.evaluation.plots import BLUE, GREY, ORANGE, save
from tag2box.report.results import HEADINGS, Row, number, present, stage_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, FAINT, SHADE = "#2b2f38", "#e4e6ea", "#f5f4f0"
OTHERS = ("#3c8d5a", "#7a5c00", GREY, "#8a5fb0", "#b0413e", "#1c8f9c", "#c9579a", "#4b4fa3", "#8fae1b", "#5d3a1a")
COLOURS = {"map": BLUE, "corloc": ORANGE, "div_pc": "#8a5fb0", "div_cc": ORANGE, "div_pp": BLUE, "disc": "#b0413e"}
"""Blue is the prediction net's, orange the conditional net's."""
LEFT = -0.6  # where the axis begins, in stages
LAYOUTS = {1: "a", 2: "ab", 3: "aa;bc", 4: "ab;cd"}
"""The first panel is the one that people look for: where three would leave a gap, it is the wide one."""
NO_TRUTH = "No mAP and no CorLoc: there were no boxes to compare with."


@dataclass(frozen=True, slots=True)
class Panel:
    """Some columns of the results over some stages."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    scale: Literal["per cent", "from zero"]


def plot_results(rows: Sequence[Row], path: Path) -> None:
    """Accuracy, diversities, dissimilarity and losses, each where there is one, in the format `path` ends in."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    panels = panels_of(rows)
    layout = LAYOUTS[max(1, len(panels))]
    size = (10.5 if len(panels) > 1 else 6.4), (3.4 * len(layout.split(";")) if panels else 0.6)
    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.12))
    if panels:
        for axes, panel in zip(figure.subplot_mosaic(layout).values(), panels, strict=True):
            _draw(axes, panel)
    if not present(rows, ("map", "corloc")):
        figure.supxlabel(NO_TRUTH, fontsize=10, color=INK)
    save(figure, path)


def panels_of(rows: Sequence[Row]) -> list[Panel]:
    """Those that have something to show; a stage that knows none of a panel's columns is not on it."""
    losses = sorted({name for row in rows for name in row if "loss" in name.split("_")})
    wanted = (
        Panel("Accuracy, per cent", ("map", "corloc"), rows, "per cent"),
        Panel("Diversity between the nets and within each", ("div_pc", "div_cc", "div_pp"), rows, "from zero"),
        Panel("Dissimilarity of the nets: what training lowers", ("disc",), rows, "from zero"),
        Panel("Losses", losses, rows, "from zero"),
    )
    known = ((panel, [row for row in rows if present([row], panel.columns)]) for panel in wanted)
    return [Panel(panel.title, present(own, panel.columns), own, panel.scale) for panel, own in known if own]


def _draw(axes: "Axes", panel: Panel) -> None:
    """A line per column over the stages."""
    ends = []
    for column, colour in zip(panel.columns, line_colours(panel.columns), strict=True):
        values = [number(row, column) for row in panel.rows]
        x, y = zip(*((x, y) for x, y in enumerate(values) if math.isfinite(y)), strict=True)  # gaps are bridged
        axes.plot(x, y, "o-", color=colour, linewidth=2, markersize=6.5, markeredgecolor="white", clip_on=False)
        ends.append((float(y[-1]), f"{line_name(column)}  {short_value(column, y[-1])}", colour))
    stages = [str(row["stage"]) for row in panel.rows]
    axes.set_xlim(LEFT, len(stages) - 0.55)
    _set_scale(axes, panel)
    _tidy(axes, panel.title)
    _name_stages(axes, stages)
    _shade_warm_start(axes, stages)
    _name_lines(axes, ends)


def _set_scale(axes: "Axes", panel: Panel) -> None:
    low, high, logarithmic = limits(panel)
    if logarithmic:
        axes.set_yscale("log")
    elif low >= 0:
        axes.set_ylim(low, high)


def limits(panel: Panel) -> tuple[float, float, bool]:
    """Both ends of the axis, and whether it is logarithmic: as losses are that differ thirtyfold.

    Otherwise zero is on it, so that a small change looks small, unless something is below it.
    """
    values = [value for row in panel.rows for c in panel.columns if math.isfinite(value := number(row, c))]
    low, high = min(values), max(values)
    if panel.scale == "per cent":
        return 0.0, min(100.0, max(10.0, high * 1.15)), False
    if panel.title == "Losses" and high > 30 * low > 0:
        return low, high, True
    return (0.0, high * 1.15 or 1.0, False) if low >= 0 else (low, high, False)


def _name_lines(axes: "Axes", ends: Sequence[tuple[float, str, str]]) -> None:
    """Each line's name and last value at its end, pushed apart where they would overlap: no legend to look up."""
    to_share = axes.transData + axes.transAxes.inverted()
    order = sorted(range(len(ends)), key=lambda i: ends[i][0])
    heights = spread([float(to_share.transform((0, ends[i][0]))[1]) for i in order], apart=0.09)
    for i, height in zip(order, heights, strict=True):
        _, words, colour = ends[i]
        axes.annotate(
            words, (1.015, height), xycoords="axes fraction", color=colour, fontsize=10, va="center", fontweight="bold"
        )


def spread(heights: Sequence[float], apart: float) -> list[float]:
    """Rising heights moved as little as a sweep can so that neighbours are `apart`; a crowd is centred on itself.

    >>> [round(height, 2) for height in spread([0.5, 0.5, 0.9], apart=0.1)]
    [0.45, 0.55, 0.9]
    """
    groups: list[list[float]] = []
    for height in heights:
        group = [height]
        while groups and _bounds(groups[-1], apart)[1] + apart > _bounds(group, apart)[0]:
            group = groups.pop() + group
        groups.append(group)
    return [_bounds(group, apart)[0] + i * apart for group in groups for i in range(len(group))]


def _bounds(group: Sequence[float], apart: float) -> tuple[float, float]:
    """Lowest and highest place of a crowd."""
    middle, half = sum(group) / len(group), apart * (len(group) - 1) / 2
    return middle - half, middle + half


def _shade_warm_start(axes: "Axes", stages: Sequence[str]) -> None:
    """One net before, two nets after."""
    warm = sum(is_warm(stage) for stage in stages)
    if 0 < warm < len(stages):
        axes.axvspan(LEFT, warm - 0.5, color=SHADE, linewidth=0, zorder=0)
        across = axes.get_xaxis_transform()
        axes.text(LEFT, 1.02, "warm start", transform=across, fontsize=9, color=GREY)


def _name_stages(axes: "Axes", stages: Sequence[str]) -> None:
    """Words for the warm start, stepped so that they do not run into each other, and bare numbers for the rounds."""
    numbers = [i for i, stage in enumerate(stages) if stage.startswith("round-")]
    words = [short_stage(stage) for stage in stages]
    stepped = ["\n" * (i % 2 and i not in numbers) + word for i, word in enumerate(words)]
    axes.set_xticks(range(len(stages)), stepped if len(stages) > 4 else words)
    if numbers:
        below = (sum(numbers) / len(numbers), 0), "data", "axes fraction"
        axes.annotate(
            "round", below[0], (0, -17), xycoords=below[1:], textcoords="offset points", ha="center", va="top",
            fontsize=9.5, color=INK,
        )  # fmt: skip


def is_warm(stage: str) -> bool:
    """Whether it comes before the rounds.

    >>> [is_warm(stage) for stage in ("tags", "anew-1", "round-2")]
    [True, True, False]
    """
    return not stage.startswith("round-")


def short_stage(stage: str) -> str:
    """A stage as it is called below an axis.

    >>> [short_stage(stage) for stage in ("wsddn", "refined", "round-2")]
    ['WSDDN', 'refined', '2']
    """
    return stage_name(stage) if is_warm(stage) else stage.removeprefix("round-")


def line_colours(columns: Sequence[str]) -> list[str]:
    """A colour for each line of a panel: its own where it has one, and none twice while there are enough."""
    chosen: list[str] = []
    for column in columns:
        nets = [colour for net, colour in (("prediction", BLUE), ("conditional", ORANGE)) if net in column]
        wanted = [COLOURS[column]] if column in COLOURS else nets
        free = (colour for colour in (*wanted, *OTHERS, BLUE, ORANGE) if colour not in chosen)
        chosen.append(next(free, OTHERS[len(chosen) % len(OTHERS)]))
    return chosen


def line_name(column: str) -> str:
    """A column as its line is called."""
    return HEADINGS.get(column) or column.replace("_", " ").removesuffix(" loss").removeprefix("loss ")


def short_value(column: str, value: float) -> str:
    """A value beside its line's name, short enough for the room there.

    >>> [short_value("div_cc", value) for value in (0.0552, 0.00297, 0.000736, 0.00002)]
    ['0.055', '0.00297', '0.00074', '2e-05']
    """
    if column in ("map", "corloc"):
        return f"{value:.1f}"
    if 0.01 <= abs(value) < 100:
        return f"{value:.3f}"
    return f"{value:.2g}" if abs(value) < 0.001 else f"{value:.3g}"


def _tidy(axes: "Axes", title: str) -> None:
    axes.set_title(title, loc="left", fontsize=11, color=INK, pad=20)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    axes.tick_params(colors=INK, labelsize=9.5, length=0)
