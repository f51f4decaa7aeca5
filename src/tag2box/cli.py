"""The command line: wires commands to functions, turns a user's mistake into one line. No logic lives here.

Everything heavy is imported inside the function that needs it, so that `tag2box --help` answers at once.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import ArgumentParser, Namespace

from tag2box import __version__
from tag2box.errors import InputError


class _Parser(ArgumentParser):  # type: ignore[misc]
    """Argument errors in the manner of all our errors: one line, exit code 2."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        raise InputError(f"{message} (see: {self.prog} --help)") from ex
