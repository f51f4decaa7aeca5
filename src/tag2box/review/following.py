"""What to type after a review: to learn from what was decided, and to write it as labels for other tools."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

SETTINGS = "args.yaml"
"""In a run directory: its settings, and in the first line the command that it was started with."""
WARM_START = Path("weights", "warm.safetensors")
"""Where a run keeps the warm start that another can begin with."""
_HELD_OUT = ("--val-split", "--val-fraction")
"""What else than DATA and its split says which pictures a run has learnt from, and which it is scored on."""


class Step(NamedTuple):
    """A command that most people want next."""

    title: str
    why: str
    command: str


def next_steps(run: Path, data: Path, reviewed: Path, where: Mapping[str, Any]) -> list[Step]:
    """The next run and the labels. `where`: the options by which `review` was told where pictures and proposals are."""
    begin, held_out = _beginning(run, where.get("split"))
    learn = ["tag2box", "train", str(data), *begin, "--reviewed", str(reviewed), *_options(where), *held_out]
    label = ["tag2box", "label", str(run), str(data), "--known", str(reviewed), "--format", "label-studio"]
    return [
        Step("Teach the next run", "learn from these decisions", shlex.join([*learn, "--out", str(free_folder(run))])),
        Step("Write labels", "write boxes for other tools", shlex.join([*label, *_options(where)])),
    ]


def free_folder(run: Path) -> Path:
    """Beside a run, of its name with the next number that is free: photos-2 after photos-1, demo-2 after demo."""
    run = run if run.name else run.resolve()
    numbered = re.fullmatch(r"(.+)-(\d{1,6})", run.name)
    name, number = (numbered[1], int(numbered[2])) if numbered else (run.name, 1)
    while (free := run.with_name(f"{name}-{number + 1}")).exists():
        number += 1
    return free


def _beginning(run: Path, split: str | None) -> tuple[list[str], list[str]]:
    """The warm start of a run, where it has kept it and has learnt from these pictures, and what it held out of them.

    Else its settings alone.
    """
    given = _started_with(run)
    other = split is not None and given.get("--split", split) != split
    if other or not (run / WARM_START).is_file():
        return ["--recipe", str(run / SETTINGS)], []
    held_out = [word for name in _HELD_OUT if name in given for word in (name, given[name])]
    return ["--warm-start", str(run)], held_out


def _started_with(run: Path) -> dict[str, str]:
    """The options that a run was started with; each of them has a value."""
    try:
        words = shlex.split((run / SETTINGS).read_text(encoding="utf-8").partition("\n")[0])
    except (OSError, ValueError):  # a run whose settings are gone or are somebody else's
        return {}
    return dict(zip(words[4::2], words[5::2], strict=False)) if words[1:3] == ["tag2box", "train"] else {}


def _options(where: Mapping[str, Any]) -> list[str]:
    words = []
    for name, value in where.items():
        words += [] if value in (None, False) else [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words
