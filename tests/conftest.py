"""Builders for tiny data sets on disk, for all tests: fixtures that are functions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from PIL import Image

VocObject = tuple[str, tuple[float, float, float, float]] | tuple[str, tuple[float, float, float, float], bool]


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """For tensors so small that threads would only wait for each other, for long where other work runs beside."""
    import torch  # the tests of data alone do without

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def canvas_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are padded on the CPU as a GPU has them."""
    import torch

    from tag2box.inference import canvas

    for module in ("inference", "detector"):
        monkeypatch.setattr(f"tag2box.{module}.canvas", lambda size, device: canvas(size, torch.device("cuda")))


@pytest.fixture
def save_picture() -> Callable[..., Path]:
    """`save_picture(path, size=(32, 24), mode="RGB", **options for Pillow)`: noise that differs from path to path."""
    return _save_picture


def _save_picture(path: Path, size: tuple[int, int] = (32, 24), mode: str = "RGB", **options: Any) -> Path:
    noise = np.random.default_rng(crc32(str(path).encode())).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise).convert(mode).save(path, **options)
    return path


@pytest.fixture
def make_devkit(tmp_path: Path) -> Callable[..., Path]:
    """`make_devkit(objects, splits)` → the year's folder.

    `objects` gives for each image its objects as (class, (xmin, ymin, xmax, ymax)) or with a third item, whether
    difficult; `splits` the ids of each split, by default all in `trainval`.
    """

    def make(
        objects: Mapping[str, Sequence[VocObject]],
        splits: Mapping[str, Sequence[str]] | None = None,
        *,
        class_lists: bool = True,
        size: tuple[int, int] = (100, 80),
        pictures: bool = True,
        folder: str = "VOCdevkit/VOC2007",
    ) -> Path:
        year = tmp_path / folder
        for part in ("Annotations", "ImageSets/Main", "JPEGImages"):
            (year / part).mkdir(parents=True)
        for id, items in objects.items():
            (year / "Annotations" / f"{id}.xml").write_text(voc_xml(items, size), encoding="utf-8")
            if pictures:
                _save_picture(year / "JPEGImages" / f"{id}.jpg", size)
        for split, ids in (splits or {"trainval": list(objects)}).items():
            _write_lists(year / "ImageSets" / "Main", split, ids, objects, class_lists)
        return year

    return make


def voc_xml(items: Sequence[VocObject], size: tuple[int, int]) -> str:
    objects = "".join(
        f"<object><name>{item[0]}</name><difficult>{int(len(item) > 2 and item[2])}</difficult><bndbox>"
        + "".join(
            f"<{key}>{value}</{key}>" for key, value in zip(("xmin", "ymin", "xmax", "ymax"), item[1], strict=True)
        )
        + "</bndbox></object>"
        for item in items
    )
    return f"<annotation><size><width>{size[0]}</width><height>{size[1]}</height></size>{objects}</annotation>\n"


def _write_lists(
    main: Path, split: str, ids: Sequence[str], objects: Mapping[str, Sequence[VocObject]], class_lists: bool
) -> None:
    (main / f"{split}.txt").write_text("".join(f"{id}\n" for id in ids))
    for name in {item[0] for items in objects.values() for item in items} if class_lists else ():
        lines = [f"{id} {_label(name, objects[id]):2d}\n" for id in ids]
        (main / f"{name}_{split}.txt").write_text("".join(lines))


def _label(name: str, items: Sequence[VocObject]) -> int:
    """The devkit's: 1 present, 0 only difficult ones, −1 absent."""
    flags = [len(item) > 2 and item[2] for item in items if item[0] == name]
    return -1 if not flags else 0 if all(flags) else 1
