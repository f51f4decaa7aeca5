"""`tag2box demo`."""

from pathlib import Path

from tag2box.cli.parsing import Parser, make_parser


def parser() -> Parser:
    """Its options."""
    made = make_parser(
        "The whole story on built-in data, without a download, in minutes on two cores: draws tagged pictures,\n"
        "proposes boxes, trains a detector on the tags alone, and shows stage by stage what it finds on pictures it\n"
        "has not seen. DIR/data is the data set, DIR/run the run with its report.",
        "examples:\n  tag2box demo\n  tag2box demo --out somewhere --seed 3",
    )
    made.add_argument("--out", metavar="DIR", type=Path, default=Path("demo"), help="where to (default: demo)")
    made.add_argument("--seed", metavar="N", type=int, default=0, help="other pictures, another run (default: 0)")
    return made


def run(out: Path, seed: int) -> None:
    """What was asked for."""
    from tag2box.commands.demo import demo

    demo(out, seed=seed)
