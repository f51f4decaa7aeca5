"""A small held-out set with one of everything that can happen, and a reader of pages."""

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tag2box.data import Dataset, TaggedImage
from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections

CLASSES = ("cat", "dog", "cow")
VOID = {"meta", "img"}


class Page(HTMLParser):
    """The tags, attributes and words of a page; fails where tags are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


@pytest.fixture
def parse() -> Callable[[str], Page]:
    return Page


@pytest.fixture
def read() -> Callable[[Path], Page]:
    return lambda path: Page(path.read_text("utf-8"))


def _truth(rows, ids=None, classes=CLASSES) -> GroundTruth:
    """Rows (image, class, x0, y0, x1, y1[, difficult])."""
    table = np.array([[*row, *[0] * (7 - len(row))] for row in rows], dtype=float).reshape(-1, 7)
    ids = ids or [f"p{i}" for i in range(1 + int(table[:, 0].max(initial=0)))]
    images, labels, hard = table[:, 0].astype(int), table[:, 1].astype(int), table[:, 6].astype(bool)
    return GroundTruth(tuple(classes), tuple(ids), images, labels, table[:, 2:6], hard, np.zeros(len(table), bool))


def _found(truth: GroundTruth, rows) -> Detections:
    """Rows (image, class, score, x0, y0, x1, y1)."""
    table = np.array(rows, dtype=float).reshape(-1, 7)
    images, labels = table[:, 0].astype(int), table[:, 1].astype(int)
    return Detections(truth.classes, truth.ids, images, labels, table[:, 2], table[:, 3:])


@pytest.fixture
def make_truth() -> Callable[..., GroundTruth]:
    return _truth


@pytest.fixture
def make_found() -> Callable[..., Detections]:
    return _found


@pytest.fixture
def problem() -> tuple[GroundTruth, Detections]:
    """p0: cat found; p1: cat found in part and sure of it; p2: dog taken for a cat; p3: cow missed; p4: nothing."""
    box = (10, 10, 60, 50)
    truth = _truth([(0, 0, *box), (1, 0, *box), (2, 1, *box), (3, 2, *box)], ids=["p0", "p1", "p2", "p3", "p4"])
    rows = [
        (0, 0, 0.8, 10, 10, 60, 49),
        (1, 0, 0.95, 20, 20, 40, 40),
        (1, 0, 0.6, *box),
        (2, 0, 0.7, *box),
        (3, 2, 0.1, *box),
        (4, 1, 0.65, *box),
    ]
    return truth, _found(truth, rows)


@pytest.fixture
def make_pictures(tmp_path) -> Callable[..., Dataset]:
    """`make_pictures(ids)`: a data set of grey pictures."""

    def make(ids, classes=CLASSES, size=(100, 80)) -> Dataset:
        folder = tmp_path / "pictures"
        folder.mkdir(exist_ok=True)
        images = []
        for number, id in enumerate(ids):
            path = Path(folder / f"{number}.png")
            Image.new("RGB", size, (90, 90, number % 250)).save(path)
            images.append(TaggedImage(id, path, size, (classes[number % len(classes)],)))
        return Dataset(tuple(classes), tuple(images))

    return make
