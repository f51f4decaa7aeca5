"""The errors that are told in one line, and how to word them."""

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
    """
    by_folded = {choice.casefold(): choice for choice in choices}
    close = get_close_matches(word.casefold(), by_folded, n=1)
    return f"; did you mean '{by_folded[close[0]]}'?" if close else ""


def name_some(names: Iterable[str], most: int = 5) -> str:
    """List names on one line, the first few by name and the rest by count.

    >>> name_some(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    names = list(names)
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
