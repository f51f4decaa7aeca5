"""Every field of a recipe as an option of the command line, explained in the words of config.py."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import pairwise
from types import UnionType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from tag2box import config

_METAVARS = {bool: "BOOL", int: "N", float: "X", str: "TEXT"}


class Option(NamedTuple):
    """A field."""

    name: str
    """`rounds.number`"""
    metavar: str
    help: str


class Section(NamedTuple):
    """The fields that belong together."""

    title: str
    options: list[Option]


def sections() -> Iterator[Section]:
    """The sections of a recipe in order; fields of the recipe itself are not among them."""
    words = _field_words()
    hints = get_type_hints(config.Recipe)
    for one in fields(config.Recipe):
        kind, default = hints[one.name], getattr(config.Recipe(), one.name)
        if kind.__module__ == config.__name__:
            about = (kind.__doc__ or "").rstrip(".")
            yield Section(f"{one.name} – {about}", list(_options(one.name, kind, default, words[kind.__name__])))


def _options(section: str, kind: type, defaults: Any, words: Mapping[str, str]) -> Iterator[Option]:
    for name, hint in get_type_hints(kind).items():
        default = _shown(getattr(defaults, name))
        about = words.get(name, "").rstrip(".")
        yield Option(f"{section}.{name}", _metavar(hint), f"{about} (default: {default})".replace("%", "%%"))


def _metavar(hint: Any) -> str:
    arguments = get_args(hint)
    if get_origin(hint) is Literal:
        return "|".join(arguments)
    if get_origin(hint) is tuple:
        return f"{_METAVARS[arguments[0]]},…"
    return _METAVARS[arguments[0] if get_origin(hint) is UnionType else hint]


def _shown(value: Any) -> str:
    if value is None:
        return "by the backbone"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _field_words() -> dict[str, dict[str, str]]:
    """The string below each field, by class and field. Python forgets them, so they are read from the source."""
    return {
        node.name: dict(_words_in(node))
        for node in ast.parse(inspect.getsource(config)).body
        if isinstance(node, ast.ClassDef)
    }


def _words_in(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for pair in pairwise(node.body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                yield name, " ".join(words.split())
