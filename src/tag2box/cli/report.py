"""`tag2box report`."""

from pathlib import Path

from tag2box.cli.parsing import Parser, make_parser


def parser() -> Parser:
    """Its options."""
    made = make_parser(
        "Write a run's page anew from what its folder holds: scores and curves stage by stage, the best and the worst\n"
        "pictures, precision and recall, which class is taken for which, what the proposals reach, both nets' boxes\n"
        "round by round, and the command to repeat it. One file that needs no other; it prints well.\n\n"
        "`tag2box train` does so at the end of a run. Use this for one that was stopped, moved or renamed.",
        "examples:\n"
        "  tag2box report runs/photos-1\n"
        '  tag2box report runs/photos-1 --title "Second try" --out second.html',
        usage="tag2box report RUN [--title TEXT] [--out FILE]",
    )
    made.add_argument("run", metavar="RUN", type=Path, help="a run directory of `tag2box train`")
    made.add_argument("--title", metavar="TEXT", default="", help="the page's heading (default: the folder's name)")
    made.add_argument("--out", metavar="FILE", type=Path, help="where to write it (default: RUN/report.html)")
    return made


def run(run: Path, title: str, out: Path | None) -> None:
    """What was asked for."""
    from tag2box.commands.report import report

    report(run, title=title, out=out)
