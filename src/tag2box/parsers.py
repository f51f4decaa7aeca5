"""What each command takes: its options, their help, and examples. Nothing here is heavy: help must answer at once."""

import argparse
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from jsonargparse import ArgumentParser

from tag2box.errors import InputError, did_you_mean

DATA_FORMATS = """\
DATA is a path, recognised by what it holds:
  a VOC devkit          VOCdevkit, or VOCdevkit/VOC2007 with ImageSets/Main
  a COCO file           instances_train2017.json, or the folder above annotations/
  one folder per class  photos/cat/*.jpg, photos/dog/*.jpg
  a tag file            a folder with tags.csv (columns image,tags) or metadata.jsonl (file_name, tags)"""


class Parser(ArgumentParser):
    """Argument errors in the manner of all our errors: one line, exit code 2."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Leave the wording to `main`."""
        words = _worded(" ".join(message.split()), self._option_string_actions)
        raise InputError(f"{words} (see {self.prog} --help)") from ex


def _worded(message: str, options: Iterable[str]) -> str:
    """The parser's complaint in our words: on a value's type, an option that does not exist, or missing data."""
    if re.search(r"arguments are required: (data|source)\b", message):
        return "expected DATA, found nothing"
    if wrong := re.match(r"""Parser key "(\w+)": Expected an? <class '(\w+)'>\. Got value: (.*)""", message):
        kind = {"int": "a whole number", "float": "a number"}.get(wrong[2], wrong[2])
        return f"expected {kind} for --{wrong[1].replace('_', '-')}, found {wrong[3]}"
    if unknown := re.match(r"unrecognized arguments: (--[\w.-]+)", message):
        return message + did_you_mean(unknown[1], options)
    return message


class _Layout(argparse.RawDescriptionHelpFormatter):
    """Our own line breaks, and room for the options."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=110)


def _parser(description: str, epilog: str, usage: str | None = None) -> Parser:
    # No abbreviations: an option mistyped would be taken for a longer one.
    return Parser(description=description, epilog=epilog, usage=usage, formatter_class=_Layout, allow_abbrev=False)


FIELD = "field_"
"""Begins the names of what sets a recipe's field."""


def _add_data(parser: Parser) -> None:
    parser.add_argument("data", metavar="DATA", type=Path, help="the data set (formats below)")
    _add_part(parser)


def _add_part(parser: Parser) -> None:
    parser.add_argument("--split", metavar="NAME", help="which part: trainval, test, … (default: the training part)")
    parser.add_argument("--images", metavar="DIR", type=Path, help="where a COCO file's pictures are, if not beside it")


