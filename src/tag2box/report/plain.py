"""Dataclasses as JSON and back. What does not fit is a ValueError, whatever a file of unknown origin holds."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_json(value: Any) -> str:
    """A dataclass as JSON text; NaN, which JSON does not have, becomes null."""
    return json.dumps(_without_nan(asdict(value)), allow_nan=False, separators=(",", ":"))


def from_json(kind: type[T], text: str | bytes) -> T:
    """The dataclass that `to_json` wrote; fields that are not given take their defaults, unknown ones are ignored."""
    try:
        return cast("T", _value(kind, json.loads(text)))
    except (RecursionError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"{error}") from None


def _value(kind: Any, value: Any) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, value)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:  # only `X | None` occurs
        return None if value is None else _value(inner[0], value)
    if origin is tuple and isinstance(value, list):
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(_value(one, item) for one, item in zip(kinds, value, strict=True))
    if origin is dict and isinstance(value, Mapping):
        return {str(name): _value(inner[1], item) for name, item in value.items()}
    return _scalar(kind, value)


def _dataclass(kind: type, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected the fields of {kind.__name__}, found {value!r}")
    hints = get_type_hints(kind)
    try:
        return kind(**{one.name: _value(hints[one.name], value[one.name]) for one in fields(kind) if one.name in value})
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from None


def _scalar(kind: Any, value: Any) -> Any:
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise ValueError(f"expected {kind}, found {value!r}")
    return value


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
