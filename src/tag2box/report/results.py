"""results.csv, the record of a run: a row per stage, scores in per cent, each stage's own seconds."""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from tag2box.errors import InputError
from tag2box.files import write_atomically

Row = Mapping[str, str | float]

COLUMNS = ("stage", "map", "corloc", "div_pc", "div_cc", "div_pp", "disc", "seconds")
"""Always there and in this order; what else a run measures comes after them."""
HEADINGS = {
    "map": "mAP",
    "corloc": "CorLoc",
    "div_pc": "DIV(p,c)",
    "div_cc": "DIV(c,c)",
    "div_pp": "DIV(p,p)",
    "disc": "DISC",
    "seconds": "seconds",
}


def write_results(path: Path, rows: Sequence[Row]) -> None:
    """Write the whole file; a value that a row has not, or that is not a number, is left empty."""
    others = dict.fromkeys(name for row in rows for name in row if name not in COLUMNS)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *others])
    writer.writerows([_as_text(row.get(name, math.nan)) for name in (*COLUMNS, *others)] for row in rows)
    write_atomically(path, text.getvalue())


def read_results(path: Path) -> list[dict[str, str | float]]:
    """The rows with numbers as numbers; an empty field is NaN, and words stay words."""
    try:
        rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"), newline=""), restkey=""))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read the results {path}: {error}") from None
    if rows and "stage" not in rows[0]:
        raise InputError(f"expected a column named stage, found {', '.join(rows[0])} in {path}")
    return [{name: _as_value(name, text) for name, text in row.items() if name} for row in rows]


def number(row: Row, column: str) -> float:
    """A row's value; NaN where it has none."""
    value = row.get(column, math.nan)
    return float(value) if isinstance(value, (int, float)) else math.nan


def present(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """Those of the columns in which at least one row has a number."""
    return [name for name in columns if any(math.isfinite(number(row, name)) for row in rows)]


def best_row(rows: Sequence[Row]) -> int | None:
    """Which row is that of weights/best.safetensors; none where nothing could be measured.

    A round's, by mAP, else by CorLoc, the last of equals: the nets of the warm start are not saved.
    """
    saved = [i for i, row in enumerate(rows) if str(row["stage"]).startswith("round-")]
    for column in present([rows[i] for i in saved], ("map", "corloc"))[:1]:
        measured = [i for i in saved if math.isfinite(number(rows[i], column))]
        return max(measured, key=lambda i: (number(rows[i], column), i))
    return None


def stage_name(stage: str) -> str:
    """A stage in words.

    >>> [stage_name(stage) for stage in ("wsddn", "refined", "anew-1", "round-2")]
    ['WSDDN', 'refined', 'anew 1', 'round 2']
    """
    if match := re.fullmatch(r"(round|anew)-(\d+)", stage):
        return f"{match[1]} {match[2]}"
    return "WSDDN" if stage == "wsddn" else stage


def in_a_line(row: Row) -> str:
    """A stage as a line of a log.

    >>> in_a_line({"stage": "round-1", "map": 63.04, "disc": 0.10239, "seconds": 84.2})
    'round 1: mAP 63.0, DISC 0.1024; 84 s'
    """
    names = {"map": "mAP", "corloc": "CorLoc", "disc": "DISC"}
    found = [f"{names[key]} {format_value(key, number(row, key))}" for key in names if math.isfinite(number(row, key))]
    return f"{stage_name(str(row['stage']))}: {', '.join(found) or 'done'}; {number(row, 'seconds'):.0f} s"


def format_value(column: str, value: float) -> str:
    """As many digits as can be read and compared; a dash for what was not measured.

    >>> format_value("map", 63.04), format_value("disc", 0.10239), format_value("seconds", 1840.3)
    ('63.0', '0.1024', '1,840')
    """
    if not math.isfinite(value):
        return "–"
    if column in ("map", "corloc"):
        return f"{value:.1f}"
    if column == "seconds":
        return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4f}" if 0.001 <= abs(value) < 10 else f"{value:.4g}"


def results_table(rows: Sequence[Row]) -> Table:
    """For the terminal, in 80 columns: a row per stage, the one kept in bold, columns without a number left out."""
    columns = present(rows, ("map", "corloc", "disc", "seconds"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("stage", overflow="fold", max_width=36)
    for name in columns:
        table.add_column(HEADINGS[name], justify="right", no_wrap=True)
    best = best_row(rows)
    for i, row in enumerate(rows):
        values = (format_value(name, number(row, name)) for name in columns)
        # A Text, because a name in square brackets would be taken for a style.
        table.add_row(Text(stage_name(str(row["stage"]))), *values, style="bold" if i == best else None)
    return table


def _as_text(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.6g}" if math.isfinite(value) else ""


def _as_value(column: str, text: str | None) -> str | float:
    if column == "stage":
        return text or ""
    try:
        return float(text) if text else math.nan
    except ValueError:
        return str(text)
