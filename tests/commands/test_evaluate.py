import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tag2box.cli import main
from tag2box.commands.evaluate import evaluate_file, evaluate_run
from tag2box.config import load_recipe
from tag2box.detector import build_prediction_net, save_detector
from tag2box.errors import InputError
from tag2box.proposals.store import write_store

OBJECT = """<object><name>{name}</name><difficult>{difficult}</difficult>
<bndbox><xmin>{0}</xmin><ymin>{1}</ymin><xmax>{2}</xmax><ymax>{3}</ymax></bndbox></object>"""
PICTURE = (
    "<annotation><filename>{id}.jpg</filename><size><width>100</width><height>80</height></size>{objects}</annotation>"
)


@pytest.fixture
def devkit(tmp_path) -> Path:
    """Two images of a cat and a dog, without the pictures."""
    root = tmp_path / "VOCdevkit" / "VOC2007"
    lists, annotations = root / "ImageSets" / "Main", root / "Annotations"
    lists.mkdir(parents=True)
    annotations.mkdir()
    (lists / "test.txt").write_text("000001\n000002\n")
    (lists / "cat_test.txt").write_text("000001  1\n000002 -1\n")
    (lists / "dog_test.txt").write_text("000001 -1\n000002  1\n")
    for id, name in (("000001", "cat"), ("000002", "dog")):
        objects = OBJECT.format(11, 11, 60, 60, name=name, difficult=0)
        (annotations / f"{id}.xml").write_text(PICTURE.format(id=id, objects=objects))
    return root


@pytest.fixture
def results(tmp_path) -> Path:
    path = tmp_path / "results.json"
    path.write_text(json.dumps([{"image_id": "000001", "category": "cat", "bbox": [10, 10, 50, 50], "score": 0.9}]))
    return path


def test_table_json_and_curves(devkit, results, tmp_path, capsys):
    json_out, picture = tmp_path / "scores.json", tmp_path / "PR_curve.png"
    evaluate_file(devkit, results, split="test", metrics=["voc07", "corloc"], json_out=json_out, pr_curve=picture)
    assert json.loads(json_out.read_text()) == {
        "voc07": {"mean": 50.0, "per_class": {"cat": 100.0, "dog": 0.0}},
        "corloc": {"mean": 50.0, "per_class": {"cat": 100.0, "dog": 0.0}},
    }
    assert picture.stat().st_size > 1000
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["cat", "100.0", "100.0"] in lines
    assert ["mean", "50.0", "50.0"] in lines


def test_the_same_from_voc_files(devkit, tmp_path, capsys):
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "comp4_det_test_cat.txt").write_text("000001 0.9 11 11 60 60\n")
    evaluate_file(devkit, folder, split="test", metrics=["voc07"], json_out=tmp_path / "scores.json")
    assert json.loads((tmp_path / "scores.json").read_text())["voc07"]["mean"] == 50


