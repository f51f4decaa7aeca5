"""What both nets thought of a picture, stage by stage: kept as JSON lines, so that it can be drawn again any time."""

import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from tag2box.boxes import Box, as_box
from tag2box.errors import InputError
from tag2box.files import write_atomically

LONGEST_NAME = 200  # bytes; file systems take 255, and a temporary name beside it is longer


@dataclass(frozen=True, slots=True)
class SampleView:
    """One picture after one stage."""

    image_path: Path
    image_id: str
    stage: str
    tags: tuple[str, ...]
    prediction: list[tuple[str, float, Box]] = field(default_factory=list)
    """The prediction net's class, score and box of each detection."""
    samples: list[list[tuple[str, Box]]] = field(default_factory=list)
    """For each of the conditional net's K samples the classes and boxes it picked; empty before the first round."""


def append_samples(path: Path, views: Iterable[SampleView]) -> None:
    """Add views to a file of JSON lines. What it had of the same picture and stage is replaced: a resumed run
    repeats a stage and must not show it twice. The file is written anew, so that a kill leaves no half line.
    """
    kept = {(view.image_id, view.stage): view for view in (read_samples(path) if path.exists() else [])}
    kept.update({(view.image_id, view.stage): view for view in views})
    write_atomically(path, "".join(f"{_to_json(view)}\n" for view in kept.values()))


def read_samples(path: Path) -> list[SampleView]:
    """The views in the order in which they were added."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the samples {path}: {error}") from None
    return [_from_json(line, f"{path}, line {i}") for i, line in enumerate(lines, 1) if line.strip()]


def picture_name(image_id: str) -> str:
    """A file name for the picture of an image: ids hold folders and whatever else people put in names.

    >>> picture_name("cat/001"), picture_name("Käfer 2")
    ('cat%2F001.png', 'Käfer 2.png')
    """
    name = re.sub(r'[\x00-\x1f"%*/:<>?\\|]|^\.', lambda match: f"%{ord(match[0]):02X}", image_id)
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = sha256(os.fsencode(image_id)).hexdigest()[:32]
    return f"{name}.png"


def _to_json(view: SampleView) -> str:
    # NumPy's numbers and tensors of one number are floats to us, though not to JSON.
    return json.dumps({**asdict(view), "image_path": str(view.image_path)}, default=float)


def _from_json(line: str, where: str) -> SampleView:
    try:
        fields = json.loads(line)
        return SampleView(
            image_path=Path(fields["image_path"]),
            image_id=str(fields["image_id"]),
            stage=str(fields["stage"]),
            tags=tuple(fields["tags"]),
            prediction=[(str(name), float(score), as_box(box)) for name, score, box in fields["prediction"]],
            samples=[[(str(name), as_box(box)) for name, box in sample] for sample in fields["samples"]],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"expected a view of a picture as JSON, found {error!r} in {where}") from None
