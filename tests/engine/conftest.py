"""For all tests of the engine: pictures of plain rectangles with proposals, and recipes and nets that take a moment."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from tag2box.config import Backbone, Data, Head, Inference, Optimiser, Recipe, Rounds, Teacher, Warm
from tag2box.data.records import Dataset, TaggedImage
from tag2box.engine.making import build_warm
from tag2box.engine.views import Album
from tag2box.nets.mil import MilNet, conditional_from_mil, prediction_from_mil
from tag2box.proposals.store import ProposalStore, write_store

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (40, 60, 230)}
Box = tuple[int, int, int, int]


@pytest.fixture(autouse=True, scope="package")
def _one_thread() -> Iterator[None]:
    """The tensors are small: a second thread would only wait for the first."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@dataclass(frozen=True)
class World:
    """A data set, its proposals, and where its rectangles are."""

    dataset: Dataset
    store: ProposalStore
    truth: tuple[tuple[Box, ...], ...]


@pytest.fixture(scope="session")
def make_world() -> Callable[..., World]:
    """`make_world(folder, images=6, sizes=…, tags=…, proposals=12)`: see `_make_world`."""
    return _make_world


def _make_world(
    folder: Path,
    images: int = 6,
    sizes: Sequence[tuple[int, int]] = ((64, 48), (50, 70), (48, 48)),
    tags: Sequence[Sequence[str]] = (("red",), ("green", "blue"), ("blue",), ("red", "green")),
    proposals: int | Sequence[int] = 12,
    seed: int = 0,
    parts: bool = True,
) -> World:
    """Pictures with a rectangle of its colour for each tag; the proposals are those, shifted ones, and random ones.

    parts: whether random ones may be mostly inside a rectangle. To a net that sees colours they look like all of it.
    """
    rng, folder = np.random.default_rng(seed), folder / "squares"
    folder.mkdir(parents=True, exist_ok=True)
    made, truth, boxes = [], [], []
    for number in range(images):
        size, own = sizes[number % len(sizes)], tuple(sorted(tags[number % len(tags)], key=list(COLOURS).index))
        places = _places(rng, size, len(own))
        path = folder / f"{number:03d}.png"
        _draw(rng, path, size, own, places)
        made.append(TaggedImage(path.stem, path, size, own))
        truth.append(places)
        count = proposals if isinstance(proposals, int) else proposals[number % len(proposals)]
        boxes.append(_proposals(rng, size, places, count, parts))
    file = folder / ".tag2box" / "proposals.safetensors"
    file.parent.mkdir(exist_ok=True)
    write_store(file, [one.id for one in made], [one.size for one in made], {}, [len(one) for one in boxes], boxes)
    return World(Dataset(tuple(COLOURS), tuple(made)), ProposalStore(file), tuple(truth))


def _places(rng: np.random.Generator, size: tuple[int, int], count: int) -> tuple[Box, ...]:
    """Rectangles side by side, so that none hides another."""
    width, height = size[0] // max(count, 1), size[1]
    places = []
    for number in range(count):
        w, h = int(rng.integers(width // 2, width - 4)), int(rng.integers(height // 3, height - 4))
        x, y = number * width + int(rng.integers(0, width - w)), int(rng.integers(0, height - h))
        places.append((x, y, x + w, y + h))
    return tuple(places)


def _draw(
    rng: np.random.Generator, path: Path, size: tuple[int, int], tags: Sequence[str], places: Sequence[Box]
) -> None:
    picture = rng.integers(110, 146, (size[1], size[0], 3), dtype=np.uint8)  # grey, a little noisy
    for tag, (x0, y0, x1, y1) in zip(tags, places, strict=True):
        picture[y0:y1, x0:x1] = COLOURS[tag]
    Image.fromarray(picture).save(path)


def _proposals(rng: np.random.Generator, size: tuple[int, int], places: Sequence[Box], count: int, parts: bool) -> Any:
    exact = np.array(places, dtype=float).reshape(-1, 4)
    shifted = np.tile(exact, (3, 1)) + rng.integers(-4, 5, (3 * len(places), 4))
    corners = rng.uniform(0, 1, (20 * count + 20, 2, 2)) * np.array(size)
    others = np.concatenate([corners.min(1), corners.max(1)], axis=1)
    if not parts:
        others = others[[all(_share_inside(box, place) < 0.5 for place in places) for box in others]]
    every = np.clip(np.concatenate([exact, shifted, others]).round(), 0, np.array([*size, *size])).astype(np.int16)
    return every[(every[:, 2] - every[:, 0] >= 6) & (every[:, 3] - every[:, 1] >= 6)][:count]


def _share_inside(box: Any, place: Box) -> float:
    """How much of a box is inside another."""
    width, height = (max(min(box[2 + i], place[2 + i]) - max(box[i], place[i]), 0) for i in (0, 1))
    return float(width * height / max((box[2] - box[0]) * (box[3] - box[1]), 1e-9))


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Six pictures of three sizes; not to be written to."""
    return _make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def make_recipe() -> Callable[..., Recipe]:
    """`make_recipe(optimiser={…}, rounds={…}, seed=…)`: a tiny trunk without weights, frozen and cached, two rounds."""
    return _make_recipe


def _make_recipe(seed: int = 0, precision: Any = "32-true", **sections: dict[str, Any]) -> Recipe:
    def fields(section: str, /, **defaults: Any) -> dict[str, Any]:
        return {**defaults, **sections.get(section, {})}

    return Recipe(
        backbone=Backbone(**fields("backbone", name="tiny", weights="none", dilated=False, frozen="all")),
        head=Head(**fields("head", width=16, dropout=0.0)),
        data=Data(**fields("data", scales=(48,), max_proposals=30, cache=True)),
        optimiser=Optimiser(**fields("optimiser", images=2, warmup=2, schedule="constant", weight_decay=1e-3)),
        teacher=Teacher(**fields("teacher")),
        warm=Warm(**fields("warm", epochs=1, rate=1e-3, branches=2)),
        rounds=Rounds(**fields("rounds", number=2, samples=3)),
        inference=Inference(**fields("inference", scales=(48,))),
        seed=seed,
        precision=precision,
    )


@dataclass(frozen=True)
class Nets:
    """The three nets and the album that goes with their trunk."""

    warm: MilNet
    prediction: nn.Module
    conditional: nn.Module
    album: Album


@pytest.fixture(scope="session")
def make_nets() -> Callable[..., Nets]:
    """`make_nets(world, recipe, seed=0)`: nets with larger last layers than they start with, so that labels differ."""
    return _make_nets


def _make_nets(world: World, recipe: Recipe, seed: int = 0) -> Nets:
    torch.manual_seed(seed)
    warm = build_warm(recipe, len(world.dataset.classes)).eval()
    for parameter in warm.mil.parameters():
        nn.init.normal_(parameter, std=1.0)
    if warm.mil.regression is not None:
        nn.init.normal_(warm.mil.regression.weight, std=0.01)
    prediction, conditional = prediction_from_mil(warm).eval(), conditional_from_mil(warm, noise_spread=1.0).eval()
    nn.init.normal_(prediction.predictor.scores.weight, std=1.0)  # the two nets do not agree
    album = Album(world.dataset, world.store, recipe.data, torch.device("cpu"), warm.trunk, warm.head)
    return Nets(warm, prediction, conditional, album)
