import json
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import closing

import numpy as np
import pytest
import torch

import tag2box.commands.review as command
from tag2box.cli import main
from tag2box.cli.train import parser as train_parser
from tag2box.config import load_recipe
from tag2box.data import open_dataset
from tag2box.detector import build_prediction_net, save_detector
from tag2box.detector_file import build_conditional_net
from tag2box.known import read_known, write_known
from tag2box.proposals.store import write_store
from tag2box.review.database import Database
from tag2box.review.store import Store

CAT, DOG = ("cat", (11, 11, 60, 60)), ("dog", (21, 21, 90, 70))
BOXES = np.array([[10, 10, 60, 60], [20, 20, 90, 70], [0, 0, 100, 80]], dtype=np.int16)


def save_run(folder, classes, *, teacher=True):
    torch.set_num_threads(1)
    small = {"backbone.weights": "none", "head.width": 8, "data.scales": 32, "inference.scales": 32}
    recipe = load_recipe("demo", small)
    (folder / "weights").mkdir(parents=True)
    save_detector(folder / "weights" / "best.safetensors", build_prediction_net(recipe, len(classes)), recipe, classes)
    if teacher:
        net = build_conditional_net(recipe, len(classes))
        save_detector(folder / "weights" / "conditional.safetensors", net, recipe, classes)
    return folder


@pytest.fixture
def run(tmp_path):
    return save_run(tmp_path / "run", ["dog", "yak", "cat"])


@pytest.fixture
def photos(make_devkit):
    return make_devkit({"a": [CAT], "b": [CAT, DOG], "c": [(*CAT, True)]}, {"test": ["a", "b", "c"], "val": ["a"]})


@pytest.fixture
def proposals(tmp_path):
    path = tmp_path / "store.safetensors"
    write_store(path, ["a", "b", "c"], [(100, 80)] * 3, {}, [3, 3, 3], [BOXES] * 3)
    return path


@pytest.fixture
def served(monkeypatch):
    """The desk that would be served, all pictures looked at."""
    desks = []

    def serve(desk, listener, browser, path):
        desk.looker.start()
        desk.looker._thread.join(30)
        desks.append((desk, listener.getsockname(), browser, path))

    monkeypatch.setattr(command, "_serve", serve)
    return desks


def test_both_nets_are_asked_and_the_answers_kept(run, photos, proposals, served, monkeypatch):
    words = f"review {run} {photos} --split test --proposals {proposals} --device cpu --most 1 --no-browser".split()
    assert main(words) == 0
    desk, address, browser, path = served[0]
    assert address[0] == "127.0.0.1"
    assert browser is False
    assert path == run / "review.sqlite"
    assert [image.id for image in desk.images] == ["a", "b"]  # `c` has no tag: nothing to decide
    assert desk.looker.trouble is None
    state_of = sqlite3.connect(path).execute("SELECT count(*) FROM looks").fetchone()
    assert state_of == (2,)

    monkeypatch.setattr("tag2box.pair.Pair.study", lambda *_: pytest.fail("asked again"))
    assert main(words) == 0
    assert served[1][0].looker.trouble is None
    assert served[1][0].looker.uncertainties == desk.looker.uncertainties


def test_one_class_alone(run, photos, proposals, served, capsys):
    words = f"review {run} {photos} --split test --proposals {proposals} --device cpu --no-browser".split()
    assert main([*words, "--only", "dog"]) == 0
    assert [image.id for image in served[0][0].images] == ["b"]
    assert main([*words, "--by", "self-diversity"]) == 0
    rows = sqlite3.connect(run / "review.sqlite").execute("SELECT image, look FROM looks")
    doubts = {id: json.loads(look)["doubts"] for id, look in rows}
    by_dog, by_all = (desk.looker.uncertainties for desk, *_ in served)
    assert by_dog == {"b": doubts["b"]["dog"]["doubt"]}
    assert by_all == {id: own[""]["self-diversity"] for id, own in doubts.items()}
    assert main([*words, "--by", "diversity"]) == 2
    assert "expected --by" in capsys.readouterr().err
    assert main([*words, "--only", "yak"]) == 2
    assert "expected --only a class that pictures have, found 'yak'" in capsys.readouterr().err
    assert main([*words, "--only", "dog", "--export", str(run / "boxes.json")]) == 2
    assert "expected --export alone" in capsys.readouterr().err


