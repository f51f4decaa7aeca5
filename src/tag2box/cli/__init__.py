"""The command line: wires commands to functions and turns a user's mistake into one line. No logic lives here.

Each command is a module of its name with `parser()` and `run(**options)`. Everything heavy is imported inside the
function that needs it, so that `tag2box --help` answers at once, and the command inside `main`, so that Ctrl-C is heard
in a civil manner from the start.
"""

import sys
from collections.abc import Sequence
from importlib import import_module

from tag2box import __version__
from tag2box.errors import InputError, WorkError, did_you_mean

COMMANDS = {
    "demo": "the story on built-in data",
    "proposals": "boxes where objects could be, for every picture",
    "train": "a detector from tagged pictures",
    "evaluate": "score a run, or any detector's boxes: AP, CorLoc",
    "report": "a run's page, report.html, written anew",
    "predict": "boxes on new pictures and videos",
    "label": "the tagged data set with boxes, for other tools",
    "rank": "where a human look pays most",
    "review": "look over the boxes on a local web page",
    "rpn": "a detector that proposes boxes itself, without a search",
    "export": "the detector as an ONNX file, for deployment",
}


def _main_help() -> str:
    from tag2box.cli.parsing import DATA_FORMATS

    commands = "\n".join(f"  {name:11}{summary}" for name, summary in COMMANDS.items())
    return f"""\
usage: tag2box COMMAND ...
       tag2box COMMAND --help
       tag2box --version

Photos with tags in, an object detector out. Tell tag2box what is in each picture; it finds out where.

commands:
{commands}

{DATA_FORMATS}

Exit codes: 0 done, 2 the input is wrong (one line says what was expected, what was found, and where), 130 stopped by
Ctrl-C (one line says how to go on where that can be: proposals, train), 1 anything else.

examples:
  tag2box demo
  tag2box train photos/ --recipe fast
  tag2box evaluate runs/voc VOCdevkit/VOC2007 --split test
  tag2box predict runs/photos-1 holiday/"""


def _run(arguments: Sequence[str]) -> None:
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help", "help"):
        print(_main_help())
    elif name == "--version":
        print(f"tag2box {__version__}")
    elif name in COMMANDS:
        command = import_module(f"tag2box.cli.{name}")
        parser = command.parser()
        parser.prog = f"tag2box {name}"
        command.run(**vars(parser.parse_args(arguments[1:])))
    else:
        raise InputError(f"expected a command ({', '.join(COMMANDS)}), found '{name}'{did_you_mean(name, COMMANDS)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    try:
        _run(sys.argv[1:] if arguments is None else arguments)
    except InputError as error:
        print(f"tag2box: {error}", file=sys.stderr)
        return 2
    except WorkError as error:
        print(f"tag2box: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print(f"tag2box: {str(stop) or 'stopped'}", file=sys.stderr)
        return 130
    return 0
