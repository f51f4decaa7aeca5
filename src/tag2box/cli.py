"""The command line: wires commands to functions and turns a user's mistake into one line. No logic lives here.

Everything heavy is imported inside the function that needs it, so that `tag2box --help` answers at once, and the
parsers inside `main`, so that Ctrl-C is heard in a civil manner from the start.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tag2box import __version__
from tag2box.errors import InputError, TrainingError, did_you_mean


def _proposals(data: Path, **options: Any) -> None:
    from tag2box.commands.proposals import propose_dataset

    propose_dataset(data, **options)


def _train(source: Path, cache: bool, seed: str | None, precision: str | None, **options: Any) -> None:
    from tag2box.commands.train import train
    from tag2box.parsers import FIELD

    fields = {name: options.pop(name) for name in list(options) if name.startswith(FIELD)}
    overrides = {name.removeprefix(FIELD).replace("__", "."): value for name, value in fields.items()}
    overrides |= {"seed": seed, "precision": precision} | ({"data.cache": "true"} if cache else {})
    given = {name: value for name, value in overrides.items() if value is not None}
    train(source, overrides=given, **options)


_OF_A_RUN = {"tta": False, "device": "auto", "proposals": None, "workers": None, "skip_bad_images": False}


def _evaluate(data: Sequence[Path], detections: Path | None, metrics: str, **options: Any) -> None:
    *runs, source = data
    names = [name.strip() for name in metrics.split(",") if name.strip()]
    if detections is None and not runs:
        is_run = source.suffix == ".safetensors" or (source / "args.yaml").is_file() or (source / "weights").is_dir()
        expected = "DATA after the run" if is_run else "a RUN before DATA, or --detections FILE"
        raise InputError(f"expected {expected}, found only {source}")
    if len(runs) != (detections is None):
        raise InputError(f"expected RUN DATA, or --detections FILE DATA, found {' '.join(map(str, data))}: too many")
    from tag2box.commands.evaluate import evaluate_file, evaluate_run

    if detections is None:
        evaluate_run(runs[0], source, metrics=names, **options)
        return
    for name, default in _OF_A_RUN.items():
        if options.pop(name) != default:
            raise InputError(f"expected --{name.replace('_', '-')} with a RUN only, found it beside --detections")
    evaluate_file(source, detections, metrics=names, **options)


def _demo(out: Path, seed: int) -> None:
    from tag2box.commands.demo import demo

    demo(out, seed=seed)


class _Command(NamedTuple):
    run: Callable[..., None]
    summary: str


COMMANDS = {
    "demo": _Command(_demo, "the story on built-in data"),
    "proposals": _Command(_proposals, "boxes where objects could be, for every picture"),
    "train": _Command(_train, "a detector from tagged pictures"),
    "evaluate": _Command(_evaluate, "score a run, or any detector's boxes: AP, CorLoc"),
}


def _main_help() -> str:
    from tag2box.parsers import DATA_FORMATS

    commands = "\n".join(f"  {name:11}{command.summary}" for name, command in COMMANDS.items())
    return f"""\
usage: tag2box COMMAND ...
       tag2box COMMAND --help
       tag2box --version

Photos with tags in, an object detector out. Tell tag2box what is in each picture; it finds out where.

commands:
{commands}

{DATA_FORMATS}

Exit codes: 0 done, 2 the input is wrong (one line says what was expected, what was found, and where), 130 stopped by
Ctrl-C (one line says how to go on: with the same command, or in `train` with --resume), 1 anything else.

examples:
  tag2box demo
  tag2box train photos/ --recipe fast
  tag2box evaluate runs/voc VOCdevkit/VOC2007 --split test"""


def _run(arguments: Sequence[str]) -> None:
    name = arguments[0] if arguments else "--help"
    if name in ("-h", "--help", "help"):
        print(_main_help())
    elif name == "--version":
        print(f"tag2box {__version__}")
    elif name in COMMANDS:
        from tag2box.parsers import PARSERS

        parser = PARSERS[name]()
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
    except TrainingError as error:
        print(f"tag2box: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print(f"tag2box: {str(stop) or 'stopped; the same command goes on from here'}", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
