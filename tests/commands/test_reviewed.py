"""`tag2box train --reviewed`: which decisions reach the engine, and what a resumed run goes on with."""

import shlex
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest

import tag2box
from tag2box.cli import main
from tag2box.cli.label import parser as label_parser
from tag2box.commands.reviewed import describe, read_reviewed
from tag2box.commands.train import train
from tag2box.data import open_dataset
from tag2box.engine import loop
from tag2box.errors import InputError
from tag2box.known import read_known, write_known
from tag2box.proposals.store import write_store
from tag2box.review.database import Database
from tag2box.review.store import Store

CAT, DOG = ("cat", (11, 11, 60, 60)), ("dog", (21, 21, 90, 70))
BOXES = np.array([[10, 10, 60, 60], [20, 20, 90, 70], [0, 0, 100, 80]], dtype=np.int16)
SMALL = {"backbone.weights": "none", "head.width": "16"}
IDS = [f"t{i}" for i in range(12)]
KNOWN = {
    "t0": {"cat": [(1.0, 2.0, 30.0, 40.0)]},
    "t1": {"dog": [], "cat": [(0.0, 0.0, 9.5, 9.0), (5.0, 5.0, 9.0, 9.0)]},
}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def devkit(make_devkit):
    """Cats in even pictures, dogs in odd ones."""
    return make_devkit({id: [(CAT, DOG)[i % 2]] for i, id in enumerate(IDS)})


@pytest.fixture
def store(tmp_path):
    write_store(tmp_path / "p.safetensors", IDS, [(100, 80)] * 12, {}, [3] * 12, [BOXES] * 12)
    return tmp_path / "p.safetensors"


@pytest.fixture
def boxes(tmp_path):
    write_known(tmp_path / "boxes.json", KNOWN)
    return tmp_path / "boxes.json"


@pytest.fixture
def engine(monkeypatch):
    calls = []

    def train_run(dataset, store, recipe, out, **options):
        calls.append(SimpleNamespace(dataset=dataset, **options))

    monkeypatch.setattr(loop, "train_run", train_run)
    return calls


def run_train(devkit, store, out, **options):
    return train(devkit, recipe="demo", device="cpu", proposals=store, out=out, overrides=SMALL, **options)


def test_the_engine_gets_the_decisions_and_the_tags_that_they_leave(devkit, store, boxes, engine, tmp_path, capsys):
    run = run_train(devkit, store, tmp_path / "run", reviewed=boxes)
    (call,) = engine
    assert call.known == KNOWN
    assert [call.dataset[i].tags for i in range(3)] == [("cat",), ("cat",), ("cat",)]
    out = capsys.readouterr().out
    assert "a person has decided on 2 images: 3 boxes known, 1 tag taken away, 1 tag added\n" in out
    assert f"--reviewed {boxes}" in (run / "args.yaml").read_text().splitlines()[0]
    assert read_known(run / "known.json", open_dataset(devkit)) == KNOWN


def test_without_decisions_nothing_is_known_though_the_data_set_has_boxes(devkit, store, engine, tmp_path):
    run = run_train(devkit, store, tmp_path / "run")
    assert engine[0].known == {}
    assert not (run / "known.json").exists()


def test_from_python_and_the_command_line(devkit, store, boxes, engine, tmp_path):
    place = {"proposals": str(store), "overrides": SMALL, "device": "cpu"}
    tag2box.train(str(devkit), "demo", out=str(tmp_path / "one"), reviewed=str(boxes), **place)
    words = f"train {devkit} --recipe demo --out {tmp_path / 'two'} --device cpu --proposals {store}"
    words += f" --backbone.weights none --reviewed {boxes}"
    assert main(words.split()) == 0
    assert engine[0].known == engine[1].known == KNOWN


def make_review(path, **statuses):
    """A review in which `t0`'s cat is accepted, `t1`'s dog rejected and `t3`'s dog still open."""
    with closing(Database(path)) as database:
        store = Store(database)
        store.decide("t0", "cat", "accepted", [[1, 2, 30, 40]], 0)
        store.decide("t1", "dog", "rejected", [], 0)
        store.decide("t3", "dog", "open", [[1, 2, 30, 40]], 0)
        store.decide("elsewhere", "dog", "rejected", [], 0)
    return path


