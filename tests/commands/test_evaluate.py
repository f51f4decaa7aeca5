import json
from pathlib import Path

import pytest

from tag2box.commands.evaluate import evaluate_file
from tag2box.errors import InputError

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


def test_a_folder_that_is_not_there_is_found_out_first(devkit, tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        evaluate_file(devkit, tmp_path / "never read.json", metrics=["voc07"], json_out=tmp_path / "no" / "scores.json")


def test_a_data_set_without_boxes(tmp_path, results):
    data = tmp_path / "photos"
    (data / "cat").mkdir(parents=True)
    (data / "cat" / "a.jpg").write_bytes(b"")
    with pytest.raises(InputError, match="expected a data set with boxes"):
        evaluate_file(data, results, metrics=["voc07"])
