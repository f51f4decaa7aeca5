"""report.html: whole from a whole run, smaller from a smaller one, harmless from a hostile one."""

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tag2box.report.page import About, duration, story, write_report
from tag2box.report.page_results import ANEW, results_section
from tag2box.report.results import write_results

EVIL = '<script>alert("1")</script>\'&'


@pytest.fixture
def run(tmp_path) -> Path:
    folder = tmp_path / "run-7"
    (folder / "samples").mkdir(parents=True)
    rows = [
        {"stage": "wsddn", "map": 38.2, "corloc": 51.0, "seconds": 41.2},
        {"stage": "refined", "map": 47.5, "corloc": 60.2, "seconds": 38.0},
        {"stage": "round-1", "map": 66.1, "corloc": 75.0, "div_pc": 0.5, "disc": 0.15, "seconds": 60, "x_loss": 0.3125},
        {"stage": "round-2", "map": 65.8, "corloc": 75.3, "div_pc": 0.4, "disc": 0.026, "seconds": 60},
    ]
    write_results(folder / "results.csv", rows)
    (folder / "args.yaml").write_text("backbone:\n  name: vgg11\nrounds: {samples: 5}\nseed: 3\nodd: <b>\n")
    for name in ("PR_curve.png", "samples/a%2F1.png", "samples/b.png"):
        Image.new("RGB", (20, 10), "red").save(folder / name)
    return folder


ABOUT = About(
    data="photos/",
    images=1300,
    test_images=150,
    classes=("cat", "dog"),
    device="2 CPU cores",
    command="tag2box train photos/",
)


def test_a_whole_run(run, read):
    assert write_report(run, about=ABOUT) == run / "report.html"
    page = read(run / "report.html")
    for words in ("run-7", "photos/", "1,300", "150 to test on", "2 CPU cores", "vgg11", "cat", "3 min 19 s"):
        assert words in page.words
    for words in (
        "WSDDN",
        "refined",
        "round 2",
        "66.1",
        "0.0260",
        "tag2box train photos/",
        "0.3125",
        "odd: <b>",
    ):
        assert words in page.words
    assert "Best after round 1: mAP 66.1, 18.6 points above the warm start." in page.words
    pictures = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(pictures) == 3
    assert sum(attributes.get("class") == "plotted" for tag, attributes in page.tags if tag == "svg") == 4
    assert any("a/1" in (picture["alt"] or "") for picture in pictures)
    assert sum(attributes.get("class") == "best" for tag, attributes in page.tags if tag == "tr") == 2  # both tables


def test_it_asks_nothing_of_the_network_and_runs_nothing(run, parse):
    text = write_report(run, about=ABOUT).read_text()
    page = parse(text)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe", "a", "form"}
    assert all((attributes["src"] or "").startswith("data:image/") for tag, attributes in page.tags if tag == "img")
    assert not re.search(r"https?:|url\(|@import", text)
    assert "default-src 'none'" in text


def test_everything_is_escaped(tmp_path, read):
    run = tmp_path / "<i>run"
    (run / "samples").mkdir(parents=True)
    write_results(run / "results.csv", [{"stage": EVIL, "map": 1.0, f"{EVIL}_loss": 2.0}])
    (run / "args.yaml").write_text(f"recipe: '{EVIL.replace(chr(39), chr(39) * 2)}'\n# {EVIL}\n")
    Image.new("RGB", (8, 8)).save(run / "samples" / '"><script>.png')
    Image.new("RGB", (8, 8)).save(run / "samples" / "%22%3E%3Cscript%3E.png")
    more = {EVIL: EVIL}
    write_report(run, about=About(data=EVIL, classes=(EVIL,), device=EVIL, command=EVIL, more=more), title=EVIL)
    page = read(run / "report.html")
    assert not {tag for tag, _ in page.tags} & {"script", "i"}
    assert "<script" not in (run / "report.html").read_text()
    assert page.words.count(EVIL) >= 9
    assert sum('"><script>' in (attributes.get("alt") or "") for _, attributes in page.tags) == 2


@pytest.mark.parametrize("missing", ["results.csv", "args.yaml", "PR_curve.png", "samples/b.png"])
def test_without_a_part_the_rest_stands(run, missing, read):
    (run / missing).unlink()
    page = read(write_report(run, about=ABOUT))
    assert "photos/" in page.words
    assert sum(tag == "img" for tag, _ in page.tags) == 3 - missing.endswith(".png")
    assert sum(tag == "svg" for tag, _ in page.tags) == 4 * (missing != "results.csv")


def test_an_empty_folder_has_a_page_without_sections(tmp_path, read):
    page = read(write_report(tmp_path))
    assert tmp_path.name in page.words
    assert "section" not in {tag for tag, _ in page.tags}
    assert "nan" not in page.words


