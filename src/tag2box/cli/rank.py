"""`tag2box rank`: the pictures that the two nets are least sure of."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tag2box.cli.parsing import DATA_FORMATS, Parser, add_part, make_parser
from tag2box.cli.run_options import add_by, add_looking, add_only, add_run_and_data, run_and_data


def parser() -> Parser:
    """Its options."""
    made = make_parser(
        "Put pictures in the order in which a human look pays most: first those that the detector is least sure of,\n"
        "the more so where the two nets of a run differ. RUN is a run directory of `tag2box train` with both nets.\n"
        "Prints the first, writes all of them with the best box of each tag as CSV, and beside it the first as\n"
        "pictures with both nets' boxes. Where DATA has boxes, it also says how well each score knows which are wrong.",
        "scores (of each tag, and of the picture):\n"
        "  doubt           1 - confidence, its odds up to e times as high the farther the nets' boxes are apart\n"
        "  distance        1 - IoU of the prediction net's best box with those in the conditional net's samples;\n"
        "                  of a picture, like doubt, that of its worst tag\n"
        "  dissimilarity   of the two nets' labels of the proposals, as in training\n"
        "  self-diversity  of the samples' labels: how often two of them differ\n"
        "  total           the sum of these two\n"
        "  confidence      the prediction net's best score; of a picture, that of its least sure tag\n\n"
        f"{DATA_FORMATS}\n\n"
        "examples:\n"
        "  tag2box rank runs/photos-1 photos/\n"
        "  tag2box rank runs/photos-1 photos/ --only sheep --only chair\n"
        "  tag2box rank runs/voc VOCdevkit/VOC2007 --split trainval --by confidence --top 50 --out voc.csv",
        usage="tag2box rank RUN DATA [options]",
    )
    add_run_and_data(made)
    made.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        default=Path("ranking.csv"),
        help="default: ranking.csv; also .jpg, -risk.png",
    )
    add_by(made)
    made.add_argument("--top", metavar="N", type=int, default=20, help="print and draw so many (default: 20)")
    add_only(made, "pictures with this tag, and by this tag alone")
    made.add_argument("--no-pictures", action="store_true", help="draw none, write the CSV alone")
    add_part(made)
    add_looking(made)
    return made


def run(data: Sequence[Path], no_pictures: bool, **options: Any) -> None:
    """What was asked for."""
    source, dataset = run_and_data(data)
    from tag2box.commands.rank import rank_dataset

    rank_dataset(source, dataset, pictures=not no_pictures, **options)
