"""The errors that are told in one line, and how to word them."""

import re
from collections.abc import Iterable
from difflib import get_close_matches


class InputError(Exception):
    """The user's input is wrong. The message is one line: what was expected, what was found, where.

    The command line prints it and exits with code 2; nothing has been written by then.
    """


class TrainingError(Exception):
    """A run cannot go on, though nobody's input is wrong. The message is one line: what happened, and what is left."""


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
    return f"; did you mean '{by_folded[close[0]]}'?" if close else ""


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
    """
    names = list(names)
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
