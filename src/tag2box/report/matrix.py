"""The confusion matrix as a picture, from three classes to a hundred."""

from collections import Counter
from collections.abc import Mapping, Sequence

from tag2box.report import svg
from tag2box.report.words import shorten

MOST_CLASSES = 100
"""More could not be told apart; the page then names the most frequent confusions only."""
GAP = 0.4
"""Between the classes and what is none of them, in cells."""

Counts = Mapping[tuple[int, int], int]


def draw_matrix(names: Sequence[str], counts: Counts) -> str:
    """Rows are what is there, columns what it was found as; then a column of the missed and a row of false alarms.

    Blue is right and red mistaken, the deeper the larger its share of the row; grey is the share of a class's objects
    that were missed, and of its boxes that were false alarms. Where cells are large enough they have their numbers.
    """
    number = len(names)
    cell = 46 if number <= 8 else 31 if number <= 30 else 12
    size = 12 if cell > 12 else 9
    short = [shorten(name, 24) for name in names]
    longest = 0.6 * size * max(map(len, [*short, "false alarm"]))
    left, slant = longest + 12, 0.72 if cell > 12 else 1.0
    top, side = slant * longest + 30, left + (number + 1 + GAP) * cell
    parts = [svg.text(left, 12, "found as", kind="axis"), svg.text(left - 8, top - 8, "is", kind="axis", anchor="end")]
    parts += _bands(number, cell, left, top)
    parts += _heads(short, cell, left, top, size)
    rows, columns = (Counter[int](), Counter[int]())
    for (i, j), count in counts.items():
        rows[i] += count
        columns[j] += count
    for (i, j), count in sorted(counts.items()):
        parts += _cell(names, (i, j), count, columns[j] if i == number else rows[i], cell, (left, top))
    words = "Confusion between the classes: rows are what is there, columns what it was found as"
    kind = "matrix small" if cell == 12 else "matrix"
    width = side + (slant * 0.6 * size * len("missed") if cell > 12 else 4)
    height = top + (number + 1 + GAP) * cell + 4
    return svg.drawing(width, height, parts, kind=kind, words=words)


def place(index: int, number: int, cell: float) -> float:
    """Where a row or a column begins; the last stands a little apart."""
    return index * cell + (GAP * cell if index == number else 0)


def _bands(number: int, cell: float, left: float, top: float) -> list[str]:
    """Every other row shaded, so that the eye keeps to it."""
    width = (number + 1 + GAP) * cell
    return [svg.rectangle(left, top + place(i, number, cell), width, cell, kind="band") for i in range(0, number, 2)]


def _heads(names: Sequence[str], cell: float, left: float, top: float, size: int) -> list[str]:
    """Names beside the rows and, turned, above the columns."""
    parts, number = [], len(names)
    for i, name in enumerate([*names, "false alarm"]):
        y = top + place(i, number, cell) + cell / 2 + size / 3
        parts.append(svg.text(left - 7, y, name, anchor="end", kind="" if i < number else "axis"))
    for i, name in enumerate([*names, "missed"]):
        x = left + place(i, number, cell) + cell / 2 + size / 3
        turn = f'transform="rotate({-45 if cell > 12 else -90} {x:.1f} {top - 6:.1f})"'
        parts.append(svg.text(x, top - 6, name, kind="" if i < number else "axis", more=turn))
    return parts


def _cell(
    names: Sequence[str], at: tuple[int, int], count: int, of: int, cell: float, corner: tuple[float, float]
) -> list[str]:
    """A cell, the deeper the larger its count is among `of`."""
    (i, j), number, share = at, len(names), count / max(of, 1)
    kind = "none" if number in at else "same" if i == j else "other"
    depth = 0.1 + 0.9 * (share**0.5 if kind == "other" else share)  # few are mistaken, and those are to be seen
    x, y = corner[0] + place(j, number, cell), corner[1] + place(i, number, cell)
    more, title = f'fill-opacity="{depth:.2f}"', _title(names, i, j, count, of)
    parts = [svg.rectangle(x + 0.5, y + 0.5, cell - 1, cell - 1, kind=kind, title=title, more=more)]
    if cell > 12:
        ink = "count deep" if depth > 0.72 else "count"
        parts.append(svg.text(x + cell / 2, y + cell / 2 + 4, f"{count:,}", anchor="middle", kind=ink))
    return parts


def _title(names: Sequence[str], i: int, j: int, count: int, of: int) -> str:
    number = len(names)
    if i == number:
        return f"{count} of {of} boxes of {names[j]} are false alarms"
    if j == number:
        return f"{count} of {of} objects of {names[i]} missed"
    return f"{count} of {of} objects of {names[i]} found as {names[j]}"
