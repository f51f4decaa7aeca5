"""A small review without nets: four pictures with awkward names, and looks that are made up."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tag2box.data.records import Dataset, TaggedImage
from tag2box.review.cache import LookCache
from tag2box.review.database import Database
from tag2box.review.desk import Desk
from tag2box.review.following import Step
from tag2box.review.look import Look
from tag2box.review.looker import Looker
from tag2box.review.store import Store

CLASSES = ("cat", "dög <b>'s", "owl")
SIZE = (200, 100)
NAMES = {
    "plain": ("cat",),
    'it\'s "q" <img src=x onerror=alert(1)>': ("cat", "owl"),
    "größe 猫 & ../../etc": (CLASSES[1],),
    "sub/last": ("cat", "owl"),
}
"""Of the second owl more is doubted than of its cat; elsewhere the first tag is the doubtful one."""
DOUBTS = dict(zip(NAMES, (0.1, 0.4, 0.2, 0.3), strict=True))


FOLLOWING = (
    Step("Teach", "learn", "tag2box train 'a <b>&\"c\"' --out new"),
    Step("Write", "write", "tag2box label run data"),
)


def look_of(image: TaggedImage) -> Look:
    suggested = {"cat": [20.0, 10.0, 80.0, 60.0], "owl": [120.0, 30.0, 180.0, 90.0]}
    ranked = image.tags[::-1] if image.id == "sub/last" else image.tags
    doubts = {"": DOUBTS[image.id]} | {name: DOUBTS[image.id] / (1 + rank) for rank, name in enumerate(ranked)}
    return {
        "doubts": {name: _all_scores(doubt) for name, doubt in doubts.items()},
        "classes": {
            name: {
                "confidence": 0.5,
                "dissimilarity": 0.1,
                "self_diversity": 0.2,
                "predicted": [(0.5, suggested.get(name, [0.0, 0.0, 50.0, 50.0])), (0.3, [90.0, 5.0, 110.0, 25.0])],
                "samples": [[[20.0, 10.0, 90.0, 70.0]], [[25.0, 15.0, 85.0, 65.0]]],
                "suggested": [suggested.get(name, [0.0, 0.0, 50.0, 50.0])],
                "agreed": [[20.0, 10.0, 90.0, 70.0]],
            }
            for name in image.tags
        },
    }


def _all_scores(doubt: float) -> dict[str, float]:
    labels = {"dissimilarity": 0.1, "self-diversity": 0.2, "total": 0.3}
    return {"doubt": doubt, "distance": 1 - doubt, "confidence": 0.5, **labels}


@pytest.fixture
def dataset(tmp_path: Path, save_picture: Callable[..., Path]) -> Dataset:
    images = [
        TaggedImage(name, save_picture(tmp_path / "pictures" / f"{number}.jpg", SIZE), SIZE, tags)
        for number, (name, tags) in enumerate(NAMES.items())
    ]
    return Dataset(CLASSES, tuple(images))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "review.sqlite")
    yield made
    made.close()


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


@pytest.fixture
def make_desk(dataset: Dataset, database: Database) -> Iterator[Callable[..., Desk]]:
    """`make_desk(most=None, look=…)`: all pictures looked at, unless `wait=False`."""
    made = []

    def make(
        *,
        most: int | None = None,
        look: Callable[..., Look] = look_of,
        wait: bool = True,
        by: str = "doubt",
        only: Sequence[str] = (),
    ) -> Desk:
        looker = Looker(dataset.images, LookCache(database, ["test"]), look, by=by, only=only)
        desk = Desk(dataset, Store(database), looker, title="test", most=most, following=FOLLOWING)
        made.append(looker)
        looker.start()
        if wait:
            looker._thread.join(10)
        return desk

    yield make
    for looker in made:
        looker.stop()
