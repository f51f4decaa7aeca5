import json
import pickle
import re
import time
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tag2box.boxes import iou
from tag2box.cli import main
from tag2box.commands.proposals import propose_dataset, store_path
from tag2box.data import open_dataset, open_ground_truth
from tag2box.data.demo import draw_demo
from tag2box.errors import InputError
from tag2box.proposals import compute
from tag2box.proposals.selective_search import PRESETS
from tag2box.proposals.store import ProposalStore


@pytest.fixture(scope="module")
def devkit(tmp_path_factory):
    """12 demo pictures to learn from and 2 to test on."""
    return draw_demo(tmp_path_factory.mktemp("demo"), seed=4, train=12, test=2)


@pytest.fixture(scope="module")
def proposed(devkit, tmp_path_factory):
    """The store, the JSON report and what was printed of a run on the demo data."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        printed = []
        patch.setattr("tag2box.commands.proposals.Console.print", lambda self, *what, **_: printed.extend(what))
        store = propose_dataset(devkit, split="trainval", workers=1, json_out=folder / "report.json")
    return store, json.loads((folder / "report.json").read_text()), printed


@pytest.fixture
def photos(tmp_path, save_picture):
    """Tagged photos without boxes: five of cats, four of dogs."""
    for name, count in (("cat", 5), ("dog", 4)):
        for number in range(count):
            save_picture(tmp_path / "photos" / name / f"{name} {number}.png")
    return tmp_path / "photos"


def best_overlaps(devkit, store, first=None):
    """Each object's best overlap, over those that are not difficult, with the classes and sizes."""
    truth = open_ground_truth(devkit, "trainval")
    found = []
    for image, id in enumerate(truth.ids):
        for n in np.flatnonzero((truth.images == image) & ~truth.difficult):
            x0, y0, x1, y1 = truth.boxes[n]
            overlap = iou(truth.boxes[n : n + 1], store[id][:first].astype(float)).max()
            found.append((truth.classes[truth.labels[n]], ((x1 - x0) * (y1 - y0)) ** 0.5, overlap))
    return found


def test_the_report_says_what_the_store_holds(devkit, proposed):
    store, report, _ = proposed
    found = best_overlaps(devkit, store)
    overlaps = np.array([overlap for _, _, overlap in found])
    assert report["images"] == 12
    assert report["boxes_per_image"] == pytest.approx(np.mean([len(store[id]) for id in store.ids]))
    assert report["overall"] == {
        "objects": len(found),
        "recall_50": pytest.approx((overlaps >= 0.5).mean()),
        "recall_70": pytest.approx((overlaps >= 0.7).mean()),
        "average_best_overlap": pytest.approx(overlaps.mean()),
    }
    assert report["overall"]["recall_50"] >= 0.9
    for name, reach in report["per_class"].items():
        own = np.array([overlap for of, _, overlap in found if of == name])
        assert reach["objects"] == len(own)
        assert reach["recall_70"] == (pytest.approx((own >= 0.7).mean()) if len(own) else None)
    small = np.array([overlap for _, size, overlap in found if size < 64])
    assert next(iter(report["per_size"].values()))["average_best_overlap"] == pytest.approx(small.mean())


def test_recall_grows_with_the_boxes_kept(devkit, proposed):
    store, report, _ = proposed
    kept, reaches = zip(*report["budgets"], strict=True)
    assert list(kept) == sorted(kept)
    assert kept[-1] == report["boxes_per_image"]
    recalls = [reach["recall_50"] for reach in reaches]
    assert recalls == sorted(recalls)
    first_50 = np.array([overlap for _, _, overlap in best_overlaps(devkit, store, first=50)])
    assert recalls[kept.index(50)] == pytest.approx((first_50 >= 0.5).mean())


def test_files_beside_the_store(devkit, proposed):
    store, _, printed = proposed
    assert store.path == devkit / ".tag2box" / "proposals-trainval-fast.safetensors"
    plot, pictures = store.path.with_suffix(".recall.png"), store.path.with_suffix(".best.jpg")
    for file in (plot, pictures):
        with Image.open(file) as image:
            assert min(image.size) > 200
            assert len(np.unique(np.asarray(image.convert("RGB"))[::3, ::3].reshape(-1, 3), axis=0)) > 50
    assert {file.name for file in store.path.parent.iterdir()} == {file.name for file in (store.path, plot, pictures)}
    assert f"{store.path}: 12 images, {store.count / 12:,.0f} boxes an image on average" in printed[0]


