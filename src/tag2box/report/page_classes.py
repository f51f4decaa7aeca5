"""The page's sections on classes: scores and curves of each, and which is taken for which."""

from collections.abc import Sequence

from tag2box.evaluation.mistakes import Kind
from tag2box.report import page_parts as html
from tag2box.report.charts import precision_recall_chart
from tag2box.report.findings import SHOWN_FROM, AtScore, Findings
from tag2box.report.matrix import MOST_CLASSES, draw_matrix

MANY = 24
"""Classes from which the table is in two halves side by side."""
FEW = 6
"""Up to so many the curves are large, and the matrix is small."""
MOST_CONFUSIONS = 12


def classes_section(findings: Findings | None, curves_picture: str) -> str:
    """Scores and precision–recall curves; `curves_picture` stands in for a run that has kept no curves."""
    if findings is None:
        words = "Precision against recall for each class, with the area under the curve as its average precision."
        return html.section("Class by class", html.paragraph(words) if curves_picture else "", curves_picture)
    return html.section("Class by class", _table(findings), _curves(findings) or curves_picture)


def _table(findings: Findings) -> str:
    """What is known of each class; columns that nobody can fill are left out."""
    classes = findings.classes
    judged = any(one.ap is not None or one.corloc is not None for one in classes)
    columns = [
        ("pictures", [_whole(one.pictures) for one in classes]),
        ("objects", [_whole(one.objects) for one in classes]),
        ("AP", [_tenths(one.ap) for one in classes]),
        ("CorLoc", [_tenths(one.corloc) for one in classes]),
        ("reached", [_tenths(one.reached) for one in classes]),
        ("score", ["–" if judged or one.sureness is None else f"{one.sureness:.2f}" for one in classes]),
    ]
    columns = [(name, cells) for name, cells in columns if set(cells) - {"–"}]
    names = [name for name, _ in columns]
    if not names:
        return ""
    rows = [list(row) for row in zip((one.name for one in classes), *(cells for _, cells in columns), strict=True)]
    half = -(-len(rows) // 2) if len(rows) > MANY else len(rows)
    bars = [place for place, name in enumerate(names, 1) if name in ("AP", "CorLoc")]
    tables = [html.table(["class", *names], part, bars=bars) for part in (rows[:half], rows[half:]) if part]
    return html.paragraph(_legend(names, findings.part_looked_at())) + "\n" + html.beside(tables)


def _legend(names: Sequence[str], part: str) -> str:
    partly = f" (measured on {part})" if part else ""
    words = {
        "pictures": "pictures: tagged with the class, to learn from",
        "objects": "objects: to be found in the held-out pictures",
        "AP": "AP: average precision on them (VOC 2007), per cent",
        "CorLoc": f"CorLoc: share of the tagged pictures whose best box is on an object, per cent{partly}",
        "reached": "reached: share of the objects with a proposal at IoU 0.5, per cent",
        "score": "score: of the best box in a tagged picture, the median",
    }
    said = "; ".join(words[name] for name in names)
    return said[:1].upper() + said[1:] + "."


def _curves(findings: Findings) -> str:
    if not findings.curves:
        return ""
    number = len(findings.curves)
    left = sum(bool(one.objects) for one in findings.classes) - number
    words = f"For each class its AP, and its curve.{_marks(findings)}"
    words += f" The {number} classes with most objects; {left} more have none here." if left > 0 else ""
    kind = "curves few" if number <= FEW else "curves" if number <= MANY else "curves many"
    panels = [precision_recall_chart(curve) for curve in findings.curves]
    return "\n".join([html.heading("Precision and recall"), html.paragraph(words), html.division(kind, panels)])


def _marks(findings: Findings) -> str:
    """What the marks on the curves are; earlier versions kept none."""
    if not any(curve.marks for curve in findings.curves) or findings.at_score is None:
        return ""
    counted = f"{findings.at_score.score:.2f}"
    return (
        f" The dot is what boxes with a score of at least {counted} come to, which are those counted on this page; the "
        f"ring, those of at least {SHOWN_FROM:.2f}, which are those that predict shows by default."
    )


def confusion_section(findings: Findings | None) -> str:
    """Which class is taken for which, among the boxes that people would be shown."""
    if findings is None or findings.at_score is None or not findings.at_score.confusion:
        return ""
    names, at_score = [one.name for one in findings.classes], findings.at_score
    counts = {(i, j): count for i, j, count in at_score.confusion}
    words = (
        f"Boxes with a score of at least {at_score.score:.2f}, each matched with the object it is on (IoU ≥ 0.5), its "
        "own class before any other. A row is what is there, a column what it was found as; a false alarm is on no "
        "object, or on one that a better box has found."
    )
    matrix = draw_matrix(names, counts) if len(names) <= MOST_CLASSES else ""
    return html.section(
        "What is taken for what",
        html.paragraph(words),
        _most_frequent(names, at_score) if len(names) > 1 else "",
        html.division("matrix-frame few" if len(names) <= FEW else "matrix-frame", [matrix]) if matrix else "",
    )


def _most_frequent(names: Sequence[str], at_score: AtScore) -> str:
    """The confusions that occur most, in words where there are few and in a table where there are many."""
    nothing = len(names)
    mixed = [(i, j, count) for i, j, count in at_score.confusion if i != j and nothing not in (i, j)]
    if not mixed:
        return html.paragraph(_never_mixed(at_score.kinds.get(Kind.MISTAKEN, 0)))
    if nothing <= FEW:
        return ""
    objects = {i: sum(count for row, _, count in at_score.confusion if row == i) for i, _, _ in mixed}
    rows = [
        [names[i], names[j], f"{count:,}", f"{objects[i]:,}", f"{100 * count / objects[i]:.1f}"]
        for i, j, count in sorted(mixed, key=lambda cell: -cell[2])[:MOST_CONFUSIONS]
    ]
    half = -(-len(rows) // 2) if len(rows) > FEW else len(rows)
    heads = ["is", "taken for", "times", "of", "per cent"]
    return html.beside([html.table(heads, part, words=(0, 1)) for part in (rows[:half], rows[half:]) if part])


def _never_mixed(beside: int) -> str:
    """Where all of the matrix is right, missed or a false alarm, though boxes may be on objects of other classes."""
    if not beside:
        return "No class was taken for another."
    if beside == 1:
        there = "The box on an object of another class, above, is not alone there: one of the right class is too. So it"
        return f"{there} counts as a false alarm here, and no object was found as another class."
    there = f"The {beside:,} boxes on objects of another class, above, are not alone there: right ones are too. So they"
    return f"{there} count as false alarms here, and no object was found as another class."


def _whole(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _tenths(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
