"""`tag2box train`: with every field of a recipe."""

from pathlib import Path
from typing import Any

from tag2box.cli.parsing import DATA_FORMATS, Parser, make_parser

FIELD = "field_"
"""Begins the names of what sets a recipe's field."""


def parser() -> Parser:
    """Its options."""
    from tag2box.cli.options import sections

    made = make_parser(
        "Learn to find objects from tags alone: proposals where they are not there yet, a warm start, then rounds in\n"
        "which two nets teach each other. Boxes that the data set has serve to score each stage, never to learn.\n"
        "Boxes that a person has given for the purpose, in `tag2box review`, do: --reviewed.\n\n"
        "The run directory gets args.yaml, results.csv, results.png, samples/, report.html and weights/; its\n"
        "weights/best.safetensors is the whole detector. Stop it whenever you like; --resume goes on, to the bit.",
        "recipes:\n"
        "  fast    a small net that stays fixed, what it sees is kept: for a CPU, or a first try (default)\n"
        "  voc07   PASCAL VOC on one large GPU: EfficientNet-Lite4, from a file (voc07_vgg16: a draft with VGG16)\n"
        "  paper   the paper's settings: VGG16, five samples, six rounds, for a GPU\n"
        "  demo    the smallest, for the demo's pictures\n"
        "  FILE    YAML of the fields above; `base: fast` builds on another recipe\n\n"
        f"{DATA_FORMATS}\n\n"
        "examples:\n"
        "  tag2box train photos/\n"
        "  tag2box train VOCdevkit/VOC2007 --recipe voc07 --split trainval --val-fraction 0.2 --out runs/voc\n"
        "  tag2box train VOCdevkit/VOC2007 --out runs/voc --resume\n"
        "  tag2box train photos/ --reviewed runs/photos-1/review.sqlite --warm-start runs/photos-1\n"
        "  tag2box train photos/ --warm-start runs/photos-1 --rounds.noise false\n"
        "  tag2box train photos/ --recipe paper --backbone.weights vgg16.safetensors --rounds.number 3",
        usage="tag2box train DATA [--recipe NAME|FILE] [--out RUN [--resume]] [options] [--section.field value] ...",
    )
    # Not called data: jsonargparse would take a mistyped --data.field for a part of it.
    made.add_argument("source", metavar="DATA", type=Path, help="the data set (formats below)")
    made.add_argument("--recipe", metavar="NAME|FILE", help="which settings (default: fast, or the warm start's)")
    made.add_argument("--out", metavar="RUN", type=Path, help="the run directory (default: runs/DATA-1, …-2)")
    made.add_argument("--resume", action="store_true", help="go on with the run in --out")
    made.add_argument("--device", metavar="NAME", default="auto", help="auto (default), cpu or cuda")
    made.add_argument("--seed", metavar="N", help="of everything that is drawn (default: 0)")
    made.add_argument("--precision", metavar="NAME", help="32-true (default) or bf16-mixed")
    made.add_argument("--split", metavar="NAME", help="which part to learn from (default: the training part)")
    made.add_argument("--val-split", metavar="NAME", help="score each stage on this part, where it has boxes")
    made.add_argument("--val-fraction", metavar="F", type=float, help="or hold out this share, say 0.2, for it")
    made.add_argument("--images", metavar="DIR", type=Path, help="where a COCO file's pictures are")
    made.add_argument("--proposals", metavar="FILE", type=Path, help="use these (from `tag2box proposals --out`)")
    made.add_argument(
        "--reviewed", metavar="FILE", type=Path, help="a person's boxes: boxes.json or review.sqlite of `review`"
    )
    made.add_argument(
        "--warm-start",
        metavar="RUN",
        type=Path,
        help="learn the rounds alone, from the warm start that RUN has kept: other rounds, or the same with --reviewed",
    )
    made.add_argument("--cache", action="store_true", help="keep a frozen trunk's features (--data.cache true)")
    made.add_argument("--workers", metavar="N", type=int, help="processes for proposals (default: one per core)")
    made.add_argument("--skip-bad-images", action="store_true", help="go on without pictures that cannot be read")
    for section in sections():
        group = made.add_argument_group(section.title)
        for name, metavar, words in section.options:
            group.add_argument(f"--{name}", dest=FIELD + name.replace(".", "__"), metavar=metavar, help=words)
    return made


def run(source: Path, cache: bool, seed: str | None, precision: str | None, **options: Any) -> None:
    """What was asked for."""
    from tag2box.commands.train import train

    fields = {name: options.pop(name) for name in list(options) if name.startswith(FIELD)}
    overrides = {name.removeprefix(FIELD).replace("__", "."): value for name, value in fields.items()}
    overrides |= {"seed": seed, "precision": precision} | ({"data.cache": "true"} if cache else {})
    given = {name: value for name, value in overrides.items() if value is not None}
    train(source, overrides=given, **options)