def test_a_second_run_uses_the_first_and_prints_the_same(devkit, proposed, monkeypatch, capsys):
    store, report, _ = proposed
    before = store.path.read_bytes()
    monkeypatch.setattr(compute, "propose", None)  # not needed any more
    began = time.monotonic()
    assert main(["proposals", str(devkit), "--split", "trainval"]) == 0
    assert time.monotonic() - began < 10
    assert store.path.read_bytes() == before
    out = capsys.readouterr().out
    assert "boxes an image on average, reused\n" in out
    rows = [line.split() for line in out.splitlines()]
    overall = report["overall"]
    shares = [f"{100 * overall[key]:.1f}" for key in ("recall_50", "recall_70", "average_best_overlap")]
    assert ["all", str(overall["objects"]), *shares] in rows


def test_the_same_store_by_any_name_of_the_data(devkit):
    expected = devkit / ".tag2box" / "proposals-trainval-fast.safetensors"
    assert store_path(devkit, "trainval", "fast") == expected
    assert store_path(devkit.parent, "trainval", "fast") == expected


def test_a_part_is_served_by_the_store_of_the_whole(devkit, proposed, monkeypatch, tmp_path, capsys):
    store, _, _ = proposed
    whole = tmp_path / "whole"
    whole.write_bytes(store.path.read_bytes())
    monkeypatch.setattr(compute, "propose", None)
    propose_dataset(devkit, split="val", out=whole, json_out=tmp_path / "report.json")
    report, ids = json.loads((tmp_path / "report.json").read_text()), open_dataset(devkit, "val").ids
    mean = np.mean([len(store[id]) for id in ids])
    assert (report["images"], report["boxes_per_image"]) == (2, mean)
    assert f"{whole}: 2 images, {mean:,.0f} boxes an image" in capsys.readouterr().out


def test_photos_without_boxes(photos, tmp_path, capsys):
    report = tmp_path / "made" / "report.json"
    assert main(["proposals", str(photos), "--workers", "1", "--json", str(report)]) == 0
    out = capsys.readouterr().out
    assert "9 images" in out
    assert "recall" not in out
    store = ProposalStore(photos / ".tag2box" / "proposals-all-fast.safetensors")
    assert json.loads(report.read_text()) == {"images": 9, "boxes_per_image": store.count / 9}
    assert [file.name for file in store.path.parent.iterdir()] == [store.path.name]
    assert open_dataset(photos).classes == ("cat", "dog")  # our own folder is not taken for a class


def test_the_same_photos_again_after_our_folder_is_there(photos, monkeypatch):
    first = propose_dataset(photos, workers=1).path.read_bytes()
    monkeypatch.setattr(compute, "propose", None)
    assert propose_dataset(photos).path.read_bytes() == first


def test_added_photos_join_those_that_are_there(photos, save_picture, capsys, monkeypatch):
    store = propose_dataset(photos, workers=1)
    save_picture(photos / "cat" / "new.png")
    capsys.readouterr()
    asked = []
    own = compute.propose
    monkeypatch.setattr(compute, "propose", lambda path, settings: asked.append(path.name) or own(path, settings))
    assert main(["proposals", str(photos), "--workers", "1"]) == 0
    out, err = capsys.readouterr()
    assert asked == ["new.png"]
    assert err == f"{store.path}: 9 pictures were there, 1 is new\n"
    assert re.search(r": 10 images, \d+ boxes an image on average, [\d.]+ s\n", out)
    joined = store.path.read_bytes()
    assert main(["proposals", str(photos), "--workers", "1", "--overwrite"]) == 0
    assert len(asked) == 1 + 10  # all anew
    assert store.path.read_bytes() == joined
    assert main(["proposals", str(photos)]) == 0
    assert capsys.readouterr().out.endswith(" boxes an image on average, reused\n")


def test_a_file_of_ones_own_is_not_replaced_for_other_settings(photos, tmp_path, save_picture, capsys):
    out = tmp_path / "mine"
    before = propose_dataset(photos, preset="thorough", out=out, workers=1).path.read_bytes()
    save_picture(photos / "cat" / "new.png")
    assert main(["proposals", str(photos), "--out", str(out), "--workers", "1"]) == 2
    assert "was made with other settings" in capsys.readouterr().err
    assert out.read_bytes() == before


def test_a_preset_that_was_another_in_an_earlier_version(photos, monkeypatch, capsys):
    with monkeypatch.context() as earlier:
        earlier.setitem(PRESETS, "fast", replace(PRESETS["fast"], max_boxes=3))
        propose_dataset(photos, workers=1)
    assert propose_dataset(photos, workers=1).settings["max_boxes"] == PRESETS["fast"].max_boxes
    assert "was made with other settings: all is computed anew" in capsys.readouterr().err


