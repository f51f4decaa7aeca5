"""The page's section on proposals: what a detector built on them can find at best."""

from tag2box.report import page_parts as html
from tag2box.report.charts import recall_chart
from tag2box.report.findings import Findings


def proposals_section(findings: Findings | None) -> str:
    """How many objects have a box that comes near; nothing where nobody knows where the objects are."""
    if findings is None or not findings.proposals:
        return ""
    words = (
        "A detector that chooses among proposals finds no object that none of them comes near: this is its ceiling. "
        "Counted are the boxes that the nets are shown, and of the objects those that are neither difficult nor crowds."
    )
    heads = ["pictures", "number", "objects", "boxes each", "recall at IoU 0.5", "at 0.7", "mean best overlap"]
    rows = [
        [
            one.part,
            f"{one.images:,}",
            f"{one.objects:,}",
            f"{one.boxes:,.0f}",
            _percent(one.recall_50),
            _percent(one.recall_70),
            "–" if one.overlap is None else f"{one.overlap:.3f}",
        ]
        for one in findings.proposals
    ]
    return html.section(
        "Proposals",
        html.paragraph(words),
        html.table(heads, rows),
        html.division("charts", [chart]) if (chart := recall_chart(findings.proposals)) else "",
    )


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"