def test_nothing_is_written_when_the_detections_are_wrong(devkit, results, tmp_path):
    results.write_text("[{}]")
    with pytest.raises(InputError, match="entry 1"):
        evaluate_file(devkit, results, split="test", metrics=["voc07"], json_out=tmp_path / "scores.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["VOCdevkit", "results.json"]


def test_a_folder_that_is_not_there_is_made(devkit, results, tmp_path, capsys):
    evaluate_file(devkit, results, metrics=["voc07"], json_out=tmp_path / "a" / "s.json", pr_curve=tmp_path / "b/c.png")
    assert (tmp_path / "a" / "s.json").is_file()
    assert (tmp_path / "b" / "c.png").is_file()
    assert "1 detection in 2 images, 2 annotated objects;" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made(devkit, results):
    with pytest.raises(InputError, match="cannot make the folder"):
        evaluate_file(devkit, results, metrics=["voc07"], json_out=results / "scores.json")


def test_a_held_out_share_without_images(devkit, results):
    with pytest.raises(InputError, match=r"expected images held out, found none: 0\.0001 of 2 leaves that part empty"):
        evaluate_file(devkit, results, metrics=["voc07"], val_fraction=0.0001)


def test_no_objects_to_score_against(tmp_path, results):
    data = tmp_path / "instances_test.json"
    images, categories = [{"id": 1, "file_name": "000001.jpg"}], [{"id": 1, "name": "cat"}]
    data.write_text(json.dumps({"images": images, "annotations": [], "categories": categories}))
    with pytest.raises(
        InputError, match=r"instances_test\.json: found no annotated objects to score against in 1 image"
    ):
        evaluate_file(data, results, metrics=["voc07"])


def test_a_data_set_without_boxes(tmp_path, results):
    data = tmp_path / "photos"
    (data / "cat").mkdir(parents=True)
    (data / "cat" / "a.jpg").write_bytes(b"")
    with pytest.raises(InputError, match="expected a data set with boxes"):
        evaluate_file(data, results, metrics=["voc07"])


# ---- a run

CAT, DOG = ("cat", (11, 11, 60, 60)), ("dog", (21, 21, 90, 70))
BOXES = np.array([[10, 10, 60, 60], [20, 20, 90, 70], [0, 0, 100, 80]], dtype=np.int16)


def save_run(folder, classes) -> Path:
    """A detector that knows nothing: both classes alike everywhere, boxes as they are proposed."""
    torch.set_num_threads(1)
    small = {"backbone.weights": "none", "head.width": 8, "data.scales": 32, "inference.scales": 32}
    recipe = load_recipe("demo", small)
    net = build_prediction_net(recipe, len(classes))
    for layer in (net.predictor.scores, net.predictor.offsets):
        torch.nn.init.zeros_(layer.weight)
    (folder / "weights").mkdir(parents=True)
    save_detector(folder / "weights" / "best.safetensors", net, recipe, classes)
    return folder


@pytest.fixture
def run(tmp_path) -> Path:
    return save_run(tmp_path / "run", ["dog", "cat"])


@pytest.fixture
def photos(make_devkit) -> Path:
    return make_devkit({"a": [CAT], "b": [DOG], "c": [CAT]}, {"test": ["a", "b", "c"]})


@pytest.fixture
def store(tmp_path) -> Path:
    path = tmp_path / "store.safetensors"
    write_store(path, ["a", "b", "c"], [(100, 80)] * 3, {}, [3] * 3, [BOXES] * 3)
    return path


def test_a_run_is_scored(run, photos, store, tmp_path, capsys):
    json_out, picture = tmp_path / "scores.json", tmp_path / "PR_curve.png"
    evaluate_run(
        run, photos, split="test", json_out=json_out, pr_curve=picture, metrics=["voc07", "corloc"], proposals=store
    )
    scores = json.loads(json_out.read_text())
    assert scores["corloc"]["per_class"] == {"cat": 100.0, "dog": 0.0}  # the first of equals is the cats' box
    assert scores["voc07"]["per_class"]["cat"] > scores["voc07"]["per_class"]["dog"] == 0
    assert picture.stat().st_size > 1000
    assert "annotated objects" in capsys.readouterr().out


def test_average_precision_does_not_depend_on_corloc(run, photos, store, tmp_path):
    """CorLoc needs the best box of each class; average precision must not see what it adds."""
    found = []
    for metrics in (["voc07"], ["voc07", "corloc"]):
        evaluate_run(run, photos, split="test", metrics=metrics, proposals=store, json_out=tmp_path / "s.json")
        found.append(json.loads((tmp_path / "s.json").read_text())["voc07"])
    assert found[0] == found[1]


def test_a_run_from_the_command_line(run, photos, store, tmp_path, capsys):
    words = f"evaluate {run} {photos} --split test --metrics corloc --tta --device cpu --proposals {store}"
    assert main([*words.split(), "--json", str(tmp_path / "s.json")]) == 0
    assert json.loads((tmp_path / "s.json").read_text())["corloc"]["mean"] == 50
    file = run / "weights" / "best.safetensors"
    assert main([word if word != str(run) else str(file) for word in words.split()]) == 0


def test_a_held_out_share_of_a_run(run, photos, store, capsys):
    evaluate_run(run, photos, split="test", val_fraction=0.5, seed=1, proposals=store)
    assert " in 3 images" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("{photos}", "expected a RUN before DATA, or --detections FILE, found only"),
        ("{run} {photos} {photos}", "expected RUN DATA, or --detections FILE DATA"),
        ("{run} {photos} --detections x.json", "expected RUN DATA, or --detections FILE DATA"),
        ("{photos} --detections x.json --tta", "expected --tta with a RUN only"),
        ("nowhere {photos} --split test", "expected a run directory or a detector's file, found nothing at nowhere"),
        ("{photos} {photos} --split test", "expected a finished run, found no weights/best.safetensors"),
        ("{other} {photos} --split test", "; only in"),
        ("{run} {photos} --split tset", "did you mean 'test'?"),
        ("{run} {photos} --split test --metrics voc7", "did you mean 'voc07'?"),
    ],
)
def test_runs_that_cannot_be_scored(words, expected, run, photos, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = save_run(tmp_path / "other", ["cat", "cow"])
    assert main(["evaluate", *words.format(run=run, photos=photos, other=other).split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert expected in err
