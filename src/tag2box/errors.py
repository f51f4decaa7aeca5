"""The errors that are told in one line, and how to word them."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from importlib.util import find_spec
from numbers import Integral, Real
from typing import Any


class InputError(Exception):
    """The user's input is wrong. The message is one line: what was expected, what was found, where.

    The command line prints it and exits with code 2; nothing has been written by then.
    """


class WorkError(Exception):
    """The work cannot go on, though nobody's input is wrong. The message is one line: what happened, and what is left.

    The command line prints it and exits with code 1.
    """


class TrainingError(WorkError):
    """A run cannot go on."""


def require_choice(option: str, found: str, choices: Iterable[str]) -> None:
    """Refuse a word that is none of two or more choices.

    >>> require_choice("--by", "size", ["doubt", "size"])
    >>> require_choice("--by", "doubts", ["doubt", "size"])
    Traceback (most recent call last):
    tag2box.errors.InputError: expected --by doubt or size, found 'doubts'; did you mean 'doubt'?
    """
    *others, last = choices
    if found not in (*others, last):
        hint = did_you_mean(found, (*others, last))
        raise InputError(f"expected {option} {', '.join(others)} or {last}, found '{found}'{hint}")


def require_share(name: str, found: Any) -> None:
    """Refuse what is no number between 0 and 1.

    >>> require_share("score", 2)
    Traceback (most recent call last):
    tag2box.errors.InputError: score: expected a number between 0 and 1, found 2
    """
    if isinstance(found, bool) or not isinstance(found, Real) or not 0 <= float(found) <= 1:
        raise InputError(f"{name}: expected a number between 0 and 1, found {_short(found)}")


def require_at_least_one(name: str, found: Any) -> None:
    """Refuse what is no whole number from 1 up; None is as good as nothing said.

    >>> require_at_least_one("batch", 0)
    Traceback (most recent call last):
    tag2box.errors.InputError: batch: expected 1 or more, found 0
    """
    if found is not None and (isinstance(found, bool) or not isinstance(found, Integral) or int(found) < 1):
        raise InputError(f"{name}: expected 1 or more, found {_short(found)}")


def _short(found: object) -> str:
    return f"{found:g}" if isinstance(found, float) else repr(found)


def how_to_install(extra: str) -> str:
    """What to type for an extra: from wherever tag2box came from.

    >>> how_to_install("review")
    "pip install 'tag2box[review]', or '.[review]' in the folder of tag2box"
    """
    return f"pip install 'tag2box[{extra}]', or '.[{extra}]' in the folder of tag2box"


def require_packages(*names: str, extra: str) -> None:
    """Find out before the work that a package which comes with an extra is not installed."""
    for name in names:
        if find_spec(name) is None:
            raise InputError(f"expected the package {name}, found none: {how_to_install(extra)}")


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """A suggestion to append to a message, or nothing when no choice is close.

    >>> did_you_mean("trainvall", ["train", "val", "trainval"])
    "; did you mean 'trainval'?"
    >>> did_you_mean("zebra", ["train", "val"])
    ''

    Another number is another thing, not a misspelling; the same number with more or fewer zeros is one.

    >>> did_you_mean("000301", ["000030", "000302"]), did_you_mean("IMG_301.jpg", ["IMG_302.jpg"])
    ('', '')
    >>> did_you_mean("voc7", ["voc12", "voc07"])
    "; did you mean 'voc07'?"
    """
    word = word.casefold()
    by_folded = {choice.casefold(): choice for choice in choices}
    close = get_close_matches(word, [choice for choice in by_folded if not _other_number(word, choice)], n=1)
    return f"; did you mean '{_in_one_line(by_folded[close[0]])}'?" if close else ""


def _other_number(word: str, choice: str) -> bool:
    """Whether two words differ in the value of their numbers and in nothing else."""
    if re.sub("[0-9]+", "0", word) != re.sub("[0-9]+", "0", choice):
        return False
    numbers, others = (re.findall("0*([0-9]+)", one) for one in (word, choice))
    return numbers != others


def name_some(names: Iterable[str], most: int = 5) -> str:
    """List names on one line, the first few by name and the rest by count.

    >>> name_some(["a", "b", "c"], most=2)
    'a, b and 1 more'

    Names come from files, and may have anything in them.

    >>> name_some(["a\\nb", "c"])
    'a b, c'
    """
    names = list(names)
    shown = _in_one_line(", ".join(names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _in_one_line(text: str) -> str:
    return " ".join(text.splitlines())
