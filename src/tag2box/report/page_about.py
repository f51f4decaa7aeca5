"""What was trained on what: the facts of a run, from its own files."""

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml  # type: ignore[import-untyped]

from tag2box.report import page_parts as html
from tag2box.report.findings import Findings

MOST_CLASSES = 60
SETTINGS = (
    ("Recipe", "recipe"),
    ("Trunk", "backbone.name"),
    ("Rounds", "rounds.number"),
    ("Samples K", "rounds.samples"),
    ("Seed", "seed"),
    ("Precision", "precision"),
)
"""Those of args.yaml that everyone asks for; the rest is shown folded."""
WARM_START = "Warm start of"
OPTIONS = (
    ("Recipe", "--recipe"),
    ("Part learnt from", "--split"),
    ("Scored on", "--val-split"),
    ("Held out", "--val-fraction"),
    (WARM_START, "--warm-start"),
    ("Decisions of a person", "--reviewed"),
)
"""Those of the command that args.yaml does not have."""


@dataclass(frozen=True, slots=True)
class About:
    """What the files of a run do not say of it."""

    data: str = ""
    """The data set: a name or a path."""
    images: int | None = None
    """Pictures learnt from."""
    test_images: int | None = None
    classes: Sequence[str] = ()
    device: str = ""
    seconds: float = math.nan
    """Of the whole run; when not given, those of its stages together."""
    command: str = ""
    """What to type to get the same again."""
    finished: str = ""
    """The day, as 2025-12-31."""
    version: str = ""
    """Of tag2box, with which it was trained."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Other facts, by name."""


def about_run(settings: str, findings: Findings | None) -> About:
    """What a run's own files say of it: the command stands in the first line of its settings."""
    first = settings.partition("\n")[0]
    command = first.removeprefix("# ") if first.startswith("# tag2box train ") else ""
    words = _words(command)
    options = dict(zip(words[3::2], words[4::2], strict=False))  # each is given with a value
    about = About(
        data=words[2] if len(words) > 2 else "",
        command=command,
        more={name: options[option] for name, option in OPTIONS if option in options},
    )
    if findings is None:
        return about
    return replace(
        about,
        images=findings.images if findings.learnt_from is None else findings.learnt_from,
        test_images=findings.test_images,
        classes=tuple(one.name for one in findings.classes),
        finished=findings.finished,
        version=findings.version,
    )


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quotation mark that is not closed: not our line
        return []


def about_section(about: About, settings: str) -> str:
    """The facts of a run, some of them from args.yaml, whose text is `settings`."""
    return html.section("What was trained on what", html.facts(_facts(about, settings), _some(about.classes)))


def _facts(about: About, settings: str) -> Iterable[tuple[str, str]]:
    yield "Data", about.data
    yield "Pictures", _pictures(about)
    yield from about.more.items()
    arguments = _parsed(settings)
    for name, place in SETTINGS:
        yield name, _at(arguments, place)
    yield "Device", about.device
    yield "Finished", about.finished
    yield "tag2box", about.version


def _pictures(about: About) -> str:
    counts = ((about.images, "to learn from"), (about.test_images, "to test on"))
    return ", ".join(f"{number:,} {words}" for number, words in counts if number is not None)


def _some(names: Sequence[str]) -> list[str]:
    rest = len(names) - MOST_CLASSES
    return [*names[:MOST_CLASSES], *([f"and {rest} more"] if rest > 0 else [])]


def _parsed(settings: str) -> Any:
    try:
        return yaml.safe_load(settings)
    except (yaml.YAMLError, ValueError):  # ValueError: a date that is none
        return {}


def _at(arguments: Any, place: str) -> str:
    """The value at `section.field`, or nothing."""
    for name in place.split("."):
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return "" if arguments is None or isinstance(arguments, (dict, list)) else str(arguments)