def test_a_new_review_begins_with_what_the_run_has_learnt_from(run, photos, proposals, served, capsys):
    """So that one file has all decisions in the end; once, and not where they are on other pictures."""
    write_known(run / "known.json", {"a": {"cat": [(11.0, 11.0, 60.0, 60.0)], "dog": []}})
    words = f"review {run} {photos} --split test --proposals {proposals} --device cpu --no-browser".split()
    assert main(words) == 0
    assert "it begins with what the run has learnt from: 2 decisions" in capsys.readouterr().out
    with closing(Database(run / "review.sqlite")) as database:
        store = Store(database)
        assert store.known() == {"a": {"cat": [[11, 11, 60, 60]], "dog": []}}
        store.decide("a", "cat", "rejected", [], store.decisions("a")["cat"].version)
    assert main(words) == 0
    assert "begins with" not in capsys.readouterr().out
    write_known(run / "known.json", {"elsewhere": {"cat": []}})
    assert main([*words, "--db", str(run / "new.sqlite")]) == 0
    assert "left out what the run has learnt from: " in capsys.readouterr().out
    for name, known in (("review", {"a": {"cat": [], "dog": []}}), ("new", {})):
        with closing(Database(run / f"{name}.sqlite")) as database:
            assert Store(database).known() == known


def test_what_comes_next_is_said_where_something_was_decided(run, photos, proposals, monkeypatch, capsys):
    """The two commands can be typed, and are on the page too."""

    class Server:
        def __init__(self, settings):
            pass

        def run(self, sockets):
            raise KeyboardInterrupt

    monkeypatch.setattr("uvicorn.Server", Server)
    words = f"review {run} {photos} --split test --proposals {proposals} --device cpu --no-browser".split()
    assert main(words) == 0
    assert "next," not in capsys.readouterr().out
    decide(run / "review.sqlite", ("a", "cat", "rejected", []))
    assert main(words) == 0
    *_, learn, label = capsys.readouterr().out.splitlines()
    learn, label = (shlex.split(line.partition(": ")[2])[1:] for line in (learn, label))
    assert learn[:2] == ["train", str(photos)]
    options = train_parser().parse_args(learn[1:])
    assert (options.reviewed, options.proposals, options.split) == (run / "review.sqlite", proposals, "test")
    assert main([*label, "--out", str(run / "labels")]) == 0
    tasks = json.loads((run / "labels" / "tasks.json").read_text("utf-8"))
    assert len(tasks) == 3


def test_a_picture_with_too_few_proposals(run, photos, tmp_path, served):
    path = tmp_path / "few.safetensors"
    write_store(path, ["a", "b", "c"], [(100, 80)] * 3, {}, [1, 1, 0], [BOXES[:1], BOXES[:1], BOXES[:0]])
    assert main(f"review {run} {photos} --split test --proposals {path} --no-browser".split()) == 0
    desk = served[0][0]
    assert desk.looker.uncertainties["b"] is None  # two tags, one box
    assert desk.looker.uncertainties["a"] is not None


def decide(path, *decisions):
    database = Database(path)
    for image, name, status, boxes in decisions:
        Store(database).decide(image, name, status, boxes, 0)
    database.close()


def test_export(run, photos, tmp_path, capsys):
    decisions = [("a", "cat", "accepted", [[1.5, 2, 30, 40]]), ("b", "dog", "rejected", [])]
    decide(run / "review.sqlite", *decisions, ("b", "cat", "open", [[1, 2, 3, 4]]), ("x", "cat", "rejected", []))
    out = tmp_path / "new" / "boxes.json"
    assert main(["review", str(run), str(photos), "--split", "test", "--export", str(out)]) == 0
    assert read_known(out, open_dataset(photos, "test")) == {"a": {"cat": [(1.5, 2, 30, 40)]}, "b": {"dog": []}}
    told = capsys.readouterr().out
    assert "2 decisions on 2 images" in told
    assert "1 other image" in told


