"""report.html: a run on one page, in one file, from what its folder holds. What is missing is left out."""

import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote

import tag2box
from tag2box.errors import InputError
from tag2box.files import write_atomically
from tag2box.report import page_parts as html
from tag2box.report.findings import read_findings
from tag2box.report.page_about import WARM_START, About, about_run, about_section
from tag2box.report.page_classes import classes_section, confusion_section
from tag2box.report.page_examples import examples_section
from tag2box.report.page_proposals import proposals_section
from tag2box.report.page_results import measures, results_section
from tag2box.report.results import Row, best_row, format_value, number, present, read_results, stage_name
from tag2box.report.words import shorten

PICTURES = (".png", ".jpg", ".jpeg", ".webp")


def write_report(
    run: Path, *, about: About | None = None, title: str = "", out: Path | None = None, most_samples: int = 24
) -> Path:
    """Write `run`/report.html, or `out`, from what is in the folder; its path. `about` stands in for what it tells."""
    rows, settings, findings = _results(run), _text(run / "args.yaml"), read_findings(run)
    about = about_run(settings, findings) if about is None else about
    part = "" if findings is None else findings.part_looked_at()
    title = title or run.resolve().name
    curves = html.figure(run / "PR_curve.png", "plot", "Precision–recall curve of each class")
    body = (
        _header(title, rows, about, part),
        about_section(about, settings),
        results_section(rows, part),
        examples_section(run, findings),
        classes_section(findings, curves),
        confusion_section(findings),
        proposals_section(findings),
        _samples_section(run / "samples", most_samples),
        _command_section(about.command, settings),
        html.footer(f"Written by tag2box {tag2box.__version__}"),
    )
    style = files("tag2box.report").joinpath("page.css").read_text("utf-8")
    report = run / "report.html" if out is None else out
    write_atomically(
        report,
        html.page(" · ".join(filter(None, (title, what_of(about), "tag2box"))), style, body).encode(
            errors="backslashreplace"
        ),
    )
    return report


def _header(title: str, rows: Sequence[Row], about: About, part: str) -> str:
    """Name, key figures, and the story in a sentence or two."""
    chosen = rows[_chosen(rows)] if rows else {}
    figures = [(format_value(c, number(chosen, c)), words) for c, words in measures(part).items()]
    seconds = _seconds(about, rows)
    words = "of training, with the other run's warm start" if WARM_START in about.more else "of training"
    times = [(duration(seconds), words)] if math.isfinite(seconds) else []
    shown = [(big, small) for big, small in figures if big != "–"] + times
    return html.header(title, what_of(about), html.paragraph(story(rows, part), "lead"), html.numbers(shown))


def what_of(about: About) -> str:
    """What was learnt from what, in a few words: a folder's name alone says little.

    >>> what_of(About(images=5011, classes=("cat", "dog"))), what_of(About(images=1, classes=("owl",)))
    ('2 classes from 5,011 tagged pictures', 'owl from 1 tagged picture')
    """
    classes = about.classes[0] if len(about.classes) == 1 else f"{len(about.classes):,} classes" * bool(about.classes)
    pictures = "" if about.images is None else f"{about.images:,} tagged picture{'s' * (about.images != 1)}"
    return " from ".join(part for part in (shorten(classes, 32), pictures) if part)


def story(rows: Sequence[Row], part: str = "") -> str:
    """What came of it, in words; `part`: see `measures`.

    >>> story([{"stage": "refined", "map": 40.0}, {"stage": "round-1", "map": 52.5}])
    'Best after round 1: mAP 52.5, 12.5 points above the warm start.'
    """
    words, best, names = [], best_row(rows), measures(part)
    if best is not None:
        stage, column = stage_name(str(rows[best]["stage"])), present([rows[best]], tuple(names))[0]
        head, _, on = names[column].partition(" ")
        score = f"{head} {number(rows[best], column):.1f} {on}".rstrip()
        words.append(f"Best after {stage}: {score}{_against_warm_start(rows, best, column)}.")
    elif rows and not present(rows, tuple(names)):
        words.append("The data has no boxes to compare with, so there is no mAP and no CorLoc.")
    discs = [value for row in rows if math.isfinite(value := number(row, "disc"))]
    if len(discs) > 1:
        first, last = (format_value("disc", value) for value in (discs[0], discs[-1]))
        went = f"fell from {first} to" if discs[-1] < discs[0] else f"rose from {first} to"
        went = "stayed at" if first == last else went
        words.append(f"The dissimilarity of the two nets {went} {last} in {len(discs)} rounds.")
    return " ".join(words)


def _against_warm_start(rows: Sequence[Row], best: int, column: str) -> str:
    """Above it or below: both are said."""
    warm = [row for row in rows if str(row["stage"]).startswith(("refined", "anew-"))]
    start = warm[-1] if warm else {}
    gain = number(rows[best], column) - number(start, column)
    if not math.isfinite(gain):
        return ""
    if f"{abs(gain):.1f}" == "0.0":
        return ", as much as the warm start"
    return f", {abs(gain):.1f} points {'above' if gain > 0 else 'below'} the warm start"


def duration(seconds: float) -> str:
    """A time as people say it.

    >>> duration(42.4), duration(247), duration(7380)
    ('42 s', '4 min 7 s', '2 h 3 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def _samples_section(folder: Path, most: int) -> str:
    paths = sorted(path for path in folder.glob("*") if path.suffix.lower() in PICTURES and path.name[0] != ".")
    pictures = [html.figure(p, "sheet", f"Both nets' boxes on {unquote(p.stem)}, stage by stage") for p in paths[:most]]
    left = len(paths) - most
    if not any(pictures):
        return ""
    words = (
        "Both nets on the same picture, stage by stage. Above, the conditional net, which knows the tags: its samples "
        "lie over each other, so what they agree on is bold and what they doubt is a haze. Below, the prediction net, "
        "which sees the picture alone."
    )
    rest = html.paragraph(f"{left} more in {folder.name}/.") if left > 0 else ""
    return html.section("What the nets saw", html.paragraph(words), *pictures, rest)


def _command_section(command: str, settings: str) -> str:
    return html.section(
        "Do it again", html.preformatted(command), html.folded("All settings (args.yaml)", html.preformatted(settings))
    )


def _chosen(rows: Sequence[Row]) -> int:
    """The row that the page's large figures are of: the one kept as best, else the last."""
    best = best_row(rows)
    return len(rows) - 1 if best is None else best


def _seconds(about: About, rows: Sequence[Row]) -> float:
    if math.isfinite(about.seconds):
        return about.seconds
    known = [value for row in rows if math.isfinite(value := number(row, "seconds"))]
    return sum(known) if known else math.nan


def _results(run: Path) -> list[dict[str, str | float]]:
    try:
        return read_results(run / "results.csv")
    except InputError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
