"""Plain values, from a YAML file or a command line, made into dataclasses; what does not fit is said in one line."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from tag2box.errors import InputError, did_you_mean

T = TypeVar("T")
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def typed(kind: type, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The values with the types of the dataclass's fields, sections (dataclasses in it) included.

    A field that is not given stays away. `where` begins the message on a wrong one: `my.yaml: rounds.number`.
    """
    return _section(kind, values, f"{where}: " if where else "", "")


def construct(kind: type[T], values: Mapping[str, Any]) -> T:
    """A dataclass, and those in it, from what `typed` gave; missing fields take their defaults."""
    hints = get_type_hints(kind)
    sections = {name: construct(hints[name], values[name]) for name in values if is_dataclass(hints[name])}
    return kind(**{**values, **sections})


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """`{"rounds.number": 3}` → `{"rounds": {"number": 3}}`.

    >>> nested({"seed": 1, "rounds.number": 3, "rounds.gamma": 0.5})
    {'seed': 1, 'rounds': {'number': 3, 'gamma': 0.5}}
    """
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        section, _, name = key.partition(".")
        update(tree, {section: {name: value}} if name else {section: value})
    return tree


def update(values: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Put other values over these, section by section."""
    for key, value in other.items():
        old = values.get(key)
        values[key] = {**old, **value} if isinstance(old, Mapping) and isinstance(value, Mapping) else value


def _section(kind: type, values: Any, place: str, prefix: str) -> dict[str, Any]:
    hints = get_type_hints(kind)
    if not isinstance(values, Mapping):
        raise InputError(f"{place}{prefix.rstrip('.')}: expected fields ({', '.join(hints)}), found {_shown(values)}")
    for name in values:
        if name not in hints:
            what = f"a field of {prefix.rstrip('.')}" if prefix else "a section or field"
            hint = did_you_mean(str(name), hints)
            raise InputError(f"{place}expected {what} ({', '.join(hints)}), found '{name}'{hint}")
    return {name: _value(hints[name], value, place, f"{prefix}{name}") for name, value in values.items()}


def _value(kind: Any, value: Any, place: str, name: str) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        return _section(kind, value, place, f"{name}.")
    choices = get_args(kind)
    if get_origin(kind) is Literal:
        if isinstance(value, bool) and {"on", "off"} <= set(choices):  # which is how YAML reads a bare on and off
            value = "on" if value else "off"
        if value not in choices:
            hint = did_you_mean(str(value), choices)
            raise InputError(f"{place}{name}: expected {' or '.join(choices)}, found {_shown(value)}{hint}")
        return value
    if get_origin(kind) is UnionType:  # only `X | None` occurs
        return None if value in (None, "none", "null") else _value(choices[0], value, place, name)
    if get_origin(kind) is tuple:
        items = value.strip("[]()").split(",") if isinstance(value, str) else value
        items = list(items) if isinstance(items, list | tuple) else [items]
        if not items:
            raise InputError(f"{place}{name}: expected one or more of {_WORDS[choices[0]]}, found none")
        return tuple(_value(choices[0], item, place, name) for item in items)
    return _scalar(kind, value, f"{place}{name}")


def _scalar(kind: type, value: Any, where: str) -> Any:
    """One bool, int, float or str. Text is read as the type asks, since a command line has nothing else."""
    wanted = value
    if isinstance(value, str) and kind is bool:
        wanted = _TRUTHS.get(value.strip().lower(), value)
    elif isinstance(value, str) and kind in (int, float):  # YAML's own reader takes 1e-3 for text
        wanted = _number(value)
    if kind is float and type(wanted) is int:
        wanted = float(wanted)
    if type(wanted) is not kind or wanted != wanted:  # NaN is no number, and unlike itself
        raise InputError(f"{where}: expected {_WORDS[kind]}, found {_shown(value)}")
    return wanted


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _shown(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else repr(value)