def test_export_from_elsewhere_needs_neither_run_nor_packages(photos, tmp_path, monkeypatch):
    monkeypatch.setattr("tag2box.errors.find_spec", lambda name: None)
    decide(tmp_path / "my.sqlite", ("a", "cat", "rejected", []))
    words = f"review no-run {photos} --split val --db {tmp_path / 'my.sqlite'} --export {tmp_path / 'boxes.json'}"
    assert main(words.split()) == 0
    assert read_known(tmp_path / "boxes.json", open_dataset(photos, "val")) == {"a": {"cat": []}}


def test_decisions_on_other_pictures(run, photos, proposals, served, tmp_path, capsys, save_picture):
    words = f"review {run} {photos} --split test --proposals {proposals} --no-browser".split()
    assert main(words) == 0
    decide(run / "review.sqlite", ("a", "cat", "rejected", []))
    save_picture(photos / "JPEGImages" / "a.jpg", (100, 80), quality=20)
    for more in ([], ["--export", str(tmp_path / "boxes.json")]):
        assert main([*words, *more]) == 2
        err = capsys.readouterr().err
        assert "found some on others of the same name (a); keep these in another file with --db" in err
        assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", "expected DATA, found nothing (see tag2box review --help)"),
        ("{run}", "expected RUN DATA, found only"),
        ("{run} {photos} more", "expected RUN DATA, found"),
        ("nowhere {photos} --split test", "found nothing at nowhere"),
        ("{run} nowhere", "nowhere does not exist"),
        ("{run} {photos} --split tset", "did you mean 'test'?"),
        ("{alone} {photos} --split test", "weights/conditional.safetensors"),
        ("{run}/weights/best.safetensors {photos} --split test", "expected a run directory"),
        ("{other} {photos} --split test", "found 'dog'; did you mean 'dogs'?"),
        ("{run} {photos} --split test --most 0", "expected --most 1 or more, found 0"),
        ("{run} {photos} --split test --port 99999", "expected a free --port, found 99999"),
        ("{run} {photos} --split test --port {port}", "ddress already in use"),
        ("{run} {photos} --split test --db {photos}", "found a folder"),
        ("{run} {photos} --split test --db nowhere/x.sqlite", "cannot write to folder nowhere"),
        ("{run} {photos} --split test --db {photos}/JPEGImages/a.jpg", "not a database"),
        ("{run} {photos} --split test --proposals {run}/none", "none"),
        ("{run} {photos} --split test --device tpu", "expected auto, cpu or cuda"),
        ("{run} {photos} --split test --export boxes.json", "review.sqlite"),
    ],
)
def test_wrong_command_lines(words, expected, run, photos, proposals, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    alone = save_run(tmp_path / "alone", ["cat", "dog"], teacher=False)
    other = save_run(tmp_path / "other", ["cat", "dogs"])
    before = sorted(tmp_path.rglob("*"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        places = {"run": run, "photos": photos, "other": other, "alone": alone, "port": taken.getsockname()[1]}
        given = words.format(**places).split()
        if given and "--proposals" not in given:
            given += ["--proposals", str(proposals)]
        assert main(["review", *given]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert expected in err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_a_missing_package(run, photos, package, capsys, monkeypatch):
    monkeypatch.setattr("tag2box.errors.find_spec", lambda name: None if name == package else True)
    assert main(["review", str(run), str(photos)]) == 2
    assert capsys.readouterr().err == (
        f"tag2box: expected the package {package}, found none: pip install 'tag2box[review]', "
        "or '.[review]' in the folder of tag2box\n"
    )


def test_as_a_stranger_uses_it(run, photos, proposals):
    words = ["review", run, photos, "--split", "test", "--proposals", proposals, "--no-browser"]
    server = subprocess.Popen(
        [sys.executable, "-u", "-m", "tag2box", *map(str, words)], stdout=subprocess.PIPE, text=True
    )
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+/[\w-]{32,}/$", server.stdout.readline().strip())[0]
        with urllib.request.urlopen(address) as answer:
            assert b"tag2box" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address.rsplit("/", 2)[0])
    finally:
        server.send_signal(signal.SIGINT)
        rest, _ = server.communicate(timeout=30)
    assert server.returncode == 0
    assert rest.splitlines()[-1].startswith("0 of 2 images reviewed")
    assert [path.name for path in run.glob("review.sqlite*")] == ["review.sqlite"]
