"""`tag2box train`: what reaches the engine, what the run directory is, and what is refused in one line."""

import io
import math
import subprocess
import sys
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

import tag2box
from tag2box.cli import main
from tag2box.commands.parts import Part, held_out, require_same_classes
from tag2box.commands.run_folder import Judge, choose_folder, choose_recipe
from tag2box.commands.train import _tell_of_recipe, train
from tag2box.config import load_recipe
from tag2box.data import open_dataset, open_ground_truth
from tag2box.detections import Detections
from tag2box.engine import loop
from tag2box.errors import InputError, TrainingError
from tag2box.known import write_known
from tag2box.proposals.store import ProposalStore, write_store
from tag2box.report.results import read_results

CAT, DOG = ("cat", (11, 11, 60, 60)), ("dog", (21, 21, 90, 70))
BOXES = np.array([[10, 10, 60, 60], [20, 20, 90, 70], [0, 0, 100, 80]], dtype=np.int16)
SMALL = {"backbone.weights": "none", "head.width": "16"}
TINY = {"warm.epochs": 1, "data.scales": "48", "inference.scales": "48"}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def devkit(make_devkit):
    objects = {f"t{i}": [(CAT, DOG)[i % 2]] for i in range(12)} | {f"v{i}": [(CAT, DOG)[i % 2]] for i in range(4)}
    ids = list(objects)
    return make_devkit(objects, {"trainval": ids[:12], "test": ids[12:]})


@pytest.fixture
def store(devkit, tmp_path):
    """Three proposals for every image of both splits."""
    ids = [f"t{i}" for i in range(12)] + [f"v{i}" for i in range(4)]
    return write(tmp_path / "proposals.safetensors", ids, [3] * 16)


def write(path, ids, counts):
    write_store(path, ids, [(100, 80)] * len(ids), {}, counts, [BOXES[:count] for count in counts])
    return path


@pytest.fixture
def engine(monkeypatch):
    """In place of the engine: remembers what it was called with, and does what `engine.does` says."""
    seen = SimpleNamespace(calls=[], does=lambda call: None)

    def train_run(dataset, store, recipe, out, **options):
        call = SimpleNamespace(dataset=dataset, store=store, recipe=recipe, out=out, **options)
        seen.calls.append(call)
        seen.does(call)

    monkeypatch.setattr(loop, "train_run", train_run)
    return seen


def run_train(devkit, store, **options):
    options = {"recipe": "demo", "device": "cpu", "proposals": store, **options}
    return train(devkit, overrides={**SMALL, **options.pop("overrides", {})}, **options)


def detections(ids, boxes, labels):
    count = len(ids)
    return Detections(
        ("cat", "dog"), tuple(ids), np.arange(count), np.array(labels), np.full(count, 0.5), np.array(boxes, float)
    )


# ---- what the engine gets


def test_the_engine_gets_what_was_asked_for(devkit, store, engine, tmp_path, capsys):
    run = run_train(devkit, store, out=tmp_path / "run", val_split="test", overrides={"rounds.number": 2, "seed": 5})
    (call,) = engine.calls
    assert run == call.out == tmp_path / "run"
    assert call.dataset.split == "trainval"
    assert len(call.dataset) == 12
    assert call.val[0].split == "test"
    assert call.val[0].classes == call.dataset.classes
    assert (call.resume, call.device) == (False, "cpu")
    assert call.recipe == load_recipe("demo", {**SMALL, "rounds.number": 2, "seed": 5})
    assert load_recipe(run / "args.yaml") == call.recipe
    first_line = (run / "args.yaml").read_text().splitlines()[0]
    assert first_line.startswith(f"# tag2box train {devkit} --recipe demo --out {run} --val-split test --proposals")
    assert first_line.endswith("--backbone.weights none --head.width 16 --rounds.number 2 --seed 5")
    assert "learning 2 classes from the tags of 12 images\n" in capsys.readouterr().out


def test_the_held_out_fraction_does_not_depend_on_the_seed(devkit, store, engine, tmp_path):
    for seed in (0, 1):
        run_train(devkit, store, out=tmp_path / f"run{seed}", val_fraction=0.4, overrides={"seed": seed})
    first, second = engine.calls
    assert first.dataset.ids == second.dataset.ids
    assert not set(first.dataset.ids) & set(first.val[0].ids)
    assert len(first.dataset) + len(first.val[0]) == 12
    assert first.val[0].ids == open_dataset(devkit, val_fraction=0.4, subset="val").ids


