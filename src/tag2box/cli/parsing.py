"""How all commands take their options. Nothing here is heavy: help must answer at once."""

import argparse
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

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

    def parse_args(self, args: Any = None, *more: Any, **options: Any) -> Any:
        """Options may stand anywhere among the paths, which argparse does not allow where paths are many."""
        given = sys.argv[1:] if args is None else args
        return super().parse_args(_options_first(given, self._option_string_actions), *more, **options)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Leave the wording to `main`."""
        words = _worded(" ".join(message.split()), self._option_string_actions)
        raise InputError(f"{words} (see {self.prog} --help)") from ex


def _options_first(arguments: Sequence[str], options: Mapping[str, argparse.Action]) -> list[str]:
    """Options with their values, then the rest in order; what follows `--` is never an option."""
    ahead: list[str] = []
    rest: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "--":
            return [*ahead, *rest, word, *left]
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        ahead.append(word)
        action = options.get(word)
        if action is not None and action.nargs != 0:
            if not left:  # its value is missing, which is the parser's to say
                return list(arguments)
            ahead.append(left.pop(0))
    return [*ahead, *rest]


def _worded(message: str, options: Iterable[str]) -> str:
    """The parser's complaint in our words: on a value's type, an option that does not exist, or missing data."""
    if re.search(r"arguments are required: (data|source)\b", message):
        return "expected DATA, found nothing"
    if re.search(r"arguments are required: run$", message):
        return "expected RUN, found nothing"
    if re.search(r"arguments are required: (run, )?images", message):
        return "expected RUN and then pictures, found too little"
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


def make_parser(description: str, epilog: str, usage: str | None = None) -> Parser:
    """A command's parser, to which its options are added."""
    # No abbreviations: an option mistyped would be taken for a longer one.
    return Parser(description=description, epilog=epilog, usage=usage, formatter_class=_Layout, allow_abbrev=False)


def add_data(parser: Parser) -> None:
    """The data set, and which part of it."""
    parser.add_argument("data", metavar="DATA", type=Path, help="the data set (formats below)")
    add_part(parser)


def add_part(parser: Parser) -> None:
    """Which part of the data set."""
    parser.add_argument("--split", metavar="NAME", help="which part: trainval, test, … (default: the training part)")
    parser.add_argument("--images", metavar="DIR", type=Path, help="where a COCO file's pictures are, if not beside it")