def test_one_picture_is_one_image(tmp_path, save_picture, capsys):
    save_picture(tmp_path / "cat" / "a.png")
    propose_dataset(tmp_path, workers=1)
    assert ": 1 image, " in capsys.readouterr().out


def test_boxes_that_cannot_be_are_told_before_the_work(make_devkit, monkeypatch):
    year = make_devkit({"a": [("cat", (1, 1, 300, 40))]})
    monkeypatch.setattr(compute, "propose", None)
    with pytest.raises(InputError, match="expected a box inside"):
        propose_dataset(year, workers=1)
    assert not (year / ".tag2box").exists()


def test_bad_pictures_are_all_named_or_skipped(photos, capsys):
    (photos / "cat" / "cat 1.png").write_bytes(b"")
    (photos / "dog" / "dog 2.png").write_text("<html>")
    assert main(["proposals", str(photos), "--workers", "1"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    for words in ("2 bad images", "cat/cat 1.png (empty file)", "dog/dog 2.png (not an image)", "--skip-bad-images"):
        assert words in err
    assert not (photos / ".tag2box").exists()

    assert main(["proposals", str(photos), "--workers", "1", "--skip-bad-images"]) == 0
    out, err = capsys.readouterr()
    assert "7 images" in out
    assert err.startswith("skipped 2 bad images: cat/cat 1.png")


# ---- from outside


@pytest.fixture
def outside(devkit, tmp_path):
    """A .pkl in which every object of the demo data is proposed, and nothing else."""
    truth = open_ground_truth(devkit, "trainval")
    boxes = [truth.boxes[truth.images == image] - [0, 0, 1, 1] for image in range(len(truth.ids))]
    source = tmp_path / "selective search.pkl"
    source.write_bytes(pickle.dumps({"boxes": boxes, "indexes": [int(id) for id in truth.ids]}))
    return source


def test_proposals_from_outside(devkit, outside, tmp_path, capsys):
    store, report = tmp_path / "taken over", tmp_path / "report.json"
    command = ["proposals", str(devkit), "--split", "trainval", "--from", str(outside), "--out", str(store)]
    assert main([*command, "--json", str(report)]) == 0
    overall = json.loads(report.read_text())["overall"]
    assert (overall["recall_70"], overall["average_best_overlap"]) == (1, 1)
    assert len(ProposalStore(store)) == 12
    before = store.read_bytes()
    capsys.readouterr()

    assert main(command) == 2
    assert "is there already; replace it with --overwrite" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
    assert store.read_bytes() == before


def test_proposals_from_outside_have_a_place_of_their_own(devkit, outside):
    store = propose_dataset(devkit, split="trainval", source=outside)
    assert store.path == devkit / ".tag2box" / "proposals-trainval-selective search.safetensors"
    store.path.unlink()


# ---- wrong input: exit code 2, one line, nothing written


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--preset", "fats"], "expected a preset (fast, thorough), found 'fats'; did you mean 'fast'?"),
        (["--workers", "0"], "expected at least one worker, found 0"),
        (["--workers", "-3"], "expected at least one worker, found -3"),
        (["--out", "{tmp}/file/below/store"], "cannot make the folder {tmp}/file/below"),
        (["--out", "{tmp}"], "expected the name of a file to write, found a folder: {tmp}"),
        (["--out", "{tmp}", "--overwrite"], "found a folder: {tmp}"),
        (["--json", "{tmp}/file/report.json"], "cannot make the folder {tmp}/file"),
        (["--from", "{tmp}/missing.mat"], "{tmp}/missing.mat does not exist"),
        (["--from", "{tmp}/file"], "expected proposals in a .mat or .pkl file, found file"),
        (["--out", "{tmp}/file"], "expected a whole tag2box proposal store, found something else"),
        (["--split", "trainval"], "trainval"),
    ],
)
def test_wrong_options(photos, tmp_path, capsys, options, words):
    (tmp_path / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    assert main(["proposals", str(photos), *(option.format(tmp=tmp_path) for option in options)]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert words.format(tmp=tmp_path) in err
    assert sorted(tmp_path.rglob("*")) == before


def test_wrong_settings_are_an_input_error_to_callers(photos):
    with pytest.raises(InputError, match="expected a preset"):
        propose_dataset(photos, preset="")
