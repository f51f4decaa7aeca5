"""The page's section with pictures: where the detector is right, where it is wrong, and what it has missed."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from itertools import combinations, pairwise
from pathlib import Path

from tag2box.evaluation.mistakes import Kind
from tag2box.report import page_parts as html
from tag2box.report import svg
from tag2box.report.findings import PICTURES, AtScore, Example, Findings, ShownBox
from tag2box.report.sample_panels import Corners, free_place
from tag2box.report.words import share_of, shorten

HIGH = 230
"""Of a picture, in the units of its drawing."""
LEAST = 110
"""Its shortest side; a narrower picture has room beside it."""
MOST_LABELS = 5
ROW = 4.0
"""How much wider than high a row of pictures is, about."""
EDGE = 1.5
LABEL, LETTER = 17, 6.3  # a label's height and about the width of a letter

Shot = tuple[float, str]
"""How many times wider than high it is, and the picture with its words."""

GROUPS = {
    "best": ("Best", "Where most is found, with the boxes closest to the objects."),
    "wrong": ("Surest, and wrong", "The highest-scoring boxes that are not on an object of their class at IoU 0.5."),
    "missed": ("Missed", "The largest objects that no box has found at IoU 0.5."),
    "sure": ("Surest", "The pictures whose tag has the highest-scoring box."),
    "unsure": (
        "Least sure",
        "The pictures whose tag has only low-scoring boxes: a tag that is wrong, an object that is hidden or tiny, or "
        "a look that was not learnt. Here a human look pays most.",
    ),
}
ROLES = {
    "truth": "annotated",
    "right": "right",
    "wrong": "wrong",
    "missed": "missed",
    "found": "on a difficult object or a crowd: not counted",
}
KINDS = {
    Kind.RIGHT: "right",
    Kind.PART: "only a part of the object",
    Kind.GROUP: "several objects in one box",
    Kind.LARGE: "too large a box",
    Kind.BESIDE: "off the mark",
    Kind.MISTAKEN: "on an object of another class",
    Kind.AGAIN: "on an object already found",
    Kind.NOTHING: "nothing there",
}


def examples_section(run: Path, findings: Findings | None) -> str:
    """Counts of what is right and wrong, and pictures of each; without boxes, of what is sure and what is not."""
    if findings is None:
        return ""
    parts = [part for group in GROUPS for part in _group(run, group, findings.examples)]
    key = _key(findings.examples) if parts else ""
    if findings.at_score is not None:
        return html.section("Right and wrong", *_sorted(findings.at_score, findings.test_images), key, *parts)
    if any(example.group == "sure" for example in findings.examples):
        words = (
            "Nobody has told where the objects are, so nobody can say what is right. This is what the detector itself "
            "is sure of, on the pictures it has learnt from: the best box of each tag, with its score."
        )
        return html.section("Sure and unsure", html.paragraph(words) if parts else "", *parts)
    words = "On the pictures learnt from: the best box of each tag, which is what CorLoc counts."
    return html.section("Right and wrong", html.paragraph(words) if parts else "", key, *parts)


def _sorted(at_score: AtScore, images: int | None) -> list[str]:
    """What its boxes are, in numbers."""
    where = "the held-out pictures" if images is None else f"{images:,} held-out pictures"
    words = (
        f"On {where}, with boxes of a score of at least {at_score.score:.2f}, where finding much and being right "
        f"balance best (F1): {at_score.found:,} of {at_score.objects:,} objects are found "
        f"({share_of(at_score.found, at_score.objects)}), and {share_of(at_score.found, _total(at_score))} of the "
        f"{_total(at_score):,} boxes are right."
    )
    counts = [(words, at_score.kinds.get(kind, 0)) for kind, words in KINDS.items()]
    most = max([count for _, count in counts] or [0]) or 1
    rows = [(name, count, share_of(count, _total(at_score)), 100 * count / most) for name, count in counts if count]
    return [html.paragraph(words), html.bars(rows, first="right")]


def _total(at_score: AtScore) -> int:
    return sum(at_score.kinds.get(kind, 0) for kind in KINDS)


def _key(examples: Sequence[Example]) -> str:
    """How to read the boxes that are there."""
    there = {box.role for example in examples for box in example.boxes}
    items = [f'<span class="key {role}">{words}</span>' for role, words in ROLES.items() if role in there]
    return f'<p class="keys">{"".join(items)}</p>' if items else ""


def _group(run: Path, group: str, examples: Sequence[Example]) -> list[str]:
    shots = [shot for example in examples if example.group == group and (shot := _shot(run / PICTURES, example))]
    if not shots:
        return []
    title, words = GROUPS[group]
    return [html.heading(title), html.paragraph(words), html.division("shots", _rows(shots))]


def _rows(shots: Sequence[Shot]) -> list[str]:
    """Pictures in rows that are about equally wide at equal height, each of which then fills the page."""
    shapes = [shape for shape, _ in shots]
    bounds = even_rows(shapes, max(1, round(sum(shapes) / ROW)))
    return [_row(shots[start:end]) for start, end in pairwise(bounds)]


def _row(shots: Sequence[Shot]) -> str:
    shape = sum(shape for shape, _ in shots)
    return f'<div class="row" style="--shape:{shape:.3f}">{"".join(shot for _, shot in shots)}</div>'


def even_rows(widths: Sequence[float], number: int) -> list[int]:
    """Where so many rows begin, and where the last one ends, so that the widest is as narrow as can be.

    >>> even_rows([1, 1, 1, 1, 2, 2], 2), even_rows([1, 1], 1), even_rows([3], 4)
    ([0, 4, 6], [0, 2], [0, 1])
    """
    last = len(widths)
    cuts = combinations(range(1, last), min(number, last) - 1)
    rows = ([0, *places, last] for places in cuts)
    return min(rows, key=lambda bounds: max(sum(widths[start:end]) for start, end in pairwise(bounds)))


def _shot(folder: Path, example: Example) -> Shot | None:
    """A picture with its boxes, and what it shows in words; None where the picture is missing."""
    width, height = example.size
    source = html.embed(folder / example.file) if Path(example.file).name == example.file and example.file else ""
    if not source or min(width, height) < 1:
        return None
    scale = HIGH / height if height <= 2.4 * width and width <= 2.4 * height else HIGH / max(width / 2, height)
    wide, high = width * scale, height * scale
    room, deep = max(wide, LEAST), max(high, LEAST)
    left, top = (room - wide) / 2, (deep - high) / 2
    image = (
        f'<image href="{source}" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{high:.1f}" '
        'preserveAspectRatio="none"/>'
    )
    boxes = [_moved(box, scale, (left, top), (wide, high)) for box in example.boxes]
    parts = [
        image,
        *(_outline(box, aside=_aside(example.group, box, box is boxes[-1])) for box in boxes),
        *_labels(boxes, (room, deep)),
    ]
    words = f"{example.id}: {example.head}. {example.words}"
    picture = svg.drawing(room, deep, parts, kind="shot", words=words)
    caption = f"<b>{escape(example.head)}</b> {escape(example.words)} <i>{escape(shorten(example.id, 32))}</i>"
    shape = room / deep
    return shape, f'<figure style="--shape:{shape:.3f}">{picture}<figcaption>{caption}</figcaption></figure>'


def _aside(group: str, box: ShownBox, last: bool) -> bool:
    """Whether the words are of another box: the last where something is wrong, the missed one where it is that."""
    return box.role != "truth" and ((group == "wrong" and not last) or (group == "missed" and box.role != "missed"))


def _moved(shown: ShownBox, scale: float, corner: tuple[float, float], size: tuple[float, float]) -> ShownBox:
    """In units of the drawing, and far enough inside it for the line to be seen."""
    x0, y0, x1, y1 = (
        start + min(max(side * scale, EDGE), end - EDGE)
        for side, start, end in zip(shown.box, corner * 2, size * 2, strict=True)
    )
    return replace(shown, box=(x0, y0, x1, y1))


def _outline(shown: ShownBox, *, aside: bool) -> str:
    """A box on a ground of its own, so that it is seen on any picture; thinner where the words are of another."""
    x0, y0, x1, y1 = shown.box
    title = shown.name if shown.score is None else f"{shown.name} {shown.score:.2f}"
    role = escape(shown.role)
    ground = svg.rectangle(x0, y0, x1 - x0, y1 - y0, kind="ground", more='rx="2"')
    return ground + svg.rectangle(
        x0, y0, x1 - x0, y1 - y0, kind=f"box {role}{' aside' * aside}", title=title, more='rx="2"'
    )


def _labels(boxes: Sequence[ShownBox], room: tuple[float, float]) -> list[str]:
    """Class and score of a few detections where there is room, those on top first; what is missed before all."""
    taken: list[Corners] = []
    parts = []
    missed = [box for box in boxes if box.role == "missed"]
    for shown in [*missed, *(box for box in reversed(boxes) if box.role not in ("missed", "truth"))][:MOST_LABELS]:
        words = shorten(shown.name, 20) + ("" if shown.score is None else f" {shown.score:.2f}")
        width, corners = round(LETTER * len(words)) + 9, tuple(round(side) for side in shown.box)
        at = free_place((corners[0], corners[1], corners[2], corners[3]), (width, LABEL), _whole(room), taken)
        if at is None:
            continue
        taken.append((*at, at[0] + width, at[1] + LABEL))
        role = escape(shown.role)
        parts.append(svg.rectangle(*at, width, LABEL, kind=f"label {role}", more='rx="2"'))
        parts.append(svg.text(at[0] + width / 2, at[1] + 12.5, words, kind=f"on {role}", anchor="middle"))
    return parts


def _whole(room: tuple[float, float]) -> tuple[int, int]:
    return int(room[0]), int(room[1])
