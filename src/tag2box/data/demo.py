"""The demo data: a VOC devkit drawn from a seed, six classes, no downloads.

What is in the pictures is in `demo_things.py` and `demo_props.py`, where they play in `demo_scenes.py`, how they are
put together and annotated in `demo_picture.py`, and how paper is cut in `demo_drawing.py`.
"""

import json
import tempfile
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import PIL
from PIL import Image

from tag2box.data.demo_picture import Picture, draw_picture
from tag2box.data.demo_things import CLASSES
from tag2box.errors import InputError

YEAR = "VOC2007"
STAMP = "drawn.json"

Tick = Callable[[int, int], object]
"""Called after each picture with how many are drawn and how many there will be."""


@dataclass(frozen=True, slots=True)
class _Order:
    """What was asked for, and by which code it is drawn: two equal orders give equal devkits."""

    seed: int
    train: int
    test: int
    drawn_by: str

    @property
    def total(self) -> int:
        return self.train + self.test

    def picture(self, number: int) -> tuple[str, Picture]:
        """The id and picture of a place in the devkit; each is drawn from the seed, its split and its place alone."""
        split, index = (0, number) if number < self.train else (1, number - self.train)
        rng = np.random.Generator(np.random.PCG64([self.seed, split, index]))
        return f"{number + 1:06d}", draw_picture(rng)


@dataclass(frozen=True, slots=True)
class _Line:
    """What the split lists say of one picture."""

    id: str
    classes: frozenset[str]
    difficult_only: frozenset[str]


def draw_demo(
    out: Path, *, seed: int = 0, train: int = 300, test: int = 150, workers: int = 1, tick: Tick | None = None
) -> Path:
    """Draw the demo data to `out`/VOCdevkit/VOC2007 and return that folder.

    `trainval` holds the training pictures (`val` every fifth of them), `test` the others. The folder appears when it is
    complete, or not at all; one drawn earlier to the same order is left as it is. More than one worker means other
    processes, so a script that asks for them needs its `if __name__ == "__main__"`.
    """
    if seed < 0 or train < 1 or test < 0:
        raise InputError(f"expected seed ≥ 0, train ≥ 1 and test ≥ 0, found seed {seed}, train {train}, test {test}")
    order = _Order(seed, train, test, _drawn_by())
    devkit = out / "VOCdevkit" / YEAR
    if _found(devkit) == asdict(order):
        return devkit
    devkit.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{YEAR}-", dir=devkit.parent) as scratch:
        drawn = Path(scratch) / YEAR
        _write_devkit(drawn, order, workers, tick)
        if devkit.exists():  # an earlier order's: it goes with the temporary folder
            devkit.rename(Path(scratch) / "earlier")
        drawn.rename(devkit)
    return devkit


def _drawn_by() -> str:
    """Changes with the code and the libraries that draw, so that an older drawing is never taken for a new one."""
    digest = sha256()
    for source in sorted(Path(__file__).parent.glob("demo*.py")):
        digest.update(source.read_bytes())
    return f"{digest.hexdigest()[:16]}, numpy {np.__version__}, pillow {PIL.__version__}"


def _found(devkit: Path) -> object:
    """The order an existing folder was drawn to, or nothing; a folder of someone else's is not ours to replace."""
    if not devkit.exists():
        return None
    try:
        return json.loads((devkit / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(
            f"expected no folder, or demo data drawn earlier, at {devkit}; found one without {STAMP}: "
            "choose another place or remove it"
        ) from None


def _write_devkit(devkit: Path, order: _Order, workers: int, tick: Tick | None) -> None:
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (devkit / folder).mkdir(parents=True)
    lines = []
    with closing(_drawn_lines(devkit, order, workers)) as drawn:  # when interrupted, no worker writes on
        for line in drawn:
            lines.append(line)
            if tick is not None:
                tick(len(lines), order.total)
    _write_splits(devkit / "ImageSets" / "Main", lines[: order.train], lines[order.train :])
    (devkit / STAMP).write_text(json.dumps(asdict(order), indent=1) + "\n", encoding="utf-8")


def _drawn_lines(devkit: Path, order: _Order, workers: int) -> Generator[_Line, None, None]:
    draw = partial(_write_picture, devkit, order)
    if workers <= 1:
        yield from map(draw, range(order.total))
        return
    # Spawned, not forked: a caller with threads of its own (torch, OpenCV) may hang when forked.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(draw, range(order.total), chunksize=8)


def _write_picture(devkit: Path, order: _Order, number: int) -> _Line:
    name, picture = order.picture(number)
    image = Image.fromarray(picture.pixels)
    # Full colour resolution (subsampling 0): these flat colours bleed visibly otherwise.
    image.save(devkit / "JPEGImages" / f"{name}.jpg", quality=90, subsampling=0)
    (devkit / "Annotations" / f"{name}.xml").write_text(_annotation(name, picture), encoding="utf-8")
    seen = frozenset(thing.name for thing in picture.things)
    clear = frozenset(thing.name for thing in picture.things if not thing.difficult)
    return _Line(name, seen, seen - clear)


def _annotation(name: str, picture: Picture) -> str:
    """The picture's XML in the manner of VOC: boxes are 1-based and include their last pixel."""
    height, width, depth = picture.pixels.shape
    parts = [
        "<annotation>",
        f"\t<folder>{YEAR}</folder>",
        f"\t<filename>{name}.jpg</filename>",
        "\t<source><database>tag2box demo</database></source>",
        f"\t<size><width>{width}</width><height>{height}</height><depth>{depth}</depth></size>",
        "\t<segmented>0</segmented>",
    ]
    for thing in picture.things:
        x0, y0, x1, y1 = thing.box
        parts += [
            "\t<object>",
            f"\t\t<name>{thing.name}</name>",
            "\t\t<pose>Unspecified</pose>",
            f"\t\t<truncated>{thing.truncated:d}</truncated>",
            f"\t\t<occluded>{thing.occluded:d}</occluded>",
            f"\t\t<difficult>{thing.difficult:d}</difficult>",
            f"\t\t<bndbox><xmin>{x0 + 1}</xmin><ymin>{y0 + 1}</ymin><xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox>",
            "\t</object>",
        ]
    return "\n".join([*parts, "</annotation>", ""])


def _write_splits(folder: Path, trainval: list[_Line], test: list[_Line]) -> None:
    train = [line for i, line in enumerate(trainval) if i % 5 != 4]
    val = trainval[4::5]
    for split, lines in {"train": train, "val": val, "trainval": trainval, "test": test}.items():
        _write_lines(folder / f"{split}.txt", [line.id for line in lines])
        for name in CLASSES:
            _write_lines(folder / f"{name}_{split}.txt", [f"{line.id} {_sign(line, name):2d}" for line in lines])


def _sign(line: _Line, name: str) -> int:
    """VOC's mark: 1 in the picture, -1 not, 0 only as a difficult object."""
    if name in line.difficult_only:
        return 0
    return 1 if name in line.classes else -1


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
