"""What the page makes of evaluation.json: pictures, tables, curves, the confusion matrix; of hostile names, nothing."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import tag2box
from tag2box.report.charts import powers, recall_chart, round_ticks, stage_chart
from tag2box.report.curves import panels_of
from tag2box.report.example_pictures import keep_pictures
from tag2box.report.findings import PICTURES, Curve, Example, Reached, ShownBox, read_findings, write_findings
from tag2box.report.matrix import MOST_CLASSES, draw_matrix
from tag2box.report.page import write_report
from tag2box.report.page_about import about_run
from tag2box.report.page_examples import even_rows
from tag2box.report.results import write_results
from tag2box.report.sum_up import sum_up

EVIL = '<script>alert("1")</script>\'&'
REACHED = Reached("held-out", 5, 4, 60.0, 0.75, 0.5, 0.7, ((10.0, 0.25, 0.1), (20.0, 0.5, 0.25), (60.0, 0.75, 0.5)))


@pytest.fixture
def run(tmp_path, problem, make_pictures) -> Path:
    """A run with boxes to compare with."""
    folder = tmp_path / "run"
    folder.mkdir()
    truth, found = problem
    findings = sum_up("round-1", truth, found, truth, found)
    images = {image.id: image for image in make_pictures(truth.ids)}
    examples = keep_pictures(folder / PICTURES, findings.examples, images)
    write_findings(folder, replace(findings, examples=examples, proposals=(REACHED,), finished="2025-12-31"))
    (folder / "args.yaml").write_text("# tag2box train 'my photos' --recipe demo --val-split test\nseed: 3\n")
    write_results(folder / "results.csv", [{"stage": "round-1", "map": 40.0, "disc": 0.1}])
    return folder


def drawings(page, kind: str) -> list[dict[str, str | None]]:
    return [attributes for tag, attributes in page.tags if tag == "svg" and attributes["class"] == kind]


def test_a_whole_page_from_the_folder_alone(run, read):
    page = read(write_report(run))
    for words in ("my photos", "5 to learn from, 5 to test on", "2025-12-31", "Recipe", "demo", "Scored on", "test"):
        assert words in page.words
    for title in ("Right and wrong", "Best", "Surest, and wrong", "Missed", "Class by class", "Precision and recall"):
        assert title in page.words
    for title in ("What is taken for what", "Proposals", "Do it again"):
        assert title in page.words
    assert len(drawings(page, "shot")) == len(read_findings(run).examples) > 3
    assert len(drawings(page, "pr")) == 3
    assert len(drawings(page, "matrix")) == 1
    assert len(drawings(page, "plotted")) == 3  # accuracy, dissimilarity, what the proposals reach
    assert "nan" not in page.words
    assert "None" not in page.words


def test_it_asks_nothing_of_the_network(run, parse):
    text = write_report(run).read_text()
    page = parse(text)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe", "a", "form", "use", "foreignobject"}
    sources = [attributes["href"] for tag, attributes in page.tags if tag == "image"]
    assert sources
    assert all(source.startswith("data:image/jpeg;base64,") for source in sources)
    assert not re.search(r"https?:|url\(|@import", text)


def test_corloc_of_a_part_of_the_pictures_is_said_to_be(run, read):
    """More than a thousand training pictures are not all looked at."""
    write_results(run / "results.csv", [{"stage": "round-1", "map": 40.0, "corloc": 62.5}])
    findings = read_findings(run)
    for all_of_them in (None, findings.images):
        write_findings(run, replace(findings, learnt_from=all_of_them))
        whole = read(write_report(run)).words
        assert "CorLoc on the training pictures" in whole
        assert "5 to learn from" in whole
        assert "measured on" not in whole
    write_findings(run, replace(findings, learnt_from=5011))
    words = read(write_report(run)).words
    assert "CorLoc on 5 of 5,011 training pictures" in words  # at the large figure
    assert "in per cent. It was measured on 5 of 5,011 pictures, evenly spread." in words  # above the table
    assert "on an object, per cent (measured on 5 of 5,011)" in words  # class by class
    assert "5,011 to learn from" in words
    assert "3 classes from 5,011 tagged pictures" in words
    write_results(run / "results.csv", [{"stage": "round-1", "corloc": 62.5}])
    assert "Best after round 1: CorLoc 62.5 on 5 of 5,011 training pictures." in read(write_report(run)).words


def test_the_page_counts_what_is_right_and_wrong(run, read):
    at_score = read_findings(run).at_score
    page = read(write_report(run))
    right, total = at_score.kinds["right"], sum(at_score.kinds.values())
    assert f"{right} of 4 objects are found" in page.words
    assert f"of the {total} boxes are right" in page.words
    assert "only a part of the object" in page.words


def test_one_of_many_is_not_none(run, read):
    """And most of them are not all."""
    findings = read_findings(run)
    at_score = replace(findings.at_score, kinds={"right": 249, "mistaken": 1}, found=249, objects=250)
    write_findings(run, replace(findings, at_score=at_score))
    words = read(write_report(run)).words
    assert "under 1\u00a0%" in words
    assert "(over 99\u00a0%)" in words
    assert "0\u00a0%" not in words.replace("10\u00a0%", "")


@pytest.mark.parametrize(("beside", "says"), [(1, "The box on an object"), (3, "The 3 boxes on objects"), (0, "")])
def test_a_box_beside_the_right_one_is_no_contradiction(run, read, beside, says):
    """It is on an object of another class, which its own class has found too: a false alarm in the matrix."""
    findings = read_findings(run)
    confusion = ((0, 0, 2), (1, 1, 1), (2, 2, 1), (3, 1, 1))
    at_score = replace(findings.at_score, kinds={"right": 4, "mistaken": beside}, confusion=confusion)
    write_findings(run, replace(findings, at_score=at_score))
    words = read(write_report(run)).words
    assert ("No class was taken for another." in words) == (beside == 0)
    assert ("no object was found as another class." in words) == (beside > 0)
    assert says in words


def test_the_page_says_what_it_is_of(run, parse):
    text = write_report(run).read_text()
    assert "<title>run · 3 classes from 5 tagged pictures · tag2box</title>" in text
    assert '<h1>run</h1><p class="of">3 classes from 5 tagged pictures</p>' in text
    about = text[text.index("What was trained on what") : text.index("Results</h2>")]
    assert f"<dt>tag2box</dt><dd>{tag2box.__version__}</dd>" in about


def test_the_curves_have_ends_names_and_marks(run, parse):
    """A dot at the score of the counts, a ring at that of `predict`."""
    text = write_report(run).read_text()
    curve = text[text.index('<svg class="pr"') :]
    curve = curve[: curve.index("</svg>")]
    assert re.findall(r">([^<>]+)</text>", curve) == ["0", "recall", "1", "0", "precision", "1"]
    score = read_findings(run).at_score.score
    assert f"score {score:.2f} or more: precision" in curve
    assert curve.index('class="mark ring"') < curve.index('class="mark"')  # the dot is on top
    assert f"at least {score:.2f} come to" in text
    findings = read_findings(run)
    write_findings(run, replace(findings, curves=tuple(replace(one, marks=()) for one in findings.curves)))
    earlier = write_report(run).read_text()  # earlier versions kept none
    assert "come to" not in earlier
    assert "<circle" not in earlier[earlier.index('<svg class="pr"') :].split("</svg>")[0]


def test_rows_of_examples_are_about_equally_wide(run):
    rows = re.findall(r'<div class="row" style="--shape:([\d.]+)">(.*?)</div>', write_report(run).read_text(), re.S)
    assert rows
    for shape, inner in rows:
        shapes = [float(one) for one in re.findall(r'<figure style="--shape:([\d.]+)"', inner)]
        assert float(shape) == pytest.approx(sum(shapes), abs=0.01)
    assert even_rows([1.3, 1.3, 0.8, 1.3, 1.3, 1.3], 2) == [0, 3, 6]


def test_boxes_are_drawn_to_the_scale_of_their_picture(run):
    """The picture is 100 × 80 and drawn 230 high, so that sides grow 2.875 times."""
    findings = read_findings(run)
    (example,) = [one for one in findings.examples if one.id == "p0" and one.group == "best"]
    write_findings(run, replace(findings, examples=(example,)))
    text = write_report(run).read_text()
    assert 'viewBox="0 0 287.5 230.0"' in text
    (right,) = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" class="box right"', text)
    assert [float(side) for side in right] == pytest.approx([28.75, 28.75, 143.75, 112.125], abs=0.1)


@pytest.mark.parametrize("size", [(1, 900), (900, 1), (5000, 4)])
def test_pictures_of_any_shape(run, make_pictures, size, read):
    images = {image.id: image for image in make_pictures(["thin"], size=size)}
    box = ShownBox("right", "cat", (0.0, 0.0, float(size[0]), float(size[1])), 0.5)
    examples = keep_pictures(run / PICTURES, [Example("best", "thin", "cat found", "", (box,))], images)
    write_findings(run, replace(read_findings(run), examples=examples))
    (shot,) = drawings(read(write_report(run)), "shot")
    width, height = (float(side) for side in shot["viewbox"].split()[2:])
    assert 100 <= height <= 231
    assert 100 <= width <= 2.1 * 231


def test_hostile_names_are_harmless(run, read):
    findings = read_findings(run)
    classes = tuple(replace(one, name=f"{EVIL}{i}") for i, one in enumerate(findings.classes))
    curves = tuple(Curve(EVIL, one.ap, one.recall, one.precision) for one in findings.curves)
    boxes = (ShownBox(EVIL, EVIL, (0.0, 0.0, 50.0, 50.0), 0.5),)
    examples = tuple(replace(one, id=EVIL, head=EVIL, words=EVIL, boxes=boxes) for one in findings.examples)
    reached = (replace(REACHED, part=EVIL),)
    write_findings(
        run,
        replace(findings, classes=classes, curves=curves, examples=examples, proposals=reached, finished=EVIL),
    )
    (run / "args.yaml").write_text(f"# tag2box train {EVIL} --recipe '{EVIL.replace(chr(39), '')}'\n")
    page = read(write_report(run))
    assert not {tag for tag, _ in page.tags} & {"script"}
    assert "<script" not in (run / "report.html").read_text()
    assert page.words.count("<script>") > 20
    assert all(not name.startswith("on") for _, attributes in page.tags for name in attributes)
    for _, attributes in page.tags:
        assert not {name for name in attributes if re.search(r"[<>\"'&()]", name)}


def test_unicode_names(run, read):
    findings = read_findings(run)
    names = ["Käfer 猫 \u202e", "\udc80 odd bytes", "line\nbreak"]
    write_findings(
        run, replace(findings, classes=tuple(replace(c, name=n) for c, n in zip(findings.classes, names, strict=True)))
    )
    page = read(write_report(run))
    assert "Käfer 猫" in page.words
    assert "\\udc80 odd bytes" in page.words


def test_a_picture_outside_the_folder_is_not_taken(run, tmp_path, read):
    findings = read_findings(run)
    stray = next((run / PICTURES).iterdir())
    (tmp_path / "secret.jpg").write_bytes(stray.read_bytes())
    for file in ("../../secret.jpg", str(tmp_path / "secret.jpg"), "..", ""):
        write_findings(run, replace(findings, examples=(replace(findings.examples[0], file=file),)))
        assert not drawings(read(write_report(run)), "shot")


def test_without_the_pictures_the_counts_stand(run, read):
    for picture in (run / PICTURES).iterdir():
        picture.unlink()
    page = read(write_report(run))
    assert "Right and wrong" in page.words
    assert "Surest, and wrong" not in page.words
    assert "annotated" not in page.words


def test_a_run_without_boxes_says_what_it_is_sure_of(run, problem, make_pictures, read):
    truth, found = problem
    findings = sum_up("round-1", None, found, None, None)
    images = {image.id: image for image in make_pictures(truth.ids)}
    write_findings(run, replace(findings, examples=keep_pictures(run / PICTURES, findings.examples, images)))
    write_results(run / "results.csv", [{"stage": "round-1", "disc": 0.1}])
    page = read(write_report(run))
    for words in ("no boxes to compare with", "Sure and unsure", "Surest", "Least sure", "Class by class", "0.65"):
        assert words in page.words
    for words in (
        "Right and wrong",
        "taken for",
        "Proposals",
        "Precision and recall",
        "CorLoc is",
        "mAP is",
        "reached",
    ):
        assert words not in page.words
    assert "annotated" not in page.words


def test_boxes_of_the_training_pictures_alone(run, problem, make_pictures, read):
    truth, found = problem
    findings = sum_up("round-1", truth, found, None, None)
    images = {image.id: image for image in make_pictures(truth.ids)}
    write_findings(run, replace(findings, examples=keep_pictures(run / PICTURES, findings.examples, images)))
    page = read(write_report(run))
    assert "On the pictures learnt from" in page.words
    assert "Surest, and wrong" in page.words
    assert "What is taken for what" not in page.words


def test_many_classes_stand_side_by_side(run):
    findings = read_findings(run)
    classes = tuple(replace(findings.classes[0], name=f"class {i}") for i in range(80))
    write_findings(run, replace(findings, classes=classes, at_score=None))
    text = write_report(run).read_text()
    (two,) = re.findall(r'<div class="beside">(.*?)</div></div>', text, re.S)
    assert two.count("<table>") == 2
    assert two.count("<tr><td") == 80


def test_it_is_made_for_paper_and_for_the_dark():
    style = (Path(__file__).parents[2] / "src/tag2box/report/page.css").read_text()
    assert "@media print" in style
    assert "@media screen and (prefers-color-scheme: dark)" in style  # screen: paper is white
    assert style.count("{") == style.count("}")
    assert max(map(len, style.splitlines())) <= 120


# ---- the matrix


def counts_of(table):
    return {(i, j): int(count) for (i, j), count in np.ndenumerate(table) if count}


@pytest.mark.parametrize("number", [1, 3, 8, 9, 20, 80, MOST_CLASSES])
def test_every_cell_is_in_the_picture_and_in_its_place(number, parse):
    draw = np.random.default_rng(number)
    table = draw.integers(0, 3, (number + 1, number + 1))
    table[-1, -1] = 0
    names = [f"class {i}" for i in range(number)]
    picture = draw_matrix(names, counts_of(table))
    page = parse(picture)
    cells = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" [^>]*class="(same|other|none)"', picture)
    assert len(cells) == np.count_nonzero(table)
    assert sum(kind == "same" for *_, kind in cells) == np.count_nonzero(np.diag(table)[:-1])
    assert sum(kind == "none" for *_, kind in cells) == np.count_nonzero(table[-1]) + np.count_nonzero(table[:, -1])
    width, height = (float(side) for side in page.tags[0][1]["viewbox"].split()[2:])
    assert max(float(x) for x, _, _ in cells) < width
    assert max(float(y) for _, y, _ in cells) < height
    assert len({(x, y) for x, y, _ in cells}) == len(cells)
    diagonal = [float(x) - float(y) for x, y, kind in cells if kind == "same"]
    assert max(diagonal, default=0) - min(diagonal, default=0) < 0.2
    assert ("count" in picture) == (number <= 30)


def test_a_cell_tells_its_count_and_of_how_many(parse):
    words = parse(draw_matrix(["cat", "dog"], {(0, 0): 6, (0, 1): 3, (0, 2): 1, (2, 1): 7})).words
    assert "3 of 10 objects of cat found as dog" in words
    assert "1 of 10 objects of cat missed" in words
    assert "7 of 10 boxes of dog are false alarms" in words


def test_more_classes_than_can_be_drawn_are_listed(run, read):
    findings = read_findings(run)
    classes = tuple(replace(findings.classes[0], name=f"class {i}") for i in range(300))
    mixed = replace(findings.at_score, confusion=((5, 7, 12), (5, 5, 12), (300, 1, 9), (2, 300, 4)))
    write_findings(run, replace(findings, classes=classes, at_score=mixed))
    page = read(write_report(run))
    assert not drawings(page, "matrix")
    assert "50.0" in page.words


# ---- the curves


def test_lines_keep_within_their_plot():
    rows = [
        {"stage": f"round-{i}", "map": value, "disc": -value, "x_loss": 10.0 ** (i - 5), "y_loss": 3.0}
        for i, value in enumerate((0.0, 55.5, 100.0, 80.0), 1)
    ]
    for panel in panels_of([{"stage": "wsddn", "map": 5.0, "y_loss": 1.0}, *rows]):
        picture = stage_chart(panel)
        assert "nan" not in picture
        points = [(float(x), float(y)) for x, y in re.findall(r'cx="([\d.-]+)" cy="([\d.-]+)"', picture)]
        assert points
        assert all(52 <= x <= 440 - 124 and 0 <= y <= 250 - 42 + 0.1 for x, y in points)


@pytest.mark.parametrize("value", [0.0, 1e-9, 1e9, -4.0])
def test_a_single_stage_of_any_value(value):
    for panel in panels_of([{"stage": "round-1", "map": 0.0, "disc": value, "a_loss": value}]):
        assert "nan" not in stage_chart(panel)


def test_what_few_proposals_reach(parse):
    assert recall_chart([replace(REACHED, budgets=())]) == ""
    assert recall_chart([replace(REACHED, budgets=((60.0, None, None),))]) == ""
    words = parse(recall_chart([REACHED])).words
    assert "IoU 0.5 75.0" in words
    assert "IoU 0.7 50.0" in words


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 1e-7), (-3, 100), (0, 70.3), (5, 5.0001)])
def test_ticks_are_on_the_axis_and_even(low, high):
    ticks = round_ticks(low, high)
    assert 2 <= len(ticks) <= 6
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in ticks)
    steps = [b - a for a, b in pairwise(ticks)]
    assert max(steps) == pytest.approx(min(steps))


def test_powers_without_one_between():
    assert powers(2, 4) == [2, 4]


# ---- what the folder tells


def test_the_command_tells_the_data():
    about = about_run("# tag2box train 'a b' --recipe fast --out r --val-fraction 0.2\nseed: 1\n", None)
    assert about.data == "a b"
    assert about.command == "tag2box train 'a b' --recipe fast --out r --val-fraction 0.2"
    assert about.more == {"Recipe": "fast", "Held out": "0.2"}
    for settings in ("", "seed: 1", "# tag2box train 'a", "# another comment"):
        assert about_run(settings, None).data == ""
