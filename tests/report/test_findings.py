"""evaluation.json: what goes in comes out, it stays small, and nothing in it can break the page."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import tag2box
from tag2box.evaluation.mistakes import Kind, judge
from tag2box.report.example_pictures import LONGEST, keep_pictures
from tag2box.report.findings import SHOWN_FROM, Example, Findings, ShownBox, read_findings, write_findings
from tag2box.report.sum_up import MOST_CELLS, MOST_CURVES, MOST_POINTS, sum_up


def test_round_trip(tmp_path, problem):
    truth, found = problem
    findings = sum_up("round-3", truth, found, truth, found)
    write_findings(tmp_path, findings)
    assert read_findings(tmp_path) == findings
    assert [path.name for path in tmp_path.iterdir()] == ["evaluation.json"]


def test_names_of_any_kind_come_back(tmp_path):
    names = ['<script>"', "ö\u2028", "\udc80", "", "a" * 5000]
    examples = tuple(
        Example("best", name, name, name, (ShownBox("right", name, (0.0, 1.0, 2.0, 3.0), 0.5),)) for name in names
    )
    write_findings(tmp_path, Findings("round-1", 1, examples=examples))
    assert read_findings(tmp_path).examples == examples


def test_held_out_boxes_tell_everything(problem):
    truth, found = problem
    own = found.take(np.array([0, 1, 2]))
    findings = sum_up("round-3", truth, own, truth, found)
    assert (findings.stage, findings.images, findings.test_images, findings.shown) == ("round-3", 5, 5, "held-out")
    assert [one.name for one in findings.classes] == ["cat", "dog", "cow"]
    assert [one.objects for one in findings.classes] == [2, 1, 1]
    assert findings.classes[0].sureness == pytest.approx(0.875)
    at_score = findings.at_score
    assert at_score.objects == 4
    assert at_score.found == at_score.kinds["right"]
    total = sum(at_score.kinds.values()) - at_score.kinds["uncounted"]
    assert (at_score.precision, at_score.recall) == pytest.approx((at_score.found / total, at_score.found / 4))
    assert {one.group for one in findings.examples} == {"best", "wrong", "missed"}


def test_marks_are_on_the_curve_where_its_scores_end(problem):
    """Of the boxes from that score on, the right ones among them and among the objects."""
    truth, found = problem
    findings = sum_up("round-3", truth, found, truth, found)
    for place, curve in enumerate(findings.curves):
        own = found.take((found.labels == place) & (found.scores >= findings.at_score.score))
        right = sum(kind is Kind.RIGHT for kind in judge(truth, own).kinds)
        if not len(own):
            assert curve.marks == ()
            continue
        score, recall, precision = curve.marks[0]
        assert score == pytest.approx(findings.at_score.score)
        assert (recall, precision) == pytest.approx(
            (right / findings.classes[place].objects, right / len(own)), abs=1e-4
        )
        assert [mark[0] for mark in curve.marks[1:]] == [SHOWN_FROM] * bool((own.scores >= SHOWN_FROM).any())


def test_the_version_is_kept(problem):
    truth, found = problem
    assert sum_up("round-1", truth, found, None, None).version == tag2box.__version__


def test_scores_are_those_of_the_table(problem):
    from tag2box.evaluation.scores import evaluate

    truth, found = problem
    findings = sum_up("round-3", truth, found, truth, found)
    scores = evaluate(truth, found, ["voc07", "corloc"])
    assert findings.map == pytest.approx(scores["voc07"]["mean"])
    assert findings.corloc == pytest.approx(scores["corloc"]["mean"])
    assert {one.name: one.ap for one in findings.classes} == pytest.approx(scores["voc07"]["per_class"])


def test_boxes_of_the_training_pictures_alone(problem):
    truth, found = problem
    findings = sum_up("round-3", truth, found, None, None)
    assert (findings.map, findings.test_images, findings.at_score, findings.curves) == (None, None, None, ())
    assert findings.shown == "training"
    assert findings.corloc is not None
    assert {one.group for one in findings.examples} == {"best", "wrong"}


def test_no_boxes_at_all(problem, make_truth):
    truth, found = problem
    for nobody in (None, make_truth([], ids=truth.ids)):
        findings = sum_up("round-3", nobody, found, nobody, found)
        assert (findings.map, findings.corloc, findings.at_score) == (None, None, None)
        assert {one.group for one in findings.examples} == {"sure", "unsure"}


def test_nothing_found(problem, make_found):
    truth, _ = problem
    nothing = make_found(truth, [])
    findings = sum_up("round-3", truth, nothing, truth, nothing)
    assert findings.map == 0
    assert findings.at_score.found == 0
    assert {one.group for one in findings.examples} == {"missed"}


def test_classes_of_the_boxes_in_another_order(problem):
    truth, found = problem
    order = ("cow", "cat", "dog")
    other = replace(truth, classes=order, labels=np.array([1, 2, 0])[truth.labels])
    assert sum_up("r", other, found, other, found) == sum_up("r", truth, found, truth, found)


def test_it_stays_small(tmp_path, make_truth, make_found):
    """200 classes, all mixed up with all others: less than half a megabyte."""
    draw, count = np.random.default_rng(0), 12_000
    images, labels, corner = (
        np.sort(draw.integers(0, 4000, count)),
        draw.integers(0, 200, count),
        np.arange(count) * 100,
    )
    boxes = np.column_stack([corner, corner * 0, corner + 50, corner * 0 + 50])
    ids, names = [f"p{i}" for i in range(4000)], [f"class {c}" for c in range(200)]
    truth = make_truth(np.column_stack([images, labels, boxes]), ids, names)
    taken_for = np.where(draw.random(count) < 0.5, labels, draw.integers(0, 200, count))
    found = make_found(truth, np.column_stack([images, taken_for, draw.random(count), boxes]))
    findings = sum_up("round-1", truth, found, truth, found)
    assert len(findings.curves) == MOST_CURVES
    assert max(len(curve.recall) for curve in findings.curves) <= MOST_POINTS
    assert len(findings.at_score.confusion) == MOST_CELLS
    write_findings(tmp_path, findings)
    assert (tmp_path / "evaluation.json").stat().st_size < 500_000


def test_a_thinned_curve_begins_and_ends_where_it_did(make_truth, make_found):
    truth = make_truth([(i, 0, 0, 0, 10, 10) for i in range(500)])
    found = make_found(
        truth, [(i, 0, 1 - i / 1000, *((0, 0, 10, 10) if i % 3 else (50, 50, 60, 60))) for i in range(500)]
    )
    (curve,) = sum_up("r", None, found, truth, found).curves
    assert len(curve.recall) == MOST_POINTS
    assert curve.recall[0] == pytest.approx(1 / 500)
    assert (curve.recall[-1], curve.precision[-1]) == pytest.approx((333 / 500, 333 / 500), abs=1e-3)
    assert list(curve.recall) == sorted(curve.recall)


@pytest.mark.parametrize(
    "change",
    [
        {"stage": 3},
        {"stage": None},
        {"classes": "cat"},
        {"classes": [{"nome": "cat"}]},
        {"examples": [{"group": "best"}]},
        {"map": "high"},
        {"curves": [{"name": "cat", "ap": 1, "recall": ["<b>"], "precision": []}]},
        {"proposals": [[1, 2]]},
    ],
)
def test_what_is_not_ours_is_left_out(tmp_path, problem, change):
    truth, found = problem
    write_findings(tmp_path, sum_up("round-3", truth, found, truth, found))
    content = json.loads((tmp_path / "evaluation.json").read_text())
    (tmp_path / "evaluation.json").write_text(json.dumps({**content, **change}))
    assert read_findings(tmp_path) is None


@pytest.mark.parametrize(
    "text", [b"", b"[", b"null", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"stage":"r","images":1e999}']
)
def test_no_json_of_ours(tmp_path, text):
    (tmp_path / "evaluation.json").write_bytes(text)
    assert read_findings(tmp_path) is None


def test_no_file(tmp_path):
    assert read_findings(tmp_path) is None


def test_a_later_version_may_know_more(tmp_path):
    (tmp_path / "evaluation.json").write_text('{"stage": "round-1", "images": 3, "weather": "fine"}')
    assert read_findings(tmp_path) == Findings("round-1", 3)


def test_a_confusion_of_no_class(tmp_path, problem):
    truth, found = problem
    findings = sum_up("round-3", truth, found, truth, found)
    wrong = replace(findings, at_score=replace(findings.at_score, confusion=((0, 17, 3),)))
    write_findings(tmp_path, wrong)
    assert read_findings(tmp_path).at_score is None


def test_no_number_that_json_has_not(tmp_path):
    write_findings(tmp_path, Findings("round-1", 3, map=math.nan))
    assert json.loads((tmp_path / "evaluation.json").read_text())["map"] is None


def example(group, id):
    return Example(group, id, "", "", ())


def test_pictures_are_copied_small(tmp_path, make_pictures):
    images = {image.id: image for image in make_pictures(["a", "b"], size=(1600, 400))}
    kept = keep_pictures(tmp_path / "out", [example("best", "a"), example("wrong", "b"), example("best", "b")], images)
    assert [one.file for one in kept] == ["best-1.jpg", "wrong-1.jpg", "best-2.jpg"]
    assert {one.size for one in kept} == {(1600, 400)}  # the boxes are in its pixels
    with Image.open(tmp_path / "out" / "best-1.jpg") as copy:
        assert copy.size == (LONGEST, LONGEST // 4)


def test_earlier_copies_go_and_what_is_not_ours_stays(tmp_path, make_pictures):
    images = {image.id: image for image in make_pictures(["a", "b"])}
    keep_pictures(tmp_path / "out", [example("best", "a"), example("best", "b")], images)
    (tmp_path / "out" / "Mine 1.jpg").write_text("mine")
    keep_pictures(tmp_path / "out", [example("best", "b")], images)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"best-1.jpg", "Mine 1.jpg"}


def test_a_picture_that_is_gone(tmp_path, make_pictures):
    images = {image.id: image for image in make_pictures(["a", "b"])}
    images["a"].path.unlink()
    kept = keep_pictures(tmp_path / "out", [example("best", "a"), example("best", "b"), example("best", "x")], images)
    assert [(one.id, one.file) for one in kept] == [("b", "best-1.jpg")]
