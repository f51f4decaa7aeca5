"""The page's curves, drawn in it: they follow its width, its light and its dark, and stay sharp on paper."""

import math
from collections.abc import Callable, Sequence
from html import escape

from tag2box.report import svg
from tag2box.report.curves import (
    Panel,
    is_warm,
    limits,
    line_colours,
    line_name,
    short_stage,
    short_value,
    spread,
)
from tag2box.report.findings import SHOWN_FROM, Curve, Reached
from tag2box.report.results import number

WIDTH, HEIGHT = 440, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 124, 26, 42  # around the plot, for what is written there
SIDE, BESIDE, TOP_EDGE, BELOW = 120, 18, 5, 16
"""Of the square of a precision–recall curve, what is left for words beside and below it, and for a mark at its top."""


def stage_chart(panel: Panel) -> str:
    """A line per column over the stages, its name and last value at its end."""
    stages = [str(row["stage"]) for row in panel.rows]
    low, high, logarithmic = limits(panel)
    ticks = powers(low, high) if logarithmic else round_ticks(low, high)
    low, high = min(low, ticks[0]), max(high * (1.3 if logarithmic else 1), ticks[-1])

    def at_x(place: float) -> float:
        return LEFT + (place + 0.5) / len(stages) * (WIDTH - LEFT - RIGHT)

    def at_y(value: float) -> float:
        if logarithmic:
            share = (math.log(value) - math.log(low)) / (math.log(high / low) or 1)
        else:
            share = (value - low) / (high - low or 1)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = [*_warm_start(stages, at_x), *_scale(ticks, [at_y(tick) for tick in ticks])]
    ends = []
    for column, colour in zip(panel.columns, line_colours(panel.columns), strict=True):
        points = [
            (at_x(place), at_y(value))
            for place, row in enumerate(panel.rows)
            if _drawn(value := number(row, column), low)
        ]
        last = next(value for row in reversed(panel.rows) if math.isfinite(value := number(row, column)))
        own = f'style="--k:{colour}"'
        parts += [svg.path(points, kind="line", more=own), svg.dots(points, 3.2, kind="dot", more=own)]
        ends.append((points[-1][1] if points else at_y(low), f"{line_name(column)} {short_value(column, last)}", own))
    return _figure(panel.title, [*parts, *_stage_names(stages, at_x), *_ends(ends)])


def recall_chart(reached: Sequence[Reached]) -> str:
    """Which share of the objects the first so many boxes of a picture reach, at IoU 0.5 and 0.7."""
    one = reached[-1]
    known = [(boxes, r50, r70) for boxes, r50, r70 in one.budgets if boxes > 0 and r50 is not None and r70 is not None]
    if len(known) < 2:
        return ""
    first, last = math.log(known[0][0]), math.log(known[-1][0])

    def at_x(boxes: float) -> float:
        return LEFT + 8 + (math.log(boxes) - first) / ((last - first) or 1) * (WIDTH - LEFT - RIGHT - 16)

    def at_y(share: float) -> float:
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = _scale([0, 25, 50, 75, 100], [at_y(share / 100) for share in (0, 25, 50, 75, 100)])
    ends = []
    for place, (name, colour) in enumerate((("IoU 0.5", "#2f6db3"), ("IoU 0.7", "#d9772b")), 1):
        points = [(at_x(row[0]), at_y(float(row[place]))) for row in known]
        own = f'style="--k:{colour}"'
        parts += [svg.path(points, kind="line", more=own), svg.dots(points, 3.2, kind="dot", more=own)]
        ends.append((points[-1][1], f"{name} {100 * known[-1][place]:.1f}", own))
    taken = -math.inf
    for boxes, *_ in known:
        words = f"{boxes:,.0f}"
        if at_x(boxes) - taken > 7 * len(words) + 4:
            parts.append(svg.text(at_x(boxes), HEIGHT - BOTTOM + 16, words, anchor="middle"))
            taken = at_x(boxes)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(svg.text(middle, HEIGHT - 8, "boxes kept of a picture, on average", anchor="middle"))
    return _figure(f"Objects reached, per cent ({one.part} pictures)", [*parts, *_ends(ends)])


