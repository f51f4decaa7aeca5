"""What is said to come next can be typed."""

import shlex
from pathlib import Path

import pytest

from tag2box.cli.label import parser as label_parser
from tag2box.cli.train import parser as train_parser
from tag2box.review.following import SETTINGS, WARM_START, free_folder, next_steps


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "my runs" / "it's-1"
    (folder / "weights").mkdir(parents=True)
    (folder / WARM_START).touch()
    return folder


def typed(step, parser):
    first, command, *words = shlex.split(step.command)
    assert (first, command) == ("tag2box", parser.__module__.rpartition(".")[2])
    return parser().parse_args(words)


def test_both_commands_with_what_the_review_was_given(run):
    data, reviewed = Path("photos & more"), run / "review.sqlite"
    where = {"split": "trainval", "images": Path("a b"), "proposals": Path("p.safetensors"), "skip-bad-images": True}
    learn, label = next_steps(run, data, reviewed, where)
    options = typed(learn, train_parser)
    assert (options.source, options.warm_start, options.reviewed) == (data, run, reviewed)
    assert options.out == run.with_name("it's-2")
    own = typed(label, label_parser)
    assert (own.data, own.known, own.format) == ([run, data], reviewed, "label-studio")
    for given in (options, own):
        assert (given.split, given.images, given.proposals) == ("trainval", Path("a b"), Path("p.safetensors"))
        assert given.skip_bad_images


def test_no_more_options_than_there_were(run):
    where = {"split": None, "images": None, "proposals": None, "skip-bad-images": False}
    learn, label = (shlex.split(step.command) for step in next_steps(run, Path("d"), Path("r"), where))
    assert [word for word in learn if word.startswith("--")] == ["--warm-start", "--reviewed", "--out"]
    assert [word for word in label if word.startswith("--")] == ["--known", "--format"]


@pytest.mark.parametrize("held_out", ["--val-fraction 0.2", "--val-split test"])
def test_the_warm_start_is_of_the_pictures_that_were_not_held_out(run, held_out):
    (run / SETTINGS).write_text(
        f"# tag2box train 'the data' --recipe demo --out x --split trainval {held_out}\nseed: 0\n"
    )
    learn = next_steps(run, Path("d"), Path("r"), {"split": "trainval"})[0]
    assert held_out in learn.command
    assert "--warm-start" in learn.command
    assert typed(learn, train_parser).split == "trainval"


def test_where_there_is_no_such_warm_start_its_recipe(run):
    (run / SETTINGS).write_text("# tag2box train d --split trainval --val-split test\n")
    other = next_steps(run, Path("d"), Path("r"), {"split": "test"})[0]
    (run / WARM_START).unlink()
    without = next_steps(run, Path("d"), Path("r"), {"split": "trainval"})[0]
    for step in (other, without):
        options = typed(step, train_parser)
        assert options.warm_start is None
        assert options.recipe == str(run / SETTINGS)
        assert options.val_split is None


@pytest.mark.parametrize("settings", ["", "seed: 0\n", "# tag2box train 'd\n", "# tag2box demo --split x\n"])
def test_settings_that_say_nothing(run, settings):
    (run / SETTINGS).write_text(settings)
    assert "--warm-start" in next_steps(run, Path("d"), Path("r"), {"split": "test"})[0].command


def test_the_next_free_folder(tmp_path, monkeypatch):
    for name in ("photos-1", "photos-2", "demo"):
        (tmp_path / name).mkdir()
    assert free_folder(tmp_path / "photos-1") == tmp_path / "photos-3"
    assert free_folder(tmp_path / "demo") == tmp_path / "demo-2"
    monkeypatch.chdir(tmp_path / "demo")
    assert free_folder(Path()) == tmp_path / "demo-2"