def proposals_parser() -> Parser:
    """Of `tag2box proposals`."""
    parser = _parser(
        "Find where objects could be: class-independent boxes for every picture, by selective search.\n\n"
        "Computed once, on all cores, and kept in one file that every later command reuses. Stop it whenever you\n"
        "like, by whatever means; the same command goes on where it was and ends with the same bytes. Where the data\n"
        "set has boxes, a report says which objects the proposals reach.",
        f"{DATA_FORMATS}\n\n"
        "examples:\n"
        "  tag2box proposals photos/\n"
        "  tag2box proposals VOCdevkit/VOC2007 --split trainval --preset thorough\n"
        "  tag2box proposals VOCdevkit/VOC2007 --from voc_2007_trainval.mat",
    )
    _add_data(parser)
    parser.add_argument("--preset", default="fast", metavar="NAME", help="fast (default), or thorough: more boxes")
    parser.add_argument("--workers", metavar="N", type=int, help="processes (default: one per core)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="the file to keep them in (default: DATA/.tag2box/…)")
    parser.add_argument("--overwrite", action="store_true", help="replace a file made for other images or settings")
    parser.add_argument("--from", dest="source", metavar="FILE", type=Path, help="take over a .mat or .pkl instead")
    parser.add_argument("--skip-bad-images", action="store_true", help="go on without pictures that cannot be read")
    parser.add_argument("--json", dest="json_out", metavar="FILE", type=Path, help="write the report as JSON too")
    return parser


def train_parser() -> Parser:
    """Of `tag2box train`: with every field of a recipe."""
    from tag2box.options import sections

    parser = _parser(
        "Learn to find objects from tags alone: proposals where they are not there yet, a warm start, then rounds in\n"
        "which two nets teach each other. Boxes that the data set has serve to score each stage, never to learn.\n\n"
        "The run directory gets args.yaml, results.csv, results.png, samples/, report.html and weights/; its\n"
        "weights/best.safetensors is the whole detector. Stop it whenever you like; --resume goes on, to the bit.",
        "recipes:\n"
        "  paper   VGG16, five samples, six rounds: for a GPU (default)\n"
        "  fast    a small trunk that stays fixed, its features kept: for a CPU\n"
        "  demo    the smallest, for the demo's pictures\n"
        "  FILE    YAML of the fields above; `base: fast` builds on another recipe\n\n"
        f"{DATA_FORMATS}\n\n"
        "examples:\n"
        "  tag2box train photos/ --recipe fast\n"
        "  tag2box train VOCdevkit/VOC2007 --split trainval --val-fraction 0.2 --out runs/voc\n"
        "  tag2box train VOCdevkit/VOC2007 --out runs/voc --resume\n"
        "  tag2box train photos/ --backbone.weights vgg16.safetensors --rounds.number 3 --data.scales 480,600",
        usage="tag2box train DATA [--recipe NAME|FILE] [--out RUN [--resume]] [options] [--section.field value] ...",
    )
    # Not called data: jsonargparse would take a mistyped --data.field for a part of it.
    parser.add_argument("source", metavar="DATA", type=Path, help="the data set (formats below)")
    parser.add_argument("--recipe", metavar="NAME|FILE", help="which settings (default: paper)")
    parser.add_argument("--out", metavar="RUN", type=Path, help="the run directory (default: runs/DATA-1, …-2)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out")
    parser.add_argument("--device", metavar="NAME", default="auto", help="auto (default), cpu or cuda")
    parser.add_argument("--seed", metavar="N", help="of everything that is drawn (default: 0)")
    parser.add_argument("--precision", metavar="NAME", help="32-true (default) or bf16-mixed")
    parser.add_argument("--split", metavar="NAME", help="which part to learn from (default: the training part)")
    parser.add_argument("--val-split", metavar="NAME", help="score each stage on this part, where it has boxes")
    parser.add_argument("--val-fraction", metavar="F", type=float, help="or hold out this share, say 0.2, for it")
    parser.add_argument("--images", metavar="DIR", type=Path, help="where a COCO file's pictures are")
    parser.add_argument("--proposals", metavar="FILE", type=Path, help="use these (from `tag2box proposals --out`)")
    parser.add_argument("--cache", action="store_true", help="keep a frozen trunk's features (--data.cache true)")
    parser.add_argument("--workers", metavar="N", type=int, help="processes for proposals (default: one per core)")
    parser.add_argument("--skip-bad-images", action="store_true", help="go on without pictures that cannot be read")
    for section in sections():
        group = parser.add_argument_group(section.title)
        for name, metavar, words in section.options:
            group.add_argument(f"--{name}", dest=FIELD + name.replace(".", "__"), metavar=metavar, help=words)
    return parser


def evaluate_parser() -> Parser:
    """Of `tag2box evaluate`."""
    parser = _parser(
        "Score a detector against a data set that has boxes: average precision to the letter of the VOC devkit,\n"
        "CorLoc, COCO AP. RUN is a run directory of `tag2box train` or a detector's file.\n\n"
        "With --detections the boxes may come from any detector, and the pictures themselves are not needed. FILE is\n"
        "a COCO results JSON (image_id, category_id or category, bbox, score), or VOC comp4_det_*.txt files or a\n"
        "folder of them. image_id is the picture's name without extension, or its number; category_id counts from 1\n"
        "in the data set's class order (for a COCO data set, both are the file's own).",
        "metrics:\n"
        "  voc07   average precision at IoU > 0.5, 11 points (VOC 2007)\n"
        "  voc12   average precision at IoU > 0.5, area under the curve (VOC 2010 and later)\n"
        "  corloc  share of a class's images whose top box is on one of its objects (IoU >= 0.5)\n"
        "  coco    COCO AP over IoU 0.5 to 0.95\n\n"
        f"{DATA_FORMATS}\n\n"
        "examples:\n"
        "  tag2box evaluate runs/voc VOCdevkit/VOC2007 --split test --tta\n"
        "  tag2box evaluate --detections results.json VOCdevkit/VOC2007 --split test\n"
        "  tag2box evaluate --detections comp4/ VOCdevkit/VOC2007 --split test --metrics voc07,voc12 --json s.json",
        usage="tag2box evaluate RUN DATA [options]\n       tag2box evaluate --detections FILE DATA [options]",
    )
    parser.add_argument(
        "data", metavar="[RUN] DATA", nargs="+", type=Path, help="the data set (formats below), after the run"
    )
    parser.add_argument("--detections", metavar="FILE", type=Path, help="the boxes to score, in place of a RUN's")
    _add_part(parser)
    parser.add_argument("--val-fraction", metavar="F", type=float, help="score only a held-out share, say 0.2")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="which part that is (default: 0)")
    parser.add_argument("--metrics", metavar="LIST", default="voc07,corloc", help="default: voc07,corloc")
    parser.add_argument("--json", dest="json_out", metavar="FILE", type=Path, help="write unrounded scores as JSON")
    parser.add_argument("--pr-curve", metavar="FILE", type=Path, help="draw the precision-recall curves as PNG")
    run = parser.add_argument_group("of a RUN")
    run.add_argument("--tta", action="store_true", help="average over the scales of training and mirrored pictures")
    run.add_argument("--device", metavar="NAME", default="auto", help="auto (default), cpu or cuda")
    run.add_argument("--proposals", metavar="FILE", type=Path, help="use these (from `tag2box proposals --out`)")
    run.add_argument("--workers", metavar="N", type=int, help="processes for proposals (default: one per core)")
    run.add_argument("--skip-bad-images", action="store_true", help="go on without pictures that cannot be read")
    return parser


def demo_parser() -> Parser:
    """Of `tag2box demo`."""
    parser = _parser(
        "The whole story on built-in data, without a download, in minutes on two cores: draws tagged pictures,\n"
        "proposes boxes, trains a detector on the tags alone, and shows stage by stage what it finds on pictures it\n"
        "has not seen. DIR/data is the data set, DIR/run the run with its report.",
        "examples:\n  tag2box demo\n  tag2box demo --out somewhere --seed 3",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("demo"), help="where to (default: demo)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="other pictures, another run (default: 0)")
    return parser


PARSERS = {"demo": demo_parser, "proposals": proposals_parser, "train": train_parser, "evaluate": evaluate_parser}
"""By command."""
