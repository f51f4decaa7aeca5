import io
import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from rich.console import Console

from tag2box.errors import InputError
from tag2box.evaluation.coco_ap import SUMMARY
from tag2box.evaluation.plots import plot_pr_curves
from tag2box.evaluation.recall import proposal_recall
from tag2box.evaluation.scores import METRICS, as_json, evaluate
from tag2box.evaluation.tables import coco_table, recall_table, scores_table
from tag2box.evaluation.voc_ap import precision_recall

CAT, DOG, EMU = 0, 1, 2


@pytest.fixture
def problem(make_truth, make_detections):
    """A cat found, a dog missed, no emu anywhere."""
    truth = make_truth([(0, CAT, 0, 0, 50, 50), (1, DOG, 0, 0, 50, 50)], classes=("cat", "dog", "emu"))
    return truth, make_detections(truth, [(0, CAT, 0.9, 0, 0, 50, 50), (0, EMU, 0.9, 0, 0, 50, 50)])


def shown(*tables) -> str:
    """As printed to a pipe."""
    console = Console(file=io.StringIO(), width=80)
    for table in tables:
        console.print(table)
    return console.file.getvalue()


def test_percentages_in_the_order_asked_and_absent_classes_left_out_of_the_mean(problem):
    scores = evaluate(*problem, metrics=["corloc", "voc07", "voc12", "coco"])
    assert list(scores) == ["corloc", "voc07", "voc12", "coco"]
    for score in scores.values():
        assert score["mean"] == pytest.approx(50)
        assert list(score["per_class"]) == ["cat", "dog", "emu"]
        assert score["per_class"]["cat"] == pytest.approx(100)
        assert score["per_class"]["dog"] == 0
        assert math.isnan(score["per_class"]["emu"])
    assert scores["coco"]["AP50"] == pytest.approx(50)


def test_json_has_null_for_what_cannot_be_measured(problem):
    written = json.loads(as_json(evaluate(*problem, metrics=["voc07"])))
    assert written == {"voc07": {"mean": 50.0, "per_class": {"cat": 100.0, "dog": 0.0, "emu": None}}}


def test_no_class_at_all_to_find(make_truth, make_detections):
    truth = make_truth([])
    scores = evaluate(truth, make_detections(truth, []), metrics=METRICS)
    assert all(math.isnan(score["mean"]) for score in scores.values())


@pytest.mark.parametrize(
    ("metrics", "message"),
    [(["voc7"], r"found 'voc7'; did you mean 'voc07'\?"), ([], "found none"), (["voc07", ""], "found ''")],
)
def test_unknown_metric(metrics, message, problem):
    with pytest.raises(InputError, match=message):
        evaluate(*problem, metrics=metrics)


def test_tables_are_plain_and_fit_in_80_columns(problem):
    scores = evaluate(*problem, metrics=METRICS)
    text = shown(scores_table(scores), coco_table(dict.fromkeys(SUMMARY, 100.0)))
    lines = [line.split() for line in text.splitlines()]
    assert ["cat", "100.0", "100.0", "100.0", "100.0"] in lines
    assert ["emu", "–", "–", "–", "–"] in lines
    assert lines.index(["cat", *["100.0"] * 4]) < lines.index(["mean", *["50.0"] * 4])
    assert ["AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl"] in lines
    assert ["100.0"] * 11 in lines
    assert "\x1b" not in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_recall_table_and_json(problem):
    truth, _ = problem
    report = proposal_recall(truth, [np.array([[0, 0, 50, 40]])] * 2)
    lines = [line.split() for line in shown(recall_table(report)).splitlines()]
    assert ["dog", "1", "100.0", "100.0", "80.0"] in lines
    assert ["emu", "0", "–", "–", "–"] in lines
    assert ["all", "2", "100.0", "100.0", "80.0"] in lines
    assert json.loads(as_json(asdict(report)))["per_class"]["emu"]["recall_50"] is None


def test_pr_curves(problem, tmp_path):
    truth, detections = problem
    curves = precision_recall(truth, detections)
    plot_pr_curves(truth.classes, curves, tmp_path / "PR_curve.png")
    assert (tmp_path / "PR_curve.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"expected a picture ending in .*png.*, found curve.xyz"):
        plot_pr_curves(truth.classes, curves, tmp_path / "curve.xyz")
    assert [file.name for file in tmp_path.iterdir()] == ["PR_curve.png"]
