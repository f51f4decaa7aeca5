"""`tag2box rpn`: a detector that needs no search."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tag2box.cli.parsing import DATA_FORMATS, Parser, add_part, make_parser
from tag2box.cli.run_options import add_looking, add_run_and_data, run_and_data


def parser() -> Parser:
    """Its options."""
    made = make_parser(
        "Teach the detector of a run to propose boxes itself: a region proposal network on its own features, taught\n"
        "by the boxes of tagged classes that it finds in DATA with a score of 0.3 or more. The result is one file,\n"
        "which `predict` and `evaluate` take in place of RUN and which needs no selective search. Trunk and head\n"
        "stay as they are, and so does RUN's own detector.",
        f"{DATA_FORMATS}\n\n"
        "examples:\n"
        "  tag2box rpn runs/photos-1 photos/\n"
        "  tag2box predict runs/photos-1/weights/rpn.safetensors holiday/",
        usage="tag2box rpn RUN DATA [options]",
    )
    add_run_and_data(made)
    made.add_argument("--out", metavar="FILE", type=Path, help="default: RUN/weights/rpn.safetensors")
    made.add_argument(
        "--epochs",
        metavar="F",
        type=float,
        default=8.0,
        help="times that every picture is shown, in 400 steps of two at least (default: 8)",
    )
    add_part(made)
    add_looking(made)
    return made


def run(data: Sequence[Path], **options: Any) -> None:
    """What was asked for."""
    source, dataset = run_and_data(data)
    from tag2box.commands.rpn import teach_to_propose

    teach_to_propose(source, dataset, **options)
