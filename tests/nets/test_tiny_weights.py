"""The shipped weights of the demo's trunk, and the script that made them."""

import argparse
import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from tag2box.data.demo_picture import Picture, draw_picture
from tag2box.data.demo_props import CLUTTER, DISTRACTORS
from tag2box.data.demo_things import CLASSES
from tag2box.nets import build_trunk_and_head
from tag2box.nets.backbone import build_trunk

SHIPPED = Path(str(files("tag2box.nets") / "tiny.safetensors"))
SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pretraining is no part of the package: its modules lie beside its script."""
    monkeypatch.syspath_prepend(str(SCRIPTS))


def _metadata() -> dict[str, str]:
    with safe_open(SHIPPED, "pt") as file:
        return dict(file.metadata())


def test_they_load_and_give_sensible_features():
    trunk = build_trunk("tiny", frozen="all")
    images = torch.randint(0, 256, (1, 3, 96, 128), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    features = trunk.features(images)
    assert features.shape == (1, 128, 12, 16)
    assert features.isfinite().all()
    assert 0.01 < features.std() < 100


def test_they_are_small_and_in_half_precision():
    assert SHIPPED.stat().st_size < 1e6
    with safe_open(SHIPPED, "pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float16}  # noqa: SIM118 — no mapping


def test_the_header_says_where_they_came_from():
    metadata = _metadata()
    assert metadata["script"] == "scripts/pretrain_tiny.py"
    assert metadata["licence"] == "Apache-2.0"
    assert {"seed", "steps", "batch", "rate", "instances"} <= json.loads(metadata["settings"]).keys()
    assert {"objective", "date", "held_out_accuracy", "seed"} <= metadata.keys()


def test_nothing_of_the_demo_was_a_category():
    categories = _metadata()["categories"].split(", ")
    assert len(categories) >= 60
    assert not {*categories} & {*CLASSES, *DISTRACTORS, *CLUTTER}


@pytest.mark.usefixtures("_scripts")
def test_the_script_still_has_the_same_categories():
    from tiny_categories import categories

    assert list(categories()) == _metadata()["categories"].split(", ")
    assert not {*categories()} & {*CLASSES, *DISTRACTORS, *CLUTTER}


@pytest.mark.usefixtures("_scripts")
def test_the_script_draws_trains_and_writes(tmp_path: Path):
    from pretrain_tiny import held_out_accuracy, provenance, train, write
    from tiny_bank import draw_bank, load_bank
    from tiny_objectives import Pictures
    from tiny_scenes import Composer

    drawn = draw_bank(0, instances=2, backdrops=2, workers=1, invented=2)
    drawn.save(tmp_path / "bank.npz")
    bank = load_bank(tmp_path / "bank.npz")
    np.testing.assert_array_equal(bank.sprites, drawn.sprites)
    composer, objective = Composer(bank, torch.device("cpu"), 0, held_out=1), Pictures(len(bank.names))
    options = argparse.Namespace(seed=0, steps=2, batch=4, rate=1e-3, instances=2, backdrops=2)
    options.objective = "pictures"
    train(objective, composer, options)
    accuracy = held_out_accuracy(objective, composer, batch=4, checks=1)
    write(objective, tmp_path / "tiny.safetensors", provenance(options, bank, accuracy))
    objective.eval()
    images = composer.compose(1, 64, things=1, sizes=(32, 64)).images
    with torch.no_grad():
        folded, own = build_trunk("tiny", weights=tmp_path / "tiny.safetensors")(images), objective.features(images)
    torch.testing.assert_close(folded, own, rtol=0.05, atol=0.05)  # half precision


@pytest.mark.usefixtures("_scripts")
def test_pictures_follow_from_the_seed_and_boxes_hold_the_things():
    from tiny_bank import draw_bank
    from tiny_scenes import Composer

    bank = draw_bank(0, instances=2, backdrops=2, workers=1, invented=0)
    first, again = (
        Composer(bank, torch.device("cpu"), 7, held_out=1).compose(4, 96, things=2, sizes=(40, 80)) for _ in range(2)
    )
    torch.testing.assert_close(first.images, again.images)
    assert first.boxes.min() >= 0
    assert first.boxes.max() <= 96
    seen = first.boxes[first.labels >= 0]
    assert len(seen)
    assert (seen[:, 2:] - seen[:, :2] > 10).all()


def _objects(pictures: list[Picture], weights: str) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    trunk, head = build_trunk_and_head("tiny", weights=weights, frozen="all")
    rows, labels = [], []
    for picture in pictures:
        pixels = torch.from_numpy(picture.pixels).movedim(2, 0)[None]
        things = [thing for thing in picture.things if not thing.difficult]
        rows.append(head.pool(trunk(pixels), [torch.tensor([thing.box for thing in things]).float()]).flatten(1))
        labels += [list(CLASSES).index(thing.name) for thing in things]
    return torch.cat(rows), torch.tensor(labels)


def _accuracy(pictures: list[Picture], weights: str) -> float:
    """Of the nearest class mean: means from the first half of the objects, tested on the second."""
    rows, labels = _objects(pictures, weights)
    rows = torch.nn.functional.normalize((rows - rows.mean(0)) / (rows.std(0) + 0.1 * rows.std()))
    half = len(rows) // 2
    means = torch.stack([rows[:half][labels[:half] == c].mean(0) for c in range(len(CLASSES))])
    return float(((rows[half:] @ means.T).argmax(1) == labels[half:]).float().mean())


def test_they_tell_the_demo_classes_apart_far_better_than_random_ones():
    pictures = [draw_picture(np.random.Generator(np.random.PCG64([99, i]))) for i in range(60)]
    assert _accuracy(pictures, "pretrained") > _accuracy(pictures, "none") + 0.2
