"""The page's section on results: a table of the stages and their curves."""

from collections.abc import Sequence

from tag2box.report import page_parts as html
from tag2box.report.charts import stage_chart
from tag2box.report.curves import panels_of
from tag2box.report.results import COLUMNS, HEADINGS, Row, best_row, format_value, number, present, stage_name

WORDS = {
    "": "A row per stage: the warm start (WSDDN, then its refinement), then the prediction net after each round.",
    "map": "mAP is that of VOC 2007 on the held-out pictures, in per cent.",
    "corloc": "CorLoc is the share of pictures learnt from whose best box is on an object, in per cent.",
    "disc": "DIV is the expected task loss between the two nets or within one; what the rounds lower is "
    "DISC = DIV(p,c) − γ\u00a0DIV(c,c) − (1\u00a0−\u00a0γ)\u00a0DIV(p,p).",
}
"""What is said of a column where it is there."""
ANEW = "Anew: the warm start learnt again from its first weights, by the boxes that the net before it had found."


def measures(part: str = "") -> dict[str, str]:
    """What the page's large figures are called; `part` of the training pictures where CorLoc is not of all.

    >>> measures("836 of 5,011")["corloc"]
    'CorLoc on 836 of 5,011 training pictures'
    """
    return {"map": "mAP", "corloc": f"CorLoc on {part or 'the'} training pictures"}


def results_section(rows: Sequence[Row], part: str = "") -> str:
    """The paper's numbers in a table, all others folded, and the curves."""
    partly = {"corloc": f"{WORDS['corloc']} It was measured on {part} pictures, evenly spread."} if part else {}
    said = [words for column, words in (WORDS | partly).items() if not column or present(rows, [column])]
    if any(str(row["stage"]).startswith("anew-") for row in rows):
        said.insert(1, ANEW)
    others = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in COLUMNS]
    table = _table(rows, present(rows, COLUMNS[1:]))
    charts = [stage_chart(panel) for panel in panels_of(rows)]
    return html.section(
        "Results",
        html.paragraph(" ".join(said)) if table else "",
        table,
        html.folded("Everything else that was measured", _table(rows, present(rows, others))),
        html.division("charts", charts) if charts else "",
    )


def _table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    if not columns:
        return ""
    cells = [[stage_name(str(row["stage"])), *(format_value(c, number(row, c)) for c in columns)] for row in rows]
    return html.table(["stage", *(HEADINGS.get(c, c.replace("_", " ")) for c in columns)], cells, best_row(rows))
