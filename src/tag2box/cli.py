"""The command line: wires commands to functions and turns a user's mistake into one line. No logic lives here.

Everything heavy is imported inside the function that needs it, so that `tag2box --help` answers at once.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from jsonargparse import ArgumentParser

from tag2box import __version__
from tag2box.errors import InputError, did_you_mean

_DATA_FORMATS = """\
DATA is a path, recognised by what it holds:
  a VOC devkit          VOCdevkit, or VOCdevkit/VOC2007 with ImageSets/Main
  a COCO file           instances_train2017.json, or the folder above annotations/
  one folder per class  photos/cat/*.jpg, photos/dog/*.jpg
  a tag file            a folder with tags.csv (columns image,tags) or metadata.jsonl (file_name, tags)"""


class _Parser(ArgumentParser):
    """Argument errors in the manner of all our errors: one line, exit code 2."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Leave the wording to `main`."""
        raise InputError(f"{' '.join(message.split())} (see {self.prog} --help)") from ex


class _Layout(argparse.RawDescriptionHelpFormatter):
    """Our own line breaks, and room for the options."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=110)


def _parser(description: str, epilog: str) -> _Parser:
    return _Parser(description=description, epilog=epilog, formatter_class=_Layout)


def _add_data(parser: _Parser) -> None:
    parser.add_argument("data", metavar="DATA", type=Path, help="the data set (formats below)")
    parser.add_argument("--split", metavar="NAME", help="which part: trainval, test, … (default: the training part)")
    parser.add_argument("--images", metavar="DIR", type=Path, help="where a COCO file's pictures are, if not beside it")


def _proposals_parser() -> _Parser:
    parser = _parser(
        "Find where objects could be: class-independent boxes for every picture, by selective search.\n\n"
        "Computed once, on all cores, and kept in one file that every later command reuses. Stop it whenever you\n"
        "like, by whatever means; the same command goes on where it was and ends with the same bytes. Where the data\n"
        "set has boxes, a report says which objects the proposals reach.",
        f"{_DATA_FORMATS}\n\n"
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


def _proposals(data: Path, **options: Any) -> None:
    from tag2box.commands.proposals import propose_dataset

    propose_dataset(data, **options)


def _evaluate_parser() -> _Parser:
    parser = _parser(
        "Score a detector's boxes against a data set that has boxes: average precision to the letter of the VOC\n"
        "devkit, CorLoc, COCO AP. The boxes may come from any detector; the pictures themselves are not needed.\n\n"
        "FILE is a COCO results JSON (image_id, category_id or category, bbox, score), or VOC comp4_det_*.txt files\n"
        "or a folder of them. image_id is the picture's name without extension, or its number; category_id counts\n"
        "from 1 in the data set's class order (for a COCO data set, both are the file's own).",
        "metrics:\n"
        "  voc07   average precision at IoU > 0.5, 11 points (VOC 2007)\n"
        "  voc12   average precision at IoU > 0.5, area under the curve (VOC 2010 and later)\n"
        "  corloc  share of a class's images whose top box is on one of its objects (IoU >= 0.5)\n"
        "  coco    COCO AP over IoU 0.5 to 0.95\n\n"
        f"{_DATA_FORMATS}\n\n"
        "examples:\n"
        "  tag2box evaluate --detections results.json VOCdevkit/VOC2007 --split test\n"
        "  tag2box evaluate --detections comp4/ VOCdevkit/VOC2007 --split test --metrics voc07,voc12 --json s.json",
    )
    parser.add_argument("--detections", metavar="FILE", type=Path, required=True, help="the boxes to score")
    _add_data(parser)
    parser.add_argument("--val-fraction", metavar="F", type=float, help="score only a held-out share, say 0.2")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="which part that is (default: 0)")
    parser.add_argument("--metrics", metavar="LIST", default="voc07,corloc", help="default: voc07,corloc")
    parser.add_argument("--json", dest="json_out", metavar="FILE", type=Path, help="write unrounded scores as JSON")
    parser.add_argument("--pr-curve", metavar="FILE", type=Path, help="draw the precision-recall curves as PNG")
    return parser


def _evaluate(data: Path, metrics: str, **options: Any) -> None:
    from tag2box.commands.evaluate import evaluate_file

    evaluate_file(data, metrics=[name.strip() for name in metrics.split(",") if name.strip()], **options)


def _demo_parser() -> _Parser:
    parser = _parser(
        "The story on built-in data, without a download: draws tagged pictures, proposes boxes, and shows how many\n"
        "of the objects they reach.",
        "examples:\n  tag2box demo\n  tag2box demo --out somewhere --seed 3",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("demo"), help="where to (default: demo)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="draw other pictures (default: 0)")
    return parser


def _demo(out: Path, seed: int) -> None:
    from tag2box.commands.demo import demo

    demo(out, seed=seed)


class _Command(NamedTuple):
    parser: Callable[[], _Parser]
    run: Callable[..., None]
    summary: str


COMMANDS = {
    "demo": _Command(_demo_parser, _demo, "the story on built-in data"),
    "proposals": _Command(_proposals_parser, _proposals, "boxes where objects could be, for every picture"),
    "evaluate": _Command(_evaluate_parser, _evaluate, "score any detector's boxes: AP, CorLoc"),
}


def _main_help() -> str:
    commands = "\n".join(f"  {name:11}{command.summary}" for name, command in COMMANDS.items())
    return f"""\
usage: tag2box COMMAND ...
       tag2box COMMAND --help
       tag2box --version

Photos with tags in, an object detector out. Tell tag2box what is in each picture; it finds out where.

commands:
{commands}

{_DATA_FORMATS}

Exit codes: 0 done, 2 the input is wrong (one line says what was expected, what was found, and where), 1 anything
else. Ctrl-C leaves work that the same command resumes.

examples:
  tag2box demo
  tag2box proposals photos/
  tag2box evaluate --detections results.json VOCdevkit/VOC2007 --split test"""


def _run(arguments: Sequence[str]) -> None:
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help", "help"):
        print(_main_help())
    elif name == "--version":
        print(f"tag2box {__version__}")
    elif name in COMMANDS:
        parser = COMMANDS[name].parser()
        parser.prog = f"tag2box {name}"
        COMMANDS[name].run(**vars(parser.parse_args(arguments[1:])))
    else:
        raise InputError(f"expected a command ({', '.join(COMMANDS)}), found '{name}'{did_you_mean(name, COMMANDS)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    try:
        _run(sys.argv[1:] if arguments is None else arguments)
    except InputError as error:
        print(f"tag2box: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("tag2box: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
