"""`tag2box report`, and what a run keeps for it."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from tag2box.cli import main
from tag2box.commands.parts import Part
from tag2box.commands.report import report
from tag2box.commands.run_folder import Judge, complete_findings
from tag2box.commands.train import train
from tag2box.config import load_recipe, write_recipe
from tag2box.data import open_dataset, open_ground_truth
from tag2box.detections import Detections
from tag2box.engine import loop
from tag2box.errors import InputError
from tag2box.proposals.store import ProposalStore, write_store
from tag2box.report.findings import read_findings

CAT, DOG = ("cat", (11, 11, 60, 60)), ("dog", (21, 21, 90, 70))
RIGHT, WRONG = ((10, 10, 60, 60), (20, 20, 90, 70)), (0, 0, 5, 5)


@pytest.fixture
def devkit(make_devkit):
    objects = {f"{part}{i}": [(CAT, DOG)[i % 2]] for part, number in (("t", 8), ("v", 6)) for i in range(number)}
    ids = list(objects)
    return make_devkit(objects, {"trainval": ids[:8], "test": ids[8:]})


@pytest.fixture
def store(devkit, tmp_path):
    """Two proposals of every image, the first on the cat of each, the second on the dog."""
    ids = [f"t{i}" for i in range(8)] + [f"v{i}" for i in range(6)]
    boxes = np.array(RIGHT, dtype=np.int16)
    write_store(tmp_path / "p.safetensors", ids, [(100, 80)] * 14, {}, [2] * 14, [boxes] * 14)
    return tmp_path / "p.safetensors"


@pytest.fixture
def parts(devkit, store):
    def part(split):
        dataset, truth = open_dataset(devkit, split), open_ground_truth(devkit, split)
        return Part(dataset, ProposalStore(store), truth.subset(dataset.ids))

    return part("trainval"), part("test")


def found(truth, right):
    """A box in every image, on its object in the first so many."""
    count = len(truth.ids)
    boxes = [RIGHT[i % 2] if i < right else WRONG for i in range(count)]
    return Detections(
        truth.classes,
        truth.ids,
        np.arange(count),
        np.arange(count) % 2,
        np.linspace(0.9, 0.5, count),
        np.array(boxes, float),
    )


# ---- what is kept


def test_the_best_round_is_kept(parts, tmp_path):
    own, other = (part.truth for part in parts)
    judge = Judge(tmp_path, own, other)
    judge("wsddn", found(own, 8), found(other, 6))
    assert read_findings(tmp_path) is None  # its net is not saved
    for stage, right in (("round-1", 3), ("round-2", 5), ("round-3", 2), ("round-4", 5)):
        judge(stage, found(own, right), found(other, right))
    findings = read_findings(tmp_path)
    assert findings.stage == "round-4"  # the last of equals, as weights/best.safetensors
    assert findings.map == judge("round-5", found(own, 0), found(other, 5))["map"]


@pytest.mark.parametrize("stage", ["wsddn", "round-1"])
def test_corloc_is_of_the_pictures_looked_at(parts, tmp_path, stage):
    """Of eight, two were looked at, and both are right: the other six are not missing."""
    own = parts[0].truth
    looked_at = found(own.subset(own.ids[:2]), 2)
    assert Judge(tmp_path, own, None)(stage, looked_at, None)["corloc"] == 100


def test_tags_are_for_corloc_alone(parts, tmp_path):
    """What is annotated and not tagged still explains a wrong box: here of the last picture, whose tag is left out."""
    own = parts[0].truth
    tags = dict.fromkeys(own.ids[:-1], own.classes)
    judge, everything = Judge(tmp_path, own, None, tags), found(own, 7)
    assert judge("wsddn", everything, None)["corloc"] == judge("round-1", everything, None)["corloc"] == 100
    kept = read_findings(tmp_path)
    write = Judge(tmp_path / "all", own, None)
    (tmp_path / "all").mkdir()
    assert write("round-1", everything, None)["corloc"] < 100
    assert kept.examples == read_findings(tmp_path / "all").examples


def test_a_resumed_run_remembers_its_best(parts, tmp_path):
    own, other = (part.truth for part in parts)
    Judge(tmp_path, own, other)("round-1", found(own, 8), found(other, 6))
    curves = (tmp_path / "PR_curve.png").read_bytes()
    resumed = Judge(tmp_path, own, other)
    resumed("round-2", found(own, 8), found(other, 2))
    assert read_findings(tmp_path).stage == "round-1"
    assert (tmp_path / "PR_curve.png").read_bytes() == curves
    resumed("round-3", found(own, 8), found(other, 6))
    assert read_findings(tmp_path).stage == "round-3"


def test_by_corloc_where_nothing_is_held_out_and_the_last_where_there_are_no_boxes(parts, tmp_path):
    own = parts[0].truth
    judge = Judge(tmp_path, own, None)
    for stage, right in (("round-1", 7), ("round-2", 3)):
        judge(stage, found(own, right), None)
    assert read_findings(tmp_path).stage == "round-1"
    (tmp_path / "evaluation.json").unlink()
    judge = Judge(tmp_path, None, None)
    for stage in ("round-1", "round-2"):
        assert all(math.isnan(score) for score in judge(stage, found(own, 4), None).values())
    assert read_findings(tmp_path).stage == "round-2"


def test_what_does_not_change_from_round_to_round_is_added(parts, tmp_path):
    own, other = parts
    write_recipe(load_recipe("demo", {"inference.max_proposals": 1}), tmp_path / "args.yaml")
    Judge(tmp_path, own.truth, other.truth)("round-1", found(own.truth, 8), found(other.truth, 4))
    complete_findings(tmp_path, own, other)
    findings = read_findings(tmp_path)
    assert [(one.name, one.pictures, one.objects) for one in findings.classes] == [("cat", 4, 3), ("dog", 4, 3)]
    training, held_out = findings.proposals
    assert (training.part, training.images, held_out.part, held_out.images) == ("training", 8, "held-out", 6)
    assert held_out.boxes == 1  # as many as the detector is shown, though there are two
    assert held_out.recall_50 == 0.5
    assert [one.reached for one in findings.classes] == [100, 0]
    assert findings.examples
    assert all((tmp_path / "examples" / one.file).is_file() and one.size == (100, 80) for one in findings.examples)
    assert all(one.id.startswith("v") for one in findings.examples)


def test_without_a_round_there_is_nothing_to_complete(parts, tmp_path):
    complete_findings(tmp_path, *parts)
    assert list(tmp_path.glob("evaluation.json")) == []


# ---- a run and its page


@pytest.fixture
def trained(devkit, store, tmp_path, monkeypatch):
    """A run of an engine that learns nothing."""

    def train_run(dataset, store, recipe, out, *, evaluate, val, report, **_):
        own, other = (SimpleNamespace(ids=part.ids, classes=part.classes) for part in (dataset, val[0]))
        row = {"stage": "round-1", **evaluate("round-1", found(own, 8), found(other, 4)), "disc": 0.1}
        report.results([row])

    monkeypatch.setattr(loop, "train_run", train_run)
    options = {"proposals": store, "val_split": "test", "device": "cpu", "recipe": "demo"}
    return train(devkit, out=tmp_path / "run", overrides={"backbone.weights": "none", "head.width": "16"}, **options)


def test_the_page_can_be_written_from_the_folder_alone(trained, devkit, tmp_path, capsys):
    page = (trained / "report.html").read_bytes()
    for words in (b"Right and wrong", b"Missed", b"Proposals", b"8 to learn from, 6 to test on", b"tag2box train "):
        assert words in page
    devkit.rename(tmp_path / "elsewhere")
    (trained / "report.html").unlink()
    capsys.readouterr()
    assert main(["report", str(trained)]) == 0
    assert capsys.readouterr().out == f"the report: {trained}/report.html\n"
    assert (trained / "report.html").read_bytes() == page


def test_a_run_that_was_moved(trained, tmp_path):
    moved = trained.rename(tmp_path / "[bold]moved")
    assert main(["report", str(moved), "--title", "Second <try>", "--out", str(tmp_path / "new" / "page.html")]) == 0
    text = (tmp_path / "new" / "page.html").read_text()
    assert "<h1>Second &lt;try&gt;</h1>" in text
    assert 'class="shot"' in text


def test_resuming_a_run_that_is_done_keeps_its_page(trained, devkit, store):
    before = (trained / "report.html").read_bytes()
    train(devkit, out=trained, resume=True, proposals=store, val_split="test", device="cpu")
    assert (trained / "report.html").read_bytes() == before


def test_a_run_that_was_stopped_early(tmp_path):
    write_recipe(load_recipe("demo"), tmp_path / "args.yaml", comment="tag2box train photos --recipe demo")
    assert "tag2box train photos --recipe demo" in report(tmp_path).read_text()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (None, "expected a run directory, found nothing at {}"),
        ("file", "expected a run directory, found a file at {}"),
        ("folder", "expected a run directory, found a folder without args.yaml: {}"),
    ],
)
def test_what_is_no_run(tmp_path, capsys, made, message):
    run = tmp_path / "run"
    if made == "file":
        run.write_text("")
    elif made == "folder":
        run.mkdir()
    assert main(["report", str(run)]) == 2
    assert capsys.readouterr().err == f"tag2box: {message.format(run)}\n"
    assert not list(tmp_path.rglob("*.html"))


def test_a_folder_in_the_place_of_the_page(tmp_path):
    (tmp_path / "args.yaml").write_text("")
    with pytest.raises(InputError, match="found a folder"):
        report(tmp_path, out=tmp_path)
