"""Recipes: YAML files of the fields of config.py, by name where they lie here, else from anywhere."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from tag2box.errors import InputError, did_you_mean
from tag2box.typed import typed, update


def recipe_names() -> list[str]:
    """The recipes in the package."""
    return sorted(item.name.removesuffix(".yaml") for item in _shelf().iterdir() if item.name.endswith(".yaml"))


def _shelf() -> Traversable:
    return files("tag2box") / "recipes"


def read_recipe(name: str, kind: type, *, folder: Path = Path(), above: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields that a recipe gives, over those of its base, with the types of `kind`.

    A relative path counts from `folder`; `above` are the recipes that led here.
    """
    file = _find(name, folder)
    if str(file) in above:
        raise InputError(f"recipe {name}: expected a base that ends somewhere, found that it builds on itself")
    content = _parse(file, name)
    base = content.pop("base", None)
    beside = file.parent if isinstance(file, Path) else Path()
    values: dict[str, Any] = {}
    if base is not None:
        values = read_recipe(str(base), kind, folder=beside, above=(*above, str(file)))
    update(values, typed(kind, content, f"recipe {name}"))
    return values


def _find(name: str, folder: Path) -> Traversable:
    names = recipe_names()
    if name in names:
        return _shelf() / f"{name}.yaml"
    file = folder / name
    if not file.is_file():
        hint = did_you_mean(name, names)
        raise InputError(f"expected a recipe ({', '.join(names)}) or a YAML file, found '{name}'{hint}")
    return file


def _parse(file: Traversable, name: str) -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]  # here, so that what only needs the fields works without it

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the recipe {name}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"recipe {name}: expected YAML, found a mistake: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict | None):
        raise InputError(f"recipe {name}: expected sections and fields, found {type(content).__name__}")
    return content or {}
