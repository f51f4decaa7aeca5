"""`tag2box proposals`."""

from pathlib import Path
from typing import Any

from tag2box.cli.parsing import DATA_FORMATS, Parser, add_data, make_parser


def parser() -> Parser:
    """Its options."""
    made = make_parser(
        "Find where objects could be: class-independent boxes for every picture, by selective search.\n\n"
        "Computed once, on all cores, and kept in one file that every later command reuses. Stop it whenever you\n"
        "like, by whatever means; the same command goes on where it was and ends with the same bytes. Of pictures\n"
        "that are added later, only these are computed. Where the data set has boxes, a report says which objects\n"
        "the proposals reach.",
        f"{DATA_FORMATS}\n\n"
        "examples:\n"
        "  tag2box proposals photos/\n"
        "  tag2box proposals VOCdevkit/VOC2007 --split trainval --preset thorough\n"
        "  tag2box proposals VOCdevkit/VOC2007 --from voc_2007_trainval.mat",
    )
    add_data(made)
    made.add_argument("--preset", default="fast", metavar="NAME", help="fast (default), or thorough: more boxes")
    made.add_argument("--workers", metavar="N", type=int, help="processes (default: one per core)")
    made.add_argument("--out", metavar="FILE", type=Path, help="the file to keep them in (default: DATA/.tag2box/…)")
    made.add_argument("--overwrite", action="store_true", help="compute all anew, in place of any file that is there")
    made.add_argument("--from", dest="source", metavar="FILE", type=Path, help="take over a .mat or .pkl instead")
    made.add_argument("--skip-bad-images", action="store_true", help="go on without pictures that cannot be read")
    made.add_argument("--json", dest="json_out", metavar="FILE", type=Path, help="write the report as JSON too")
    return made


def run(data: Path, **options: Any) -> None:
    """What was asked for."""
    from tag2box.commands.proposals import propose_dataset

    propose_dataset(data, **options)