def test_scores_come_from_boxes_that_the_engine_does_not_see(devkit, store, engine, tmp_path):
    run = run_train(devkit, store, out=tmp_path / "run", val_split="test")
    call = engine.calls[0]
    right, wrong = (10, 10, 60, 60), (0, 0, 5, 5)
    own = detections(call.dataset.ids, [right] * 12, [0, 1] * 6)  # on the cats, not on the dogs
    other = detections(call.val[0].ids, [right, wrong, right, wrong], [0, 1, 0, 1])
    assert call.evaluate("wsddn", own, other) == {"map": 50.0, "corloc": 50.0}
    assert not (run / "PR_curve.png").exists()
    assert call.evaluate("round-1", own, other)["map"] == 50.0
    assert (run / "PR_curve.png").exists()


def test_corloc_is_over_the_tags(make_devkit, engine, tmp_path):
    """A dog that is difficult has no tag in VOC: nothing was learnt of it, and no box of a dog is missing there."""
    objects = {f"t{i}": [(CAT, DOG)[i % 2]] for i in range(4)} | {"t4": [CAT, (*DOG, True)]}
    store = write(tmp_path / "proposals.safetensors", list(objects), [3] * 5)
    run_train(make_devkit(objects), store, out=tmp_path / "run")
    (call,) = engine.calls
    assert call.dataset[4].tags == ("cat",)
    cat, dog = CAT[1], DOG[1]
    right = detections(call.dataset.ids, [cat, dog, cat, dog, cat], [0, 1, 0, 1, 0])
    assert all(call.evaluate(stage, right, None)["corloc"] == 100 for stage in ("wsddn", "round-1"))


def test_without_boxes_there_are_no_scores(tmp_path):
    found = detections(["a"], [(0, 0, 5, 5)], [0])
    scores = Judge(tmp_path, None, None)("round-1", found, None)
    assert math.isnan(scores["map"])
    assert math.isnan(scores["corloc"])


def test_what_the_run_says_is_written_down(devkit, store, engine, tmp_path, capsys):
    def does(call):
        call.report.results([{"stage": "wsddn", "map": 20.0, "corloc": 30.0, "seconds": 1.5}])
        boxes = [("cat", (10.0, 10.0, 60.0, 60.0))]
        found = [("cat", 0.9, boxes[0][1])]
        followed = SimpleNamespace(image=call.dataset[0], stage="round-1", prediction=found, samples=[boxes])
        call.report.samples([followed])

    engine.does = does
    run = run_train(devkit, store, out=tmp_path / "run")
    for name in ("args.yaml", "results.csv", "results.png", "report.html", "samples/samples.jsonl", "samples/t0.png"):
        assert (run / name).stat().st_size > 20
    lines = capsys.readouterr().out.splitlines()
    assert ["WSDDN", "20.0", "30.0", "1.5"] in [line.split() for line in lines]
    assert f"the detector: {run}/weights/best.safetensors" in lines
    assert lines[-1].startswith(f"next, to look over what it found, the doubtful first: tag2box review {run} ")


def test_proposals_are_computed_and_reused(devkit, engine, tmp_path):
    for name in ("one", "two"):
        run_train(devkit, None, out=tmp_path / name, workers=1)
    assert (devkit / ".tag2box" / "proposals-trainval-fast.safetensors").is_file()
    assert len(engine.calls[1].store) == 12


# ---- run directories