def test_a_review_file(devkit, store, engine, tmp_path, capsys):
    review = make_review(tmp_path / "review.sqlite")
    known = {"t0": {"cat": [(1, 2, 30, 40)]}, "t1": {"dog": []}}
    assert read_reviewed(review, open_dataset(devkit)) == known
    run = run_train(devkit, store, tmp_path / "run", reviewed=review)
    assert engine[0].known == known
    *_, command = capsys.readouterr().out.splitlines()[-1].partition("tag2box ")
    words = shlex.split(command)
    assert words[0] == "label"
    options = label_parser().parse_args(words[1:])  # what is said to come next can be typed
    assert read_known(options.known, open_dataset(devkit)) == known
    assert engine[0].dataset[1].tags == ()
    run_train(devkit, store, run, reviewed=review, resume=True)
    with closing(Database(review)) as database:  # somebody goes on reviewing
        Store(database).decide("t5", "dog", "rejected", [], 0)
    with pytest.raises(InputError, match=r"found others in .*review.sqlite; without --reviewed it goes on with those"):
        run_train(devkit, store, run, reviewed=review, resume=True)
    run_train(devkit, store, run, resume=True)
    assert [call.known for call in engine] == [known] * 3


def test_a_review_of_other_pictures_of_the_same_names(devkit, tmp_path, save_picture):
    review = make_review(tmp_path / "review.sqlite")
    read_reviewed(review, open_dataset(devkit))
    save_picture(devkit / "JPEGImages" / "t0.jpg", (200, 160))
    with pytest.raises(InputError, match=r"found some on others of the same name \(t0\)"):
        read_reviewed(review, open_dataset(devkit))


def test_a_run_that_began_without_decisions_goes_on_without(devkit, store, boxes, engine, tmp_path):
    run = run_train(devkit, store, tmp_path / "run")
    with pytest.raises(InputError, match=r"expected the decisions that .* was started with, found others in .*json$"):
        run_train(devkit, store, run, reviewed=boxes, resume=True)
    assert len(engine) == 1


def test_decisions_on_held_out_images_are_left_out(devkit, store, engine, tmp_path, capsys):
    write_known(tmp_path / "all.json", {id: {"cat": [(1, 2, 30, 40)]} for id in IDS})
    run = run_train(devkit, store, tmp_path / "run", reviewed=tmp_path / "all.json", val_fraction=0.4)
    (call,) = engine
    assert set(call.known) == set(call.dataset.ids) != set(IDS)
    held = len(call.val[0])
    assert f"decisions on {held} images that are not learnt from left out" in capsys.readouterr().out
    assert all("cat" in image.tags for image in call.dataset)
    assert [image.tags for image in call.val[0]] == [
        ("cat", "dog")[int(image.id[1:]) % 2 :][:1] for image in call.val[0]
    ]
    run_train(devkit, store, run, val_fraction=0.4, resume=True)
    assert engine[1].known == call.known


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "cannot read"),
        ("{}", 'expected {"format": "tag2box boxes 1"'),
        ('{"format": "tag2box boxes 1", "images": {"x": {}}}', "expected images of the data set, found x"),
        ('{"format": "tag2box boxes 1", "images": {"t0": {"cats": []}}}', "did you mean 'cat'?"),
        ('{"format": "tag2box boxes 1", "images": {}}', "expected decisions on images of the data set, found none"),
        (
            '{"format": "tag2box boxes 1", "images": {"t0": {}}}',
            "expected decisions on images to learn from, found none",
        ),
        ("SQLite format 3\0 and no database", "cannot use"),
    ],
)
def test_what_is_no_decision(content, expected, devkit, store, engine, tmp_path, capsys):
    file = tmp_path / "given.json"
    if content is not None:
        file.write_text(content)
    words = f"train {devkit} --recipe demo --backbone.weights none --out {tmp_path / 'run'} --proposals {store}"
    assert main([*words.split(), "--reviewed", str(file)]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert expected in err
    assert engine == []
    assert not (tmp_path / "run").exists()


def test_in_words(devkit):
    dataset = open_dataset(devkit)
    assert describe({"t0": {"cat": [(0, 0, 5, 5)]}}, dataset) == "a person has decided on 1 image: 1 box known"
    assert describe({"t0": {"cat": [], "dog": []}}, dataset).endswith("0 boxes known, 1 tag taken away")