def precision_recall_chart(curve: Curve) -> str:
    """A small square: recall to the right, precision upwards; a dot at the counts' score, a ring at `predict`'s."""

    def at(recall: float, precision: float) -> tuple[float, float]:
        return left + SIDE * min(recall, 1), TOP_EDGE + SIDE * (1 - min(precision, 1))

    left = BESIDE
    right, bottom, (middle, half) = left + SIDE, TOP_EDGE + SIDE, at(0.5, 0.5)
    parts = [
        svg.rectangle(left, TOP_EDGE, SIDE, SIDE, kind="frame"),
        svg.line(left, half, right, half, kind="grid"),
        svg.line(middle, TOP_EDGE, middle, bottom, kind="grid"),
        *_pr_scale(left, right, bottom),
    ]
    points = [at(recall, precision) for recall, precision in zip(curve.recall, curve.precision, strict=False)]
    if points:
        points = [(left, points[0][1]), *points]
        under = svg.path([*points, (points[-1][0], bottom), (left, bottom)], kind="under", closed=True)
        parts += [under, svg.path(points, kind="curve")]
    parts += [
        svg.dots(
            [at(recall, precision)],
            3.4,
            kind="mark ring" if score == SHOWN_FROM else "mark",
            title=f"score {score:.2f} or more: precision {precision:.2f}, recall {recall:.2f}",
        )
        for score, recall, precision in reversed(curve.marks)
    ]
    score = "–" if curve.ap is None else f"{curve.ap:.1f}"
    words = f"Precision–recall curve of {curve.name}, AP {score}"
    picture = svg.drawing(right + 4, bottom + BELOW, parts, kind="pr", words=words)
    return f"<figure><figcaption><b>{score}</b> {escape(curve.name)}</figcaption>{picture}</figure>"


def _pr_scale(left: float, right: float, bottom: float) -> list[str]:
    """Both ends of both axes, and what they are of."""
    middle, half = (left + right) / 2, TOP_EDGE + SIDE / 2
    turn = f'transform="rotate(-90 {left - 5:.1f} {half:.1f})"'
    return [
        svg.text(left, bottom + 11, "0", anchor="start"),
        svg.text(middle, bottom + 11, "recall", anchor="middle"),
        svg.text(right, bottom + 11, "1", anchor="end"),
        svg.text(left - 4, bottom, "0", anchor="end"),
        svg.text(left - 5, half, "precision", anchor="middle", more=turn),
        svg.text(left - 4, TOP_EDGE + 8, "1", anchor="end"),
    ]


def round_ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers from one end of an axis to the other.

    >>> round_ticks(0, 71.6), round_ticks(0, 0.12), round_ticks(-3, 5)
    ([0.0, 20.0, 40.0, 60.0], [0.0, 0.05, 0.1], [-2.0, 0.0, 2.0, 4.0])
    """
    step = 10.0 ** math.floor(math.log10((high - low) / about or 1))
    step *= next(factor for factor in (1, 2, 5, 10) if step * factor >= 0.999 * (high - low) / about)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def powers(low: float, high: float) -> list[float]:
    """Powers of ten between both ends, or just beyond them.

    >>> powers(0.0009, 3), powers(0.02, 0.09)
    ([0.001, 0.01, 0.1, 1.0], [0.1])
    """
    first, last = math.ceil(math.log10(low) - 0.3), math.floor(math.log10(high) + 0.3)
    return [10.0**power for power in range(first, last + 1)] or [low, high]


def _drawn(value: float, low: float) -> bool:
    return math.isfinite(value) and value >= low


def _figure(title: str, parts: Sequence[str]) -> str:
    picture = svg.drawing(WIDTH, HEIGHT, parts, kind="plotted", words=title)
    return f'<figure class="chart"><figcaption>{escape(title)}</figcaption>{picture}</figure>'


def _scale(ticks: Sequence[float], heights: Sequence[float]) -> list[str]:
    parts = []
    for tick, y in zip(ticks, heights, strict=True):
        parts += [
            svg.line(LEFT, y, WIDTH - RIGHT, y, kind="grid"),
            svg.text(LEFT - 7, y + 4, f"{tick:g}", anchor="end"),
        ]
    return parts


def _ends(ends: Sequence[tuple[float, str, str]]) -> list[str]:
    """The names of the lines at their ends, pushed apart where they would overlap."""
    order = sorted(ends)
    heights = spread([height for height, _, _ in order], apart=15)
    return [
        svg.text(WIDTH - RIGHT + 8, y + 4, words, kind="end", more=own)
        for y, (_, words, own) in zip(heights, order, strict=True)
    ]


def _warm_start(stages: Sequence[str], at_x: Callable[[float], float]) -> list[str]:
    """One net before, two nets after."""
    warm = sum(is_warm(stage) for stage in stages)
    if not 0 < warm < len(stages):
        return []
    shade = svg.rectangle(LEFT, TOP, at_x(warm - 0.5) - LEFT, HEIGHT - TOP - BOTTOM, kind="shade")
    return [shade, svg.text(LEFT, TOP - 8, "warm start")]


def _stage_names(stages: Sequence[str], at_x: Callable[[float], float]) -> list[str]:
    """Words stepped so that they do not run into each other, numbers for the rounds, and what the numbers are."""
    y, rounds = HEIGHT - BOTTOM + 16, [place for place, stage in enumerate(stages) if stage.startswith("round-")]
    every = -(-len(stages) // 14)
    parts = [
        svg.text(at_x(place), y + 14 * (place % 2 and place not in rounds), short_stage(stage), anchor="middle")
        for place, stage in enumerate(stages)
        if place not in rounds or (place - rounds[0]) % every == 0
    ]
    if rounds:
        parts.append(svg.text(at_x((rounds[0] + rounds[-1]) / 2), y + 16, "round", anchor="middle"))
    return parts