def test_broken_parts_are_left_out(run, read):
    (run / "args.yaml").write_text("a: [1\nwhen: 2024-99-99")
    (run / "results.csv").write_bytes(b"\xff\xfe\x00")
    picture = (run / "PR_curve.png").read_bytes()
    (run / "PR_curve.png").write_bytes(picture[: len(picture) // 2])
    (run / "evaluation.json").write_text("no JSON")
    (run / "samples" / "b.png").write_bytes(b"")
    (run / "samples" / ".b-half.png").write_bytes(picture)
    (run / "samples" / "notes.txt").write_text("notes")
    page = read(write_report(run, about=ABOUT))
    assert sum(tag == "img" for tag, _ in page.tags) == 1
    assert "a: [1" in page.words


def test_another_run_s_warm_start_and_a_person_s_decisions_are_told(run, read):
    rounds = [{"stage": f"round-{number}", "disc": 0.01061 - number * 1e-5, "seconds": 5.0} for number in (1, 2)]
    write_results(run / "results.csv", [{"stage": "refined", "seconds": 600.0}, *rounds])
    command = "tag2box train photos --out better --warm-start runs/first --reviewed runs/first/review.sqlite"
    (run / "args.yaml").write_text(f"# {command}\nseed: 1\n")
    page = read(write_report(run))
    for words in ("Warm start of", "runs/first", "Decisions of a person", "runs/first/review.sqlite"):
        assert words in page.words
    assert "of training, with the other run's warm start" in page.words
    assert "stayed at 0.0106 in 2 rounds" in page.words


def test_without_ground_truth_no_number_is_made_up(run, read):
    write_results(
        run / "results.csv", [{"stage": "round-1", "disc": 0.2, "seconds": 5}, {"stage": "round-2", "disc": 0.3}]
    )
    page = read(write_report(run))
    assert "no boxes to compare with" in page.words
    assert "rose from 0.2000 to 0.3000" in page.words
    assert "nan" not in page.words
    assert "CorLoc" not in [words.strip() for words in re.split(r"\s{2,}|\n", page.words)]


def test_a_report_that_fails_leaves_the_old_one(run, monkeypatch):
    before = write_report(run).read_bytes()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_report(run, title="new")
    assert (run / "report.html").read_bytes() == before
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


def test_heavy_sheets_are_embedded_light_and_plots_as_they_are(run):
    noise = np.random.default_rng(0).integers(0, 255, (300, 400, 3), dtype=np.uint8)
    for name in ("samples/b.png", "PR_curve.png"):
        Image.fromarray(noise).save(run / name)
    sources = re.findall(r'src="data:(image/\w+);base64,([^"]+)"', write_report(run).read_text())
    assert [mime for mime, _ in sources] == ["image/png", "image/png", "image/jpeg"]
    assert base64.b64decode(sources[0][1]) == (run / "PR_curve.png").read_bytes()
    with Image.open(io.BytesIO(base64.b64decode(sources[2][1]))) as image:
        assert image.size == (400, 300)


def test_sheets_on_a_clear_ground_keep_it(run):
    """They then suit the dark as well; those of earlier versions stay on white."""
    noise = np.random.default_rng(0).integers(0, 255, (300, 400, 4), dtype=np.uint8)
    Image.fromarray(noise).save(run / "samples" / "b.png")
    text = write_report(run).read_text()
    kinds = re.findall(r'<figure class="(sheet[^"]*)"><img src="data:(image/\w+);base64,([^"]+)"', text)
    assert [kind[:2] for kind in kinds] == [("sheet", "image/png"), ("sheet clear", "image/webp")]
    with Image.open(io.BytesIO(base64.b64decode(kinds[1][2]))) as image:
        assert image.size == (400, 300)
        assert image.has_transparency_data


def test_many_samples_and_classes_are_counted_not_shown(run, read):
    page = read(write_report(run, about=About(classes=[f"c{i}" for i in range(1203)]), most_samples=1))
    assert "1 more in samples/" in page.words
    assert "and 1143 more" in page.words


def test_same_run_same_page(run):
    assert write_report(run, about=ABOUT).read_bytes() == write_report(run, about=ABOUT).read_bytes()


def test_story_claims_no_gain_that_is_none():
    rows = [{"stage": "wsddn", "map": 60.0}, {"stage": "refined", "map": 50.0}, {"stage": "round-1", "map": 40.0}]
    assert story(rows) == "Best after round 1: mAP 40.0, 10.0 points below the warm start."
    assert story([rows[1], {"stage": "round-1", "map": 50.02}]).endswith("mAP 50.0, as much as the warm start.")
    assert story(rows[:2]) == ""
    assert story([]) == ""


def test_corloc_is_told_where_it_was_measured(run, read):
    rows = [{"stage": "refined", "corloc": 50.0}, {"stage": "round-1", "corloc": 62.5}]
    words = "Best after round 1: CorLoc 62.5 on the training pictures, 12.5 points above the warm start."
    assert story(rows) == words
    assert read(write_report(run, about=ABOUT)).words.count("CorLoc on the training pictures") == 1


def test_headline_is_of_a_round(run):
    rows = [{"stage": "wsddn", "map": 77.7}, {"stage": "refined", "map": 66.6}, {"stage": "round-1", "map": 55.5}]
    write_results(run / "results.csv", rows)
    text = write_report(run).read_text()
    assert '<div class="number"><b>55.5</b><span>mAP</span></div>' in text
    assert re.findall(r'<tr class="best"><td class="words">([^<]*)', text) == ["round 1"]


def test_pictures_are_not_stretched(run):
    style = re.findall(r"[^\n]*\bimg\b[^\n]*{[^}]*}", write_report(run).read_text())
    assert any("max-width: 100%" in rule for rule in style)
    assert not any(re.search(r"(?<!max-)width:", rule) for rule in style)


def test_durations():
    assert [duration(s) for s in (0, 59.7, 3599.6, 90_000)] == ["0 s", "1 min 0 s", "1 h 0 min", "25 h 0 min"]


def test_a_warm_start_that_was_learnt_anew_is_what_the_rounds_are_held_against():
    rows = [{"stage": "refined", "map": 40.0}, {"stage": "anew-1", "map": 45.0}, {"stage": "round-1", "map": 46.0}]
    assert story(rows) == "Best after round 1: mAP 46.0, 1.0 points above the warm start."
    assert "anew 1" in results_section(rows)
    assert ANEW in results_section(rows)
    assert ANEW not in results_section([rows[0], rows[2]])
