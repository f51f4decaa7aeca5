"""`tag2box.json` in a folder of results: what they are made of, and that they are ours, to replace or to pass over."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tag2box.evaluation.scores import as_json
from tag2box.files import write_atomically

ABOUT = "tag2box.json"


def write_about(folder: Path, facts: Mapping[str, Any]) -> None:
    """Say it; `facts` have the kind of results in "format"."""
    write_atomically(folder / ABOUT, as_json(facts))


def read_about(folder: Path) -> dict[str, Any]:
    """What a folder says of itself; nothing where it is not one of ours."""
    try:
        facts = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    ours = isinstance(facts, dict) and str(facts.get("format", "")).startswith("tag2box ")
    return facts if ours else {}