def test_the_next_free_run(devkit, store, engine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [str(run_train(devkit, store)) for _ in range(2)] == ["runs/VOC2007-1", "runs/VOC2007-2"]


def test_a_run_in_use_must_be_meant(devkit, store, engine, tmp_path):
    run = run_train(devkit, store, out=tmp_path / "run")
    with pytest.raises(InputError, match="is not empty; go on with --resume"):
        run_train(devkit, store, out=run)
    run_train(devkit, store, out=run, resume=True)
    assert [call.resume for call in engine.calls] == [False, True]


def test_a_resumed_run_keeps_its_recipe(devkit, store, engine, tmp_path):
    run = run_train(devkit, store, out=tmp_path / "run", overrides={"rounds.number": 2})
    written = (run / "args.yaml").read_bytes()
    train(devkit, out=run, resume=True, device="cpu", proposals=store)
    assert engine.calls[1].recipe == engine.calls[0].recipe
    assert (run / "args.yaml").read_bytes() == written  # with the command that it was started with
    message = "settings that .* was started with, found others: rounds.number 3 instead of 2$"
    with pytest.raises(InputError, match=message):
        train(devkit, out=run, resume=True, device="cpu", proposals=store, overrides={"rounds.number": 3})


def test_a_warm_start_that_is_not_there_is_found_out_first(devkit, store, engine, tmp_path, capsys):
    out, words = tmp_path / "run", ["train", str(devkit), "--recipe", "demo", "--warm-start", str(tmp_path / "nowhere")]
    assert main([*words, "--out", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()
    assert engine.calls == []


def test_no_data_is_found_out_before_weights_are_fetched(tmp_path, monkeypatch, capsys):
    fetched = mock.Mock(side_effect=AssertionError)
    monkeypatch.setattr("tag2box.commands.train._require_workable", fetched)
    (tmp_path / "empty").mkdir()
    assert main(["train", str(tmp_path / "empty"), "--recipe", "fast", "--out", str(tmp_path / "run")]) == 2
    assert "the folder is empty" in capsys.readouterr().err
    fetched.assert_not_called()


def a_warm_start(devkit, store, tmp_path, **options):
    return run_train(devkit, store, out=tmp_path / "warm", overrides={**TINY, "rounds.number": 0}, **options)


def test_rounds_from_another_run_s_warm_start(devkit, store, tmp_path, capsys):
    warm = a_warm_start(devkit, store, tmp_path)
    options = {"warm_start": warm, "device": "cpu", "proposals": store}
    with pytest.raises(InputError, match=r"^expected --rounds.number 1 or more"):  # the recipe is the warm start's
        train(devkit, out=tmp_path / "run", **options)
    with pytest.raises(InputError, match=r"expected the classes and pictures that .* has learnt from, found others"):
        train(devkit, out=tmp_path / "run", overrides={"rounds.number": 1}, val_fraction=0.5, **options)
    assert not (tmp_path / "run").exists()
    run = train(devkit, out=tmp_path / "run", overrides={"rounds.number": 1}, **options)
    assert "--warm-start" in (run / "args.yaml").read_text().partition("\n")[0]
    assert [row["stage"] for row in read_results(run / "results.csv")] == ["wsddn", "refined", "round-1"]
    for rest in warm.rglob("*"):  # what was taken over is no longer needed
        rest.unlink() if rest.is_file() else None
    train(devkit, out=run, resume=True, **options)


def test_rounds_again_with_what_a_person_has_decided(devkit, store, tmp_path, capsys):
    """From the warm start that the run reviewed has kept, even where the decisions change tags."""
    options = {"device": "cpu", "proposals": store}
    first = run_train(devkit, store, out=tmp_path / "first", overrides={**TINY, "rounds.number": 1})
    boxes = tmp_path / "boxes.json"
    write_known(
        boxes, {"t0": {"cat": [(12.0, 12.0, 58.0, 58.0)], "dog": [(20.0, 20.0, 50.0, 50.0)]}, "t1": {"dog": []}}
    )
    capsys.readouterr()
    run = train(devkit, out=tmp_path / "next", reviewed=boxes, warm_start=first, **options)
    assert [row["stage"] for row in read_results(run / "results.csv")] == ["wsddn", "refined", "round-1"]
    assert float(read_results(run / "results.csv")[-1]["known_images"]) == 2
    assert (run / "known.json").is_file()
    one, other = (load_file(each / "weights" / "last.safetensors") for each in (first, run))
    assert any(not torch.equal(one[key], other[key]) for key in one)


def test_stopped_before_it_had_its_warm_start(devkit, store, tmp_path, capsys):
    warm = a_warm_start(devkit, store, tmp_path)
    options = {"overrides": {"rounds.number": 1}, "device": "cpu", "proposals": store}
    run = train(devkit, out=tmp_path / "run", warm_start=warm, **options)
    (run / "weights" / "state.safetensors").unlink()
    with pytest.raises(InputError, match=r"stopped before it had taken its warm start: expected --warm-start"):
        train(devkit, out=run, resume=True, **options)


def train_by_two(devkit, store, out, **options):
    """The command itself, as a person starts it with torchrun."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tag2box"]
    command += ["train", str(devkit), "--out", str(out), "--proposals", str(store), "--device", "cpu"]
    command += [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="this PyTorch has no distributed package")
def test_two_processes_go_on_from_a_warm_start_as_if_it_were_theirs(devkit, store, tmp_path):
    """Bit for bit, and with the hints of one that was learnt twice; one process may have learnt it too."""
    recipe = {"recipe": "demo", **SMALL, **TINY, "warm.again": 1}
    whole = train_by_two(devkit, store, tmp_path / "whole", **recipe, **{"rounds.number": 1})
    warm = train_by_two(devkit, store, tmp_path / "warm", **recipe, **{"rounds.number": 0})
    rounds = train_by_two(devkit, store, tmp_path / "rounds", **{"warm-start": warm, "rounds.number": 1})
    for name in ("last.safetensors", "best.safetensors", "conditional.safetensors", "hints.safetensors"):
        expected, found = (load_file(run / "weights" / name) for run in (whole, rounds))
        assert expected.keys() == found.keys()
        assert all(torch.equal(expected[key], found[key]) for key in expected), name
    stages = [[row["stage"] for row in read_results(run / "results.csv")] for run in (whole, rounds)]
    assert stages == [["wsddn", "refined", "anew-1", "round-1"]] * 2
    alone = run_train(devkit, store, out=tmp_path / "alone", overrides={**TINY, "warm.again": 1, "rounds.number": 0})
    train_by_two(devkit, store, tmp_path / "from-one", **{"warm-start": alone, "rounds.number": 1})


def test_nothing_to_go_on_with(devkit, store, engine, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "new", tmp_path / "empty"):
        with pytest.raises(InputError, match=f"^{out}: expected a run to go on with, found nothing$"):
            run_train(devkit, store, out=out, resume=True)
    assert main(["train", str(devkit), "--out", str(tmp_path / "new"), "--resume"]) == 2
    assert not (tmp_path / "new").exists()
    assert engine.calls == []


def test_a_place_that_cannot_be_written_to_is_found_out_first(devkit, store, engine, tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=r"found a file: .*/file$"):
        run_train(devkit, store, out=tmp_path / "file" / "run")
    refuse = mock.Mock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(InputError, match=f"^cannot write to folder {tmp_path}: Permission denied$"):
        run_train(devkit, store, out=tmp_path / "runs" / "run")
    assert "learning" not in capsys.readouterr().out
    assert engine.calls == []


def test_folders_that_are_no_runs(devkit, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    with pytest.raises(InputError, match=r"expected a run to resume in .*notes, found a folder without args.yaml"):
        choose_folder(devkit, tmp_path / "notes", resume=True)
    with pytest.raises(InputError, match="found a file"):
        choose_folder(devkit, tmp_path / "notes" / "a.txt", resume=False)
    with pytest.raises(InputError, match="expected --out RUN beside --resume"):
        choose_folder(devkit, None, resume=True)


def test_processes_must_agree(devkit, store, engine, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="expected --out RUN"):
        run_train(devkit, store)
    with pytest.raises(InputError, match=r"make them first: tag2box proposals .* --split trainval"):
        run_train(devkit, None, out=tmp_path / "run")
    tried = mock.Mock()
    monkeypatch.setattr("tag2box.commands.train.require_place", tried)
    run = run_train(devkit, store, out=tmp_path / "run")
    assert not (run / "args.yaml").exists()  # that is for the first process to write
    tried.assert_not_called()  # nor would the first take a folder with another's trial file in it


# ---- tag sets


def test_odd_tags_are_told(make_devkit, engine, tmp_path, capsys):
    year = make_devkit({"a": [CAT], "b": [CAT], "c": [DOG], "d": []}, {"trainval": list("abcd"), "test": ["d"]})
    path = write(tmp_path / "p.safetensors", list("abcd"), [3, 3, 3, 3])
    run_train(year, path, out=tmp_path / "run")
    lines = capsys.readouterr().out.splitlines()
    assert "1 image without a tag: taken to show none of the classes" in lines
    assert "a single image, so little to learn, of dog" in lines
    assert engine.calls[0].dataset.ids == ("a", "b", "c", "d")


def test_more_tags_than_proposals(make_devkit, engine, tmp_path, capsys):
    year = make_devkit({"a": [CAT, DOG], "b": [CAT, DOG], "c": [], "d": [DOG]})
    path = write(tmp_path / "p.safetensors", list("abcd"), [2, 1, 0, 1])
    run_train(year, path, out=tmp_path / "run")
    assert engine.calls[0].dataset.ids == ("a", "d")
    assert "left out, with fewer proposals than tags: b, c" in capsys.readouterr().out.splitlines()


def test_nothing_left_to_learn_from(make_devkit, engine, tmp_path):
    year = make_devkit({"a": [CAT, DOG], "b": []})
    path = write(tmp_path / "p.safetensors", ["a", "b"], [1, 3])
    with pytest.raises(InputError, match=r"expected images with as many proposals as tags, found none .*a"):
        run_train(year, path, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# ---- refused in one line, before anything is written


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"val_split": "test", "val_fraction": 0.2}, "one of --val-split and --val-fraction, found both"),
        ({"val_split": "trainval"}, "expected other images in --val-split trainval"),
        ({"val_fraction": 2.0}, "expected a validation fraction between 0 and 1"),
        ({"val_fraction": 1e-9}, "expected images for validation, found none"),
        ({"split": "trainvall"}, "did you mean 'trainval'"),
        ({"recipe": "demmo"}, "did you mean 'demo'"),
        ({"device": "tpu"}, "device: expected auto, cpu or cuda, found 'tpu'"),
        ({"overrides": {"backbone.name": "vgg99"}}, r"expected a backbone \(vgg11, .*\), found 'vgg99'"),
        ({"overrides": {"backbone.weights": "no.pth"}}, "backbone weights: expected a file, found none at no.pth"),
        ({"overrides": {"teacher.name": "vgg16"}}, "teacher.name: expected resnet.*, found vgg16"),
        ({"overrides": {"teacher.name": "resnet18", "teacher.weights": "no.pth"}}, "teacher weights: expected a file"),
        ({"overrides": {"data.proposals": "slow"}}, "expected a preset"),
    ],
)
def test_refused(options, words, devkit, store, engine, tmp_path):
    with pytest.raises(InputError, match=words) as caught:
        run_train(devkit, store, **{"out": tmp_path / "run", **options})
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
    assert engine.calls == []


def test_other_classes_to_validate_on():
    require_same_classes(["cat", "dog"], ["dog", "cat"], of="trainval", and_of="test")
    with pytest.raises(InputError, match=r"in trainval and test, found only in trainval: cat; only in test: cow, dog$"):
        require_same_classes(["cat", "ox"], ["cow", "dog", "ox"], of="trainval", and_of="test")
    with pytest.raises(InputError, match=r"found only in test: dog$"):
        require_same_classes(["cat"], ["cat", "dog"], of="trainval", and_of="test")


def test_holding_out_takes_boxes_along(devkit, store):
    part = Part(open_dataset(devkit), ProposalStore(store), open_ground_truth(devkit))
    own, other = held_out(part, 0.4)
    assert own.truth.ids == own.dataset.ids
    assert other.truth.ids == other.dataset.ids


# ---- the command line and Python


def test_from_the_command_line(devkit, store, engine, tmp_path):
    words = f"train {devkit} --recipe demo --out {tmp_path / 'run'} --device cpu --seed 3 --cache --proposals {store}"
    fields = "--backbone.weights none --head.width 16 --data.scales 64,96 --data.flip false --rounds.epsilon=-0.5"
    assert main([*words.split(), *fields.split()]) == 0
    recipe = engine.calls[0].recipe
    assert (recipe.seed, recipe.data.cache, recipe.data.scales, recipe.data.flip) == (3, True, (64, 96), False)
    assert (recipe.rounds.epsilon, recipe.head.width) == (-0.5, 16)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--rounds.nmber 3", "did you mean '--rounds.number'?"),
        ("--data.scals 3", "did you mean '--data.scales'?"),
        ("--rounds.number x", "rounds.number: expected a whole number, found 'x'"),
        ("--seed x", "seed: expected a whole number, found 'x'"),
        ("--precision half", "precision: expected 32-true or bf16-mixed, found 'half'"),
        ("--resume", "expected --out RUN beside --resume"),
    ],
)
def test_wrong_options(words, expected, devkit, engine, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["train", str(devkit), *words.split()]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert expected in err
    assert not (tmp_path / "runs").exists()


def test_ctrl_c_tells_how_to_go_on(devkit, store, engine, tmp_path, capsys):
    def stop(_):
        raise KeyboardInterrupt

    engine.does = stop
    words = f"train {devkit} --recipe demo --out {tmp_path / 'run'} --device cpu --proposals {store}"
    assert main([*words.split(), "--backbone.weights", "none"]) == 130
    err = capsys.readouterr().err
    assert err.startswith(f"tag2box: stopped; go on with: tag2box train {devkit} --recipe demo --out {tmp_path}/run")
    assert err.endswith("--backbone.weights none --resume\n")


def test_ctrl_c_before_the_engine_begins(devkit, store, engine, tmp_path, monkeypatch):
    monkeypatch.setattr("tag2box.commands.train.RunReport", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt, match=r"go on with: .* --resume$"):
        run_train(devkit, store, out=tmp_path / "run")
    monkeypatch.undo()
    assert choose_folder(devkit, tmp_path / "run", resume=True) == tmp_path / "run"


def test_held_out_images_without_boxes(engine, tmp_path, capsys):
    from PIL import Image

    for number in range(16):  # each of another colour: equal ones would be taken for one
        path = tmp_path / "photos" / ("cat", "dog")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (100, 80), (number, 0, 0)).save(path)
    path = write(tmp_path / "p.safetensors", open_dataset(tmp_path / "photos").ids, [3] * 16)
    run_train(tmp_path / "photos", path, out=tmp_path / "run", val_fraction=0.4)
    held = len(engine.calls[0].val[0])
    line = f"the {held} held-out images have no boxes, so they cannot be scored"
    assert line in capsys.readouterr().out.splitlines()


def test_a_run_that_cannot_go_on(devkit, store, engine, tmp_path, capsys):
    def fail(_):
        raise TrainingError("the loss is not finite")

    engine.does = fail
    words = f"train {devkit} --recipe demo --out {tmp_path / 'run'} --device cpu --proposals {store}"
    assert main([*words.split(), "--backbone.weights", "none"]) == 1
    assert capsys.readouterr().err == "tag2box: the loss is not finite\n"


def test_from_python(devkit, store, engine, tmp_path):
    run = tag2box.train(
        str(devkit), "demo", out=str(tmp_path / "run"), proposals=str(store), overrides=SMALL, device="cpu"
    )
    assert run == tmp_path / "run"
    assert engine.calls[0].dataset.split == "trainval"


def said_of_recipe(values, **options) -> str:
    console = Console(file=io.StringIO(), width=60)
    _tell_of_recipe(load_recipe(values.pop("recipe"), values), console=console, **options)
    return console.file.getvalue()


def test_a_recipe_that_nobody_named_is_named(tmp_path):
    assert choose_recipe(tmp_path, None, {}, resume=False) == load_recipe("fast")
    assert said_of_recipe({"recipe": "fast"}, device="cpu", chosen=False).startswith("recipe fast, since none is named")
    assert said_of_recipe({"recipe": "fast"}, device="cpu", chosen=True) == ""
    assert said_of_recipe({"recipe": "demo"}, device="cpu", chosen=True) == ""


@pytest.mark.parametrize("name", ["paper", "voc07"])
def test_a_recipe_for_gpus_on_a_cpu(name):
    said = said_of_recipe({"recipe": name}, device="cpu", chosen=True)
    assert said.count("\n") == 1
    assert "that takes days" in said
    assert said_of_recipe({"recipe": name, "backbone.frozen": "all"}, device="cpu", chosen=True) == ""
