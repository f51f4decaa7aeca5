"""What is asked of every command that lets a run's nets look at a data set."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tag2box.cli.parsing import Parser
from tag2box.errors import InputError


def add_run_and_data(parser: Parser) -> None:
    """A run and a data set, which `run_and_data` tells apart."""
    parser.add_argument(
        "data", metavar="RUN DATA", nargs="+", type=Path, help="the run, and the data set (formats below)"
    )


def run_and_data(data: Sequence[Path]) -> tuple[Path, Path]:
    """The two of them."""
    if len(data) != 2:
        raise InputError(f"expected RUN DATA, found {'only ' if len(data) < 2 else ''}{' '.join(map(str, data))}")
    return data[0], data[1]


def add_by(parser: Parser) -> None:
    """What pictures are ordered by."""
    scores = "doubt (default), distance, total, dissimilarity, self-diversity, or confidence, the least first"
    parser.add_argument("--by", metavar="SCORE", default="doubt", help=scores)


def add_only(parser: Parser, what: str) -> None:
    """Some classes of the data set."""
    parser.add_argument("--only", metavar="CLASS", action="append", default=[], help=f"{what}; may be repeated")


def add_looking(parser: argparse._ActionsContainer) -> None:
    """Where the nets run, and on which proposals; for a parser or a group of its options."""
    parser.add_argument("--device", metavar="NAME", default="auto", help="auto (default), cpu or cuda")
    parser.add_argument("--proposals", metavar="FILE", type=Path, help="use these (from `tag2box proposals --out`)")
    parser.add_argument("--workers", metavar="N", type=int, help="processes for proposals (default: one per core)")
    parser.add_argument("--skip-bad-images", action="store_true", help="go on without pictures that cannot be read")
