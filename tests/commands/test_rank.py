import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tag2box.cli import main
from tag2box.commands.rank import rank_dataset
from tag2box.config import load_recipe
from tag2box.detector import build_prediction_net, save_detector
from tag2box.detector_file import build_conditional_net
from tag2box.proposals.store import write_store
from tag2box.ranking import BY

CAT, DOG = ("cat", (11, 11, 60, 60)), ("dog", (21, 21, 90, 70))
BOXES = np.array([[10, 10, 60, 60], [20, 20, 90, 70], [0, 0, 100, 80], [70, 0, 100, 30]], dtype=np.int16)
CLASSES = ["dog", "yak", "cat"]


pytestmark = pytest.mark.usefixtures("one_thread")


def save_run(folder, classes=CLASSES, *, teacher=True) -> Path:
    """Nets that have learnt nothing and disagree."""
    torch.manual_seed(0)
    small = {"backbone.weights": "none", "head.width": 8, "data.scales": 32, "inference.scales": 32}
    recipe = load_recipe("demo", {**small, "rounds.samples": 3, "data.max_proposals": 4})
    nets = {"best": build_prediction_net(recipe, len(classes))}
    if teacher:
        nets["conditional"] = build_conditional_net(recipe, len(classes))
    (folder / "weights").mkdir(parents=True)
    for name, net in nets.items():
        torch.nn.init.normal_(net.predictor.scores.weight, std=0.5)
        torch.nn.init.zeros_(net.predictor.offsets.weight)
        save_detector(folder / "weights" / f"{name}.safetensors", net, recipe, classes)
    return folder


@pytest.fixture
def run(tmp_path) -> Path:
    return save_run(tmp_path / "run")


@pytest.fixture
def photos(make_devkit) -> Path:
    """Of `c` only a difficult cat is annotated, so that it has no tag; `d` has fewer proposals than tags."""
    objects = {"a": [CAT], "b": [CAT, DOG], "c": [(*CAT, True)], "d": [CAT, DOG], "e,[x]": [DOG]}
    return make_devkit(objects, {"test": list(objects)})


@pytest.fixture
def store(tmp_path) -> Path:
    path, counts = tmp_path / "store.safetensors", [4, 4, 4, 1, 4]
    ids = ["a", "b", "c", "d", "e,[x]"]
    write_store(path, ids, [(100, 80)] * 5, {}, counts, [BOXES[:count] for count in counts])
    return path


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("by", BY)
def test_every_tag_of_every_image_in_order(run, photos, store, tmp_path, by, capsys):
    out = tmp_path / "new" / "order.csv"
    ranked = rank_dataset(run, photos, out=out, by=by, split="test", proposals=store, device="cpu", pictures=False)
    rows = rows_of(out)
    assert sorted((row["image"], row["class"]) for row in rows) == [
        ("a", "cat"),
        ("b", "cat"),
        ("b", "dog"),
        ("c", ""),
        ("d", "cat"),
        ("d", "dog"),
        ("e,[x]", "dog"),
    ]
    assert [int(row["rank"]) for row in rows] == sorted(int(row["rank"]) for row in rows)
    assert {row["image"]: int(row["rank"]) for row in rows} == {o.image.id: r for r, o in enumerate(ranked, 1)}
    assert rows[0]["image"] == "d"  # nobody knows anything of it
    assert not any(rows[0][name] for name in ("box", "distance", "confidence", "image_distance"))
    known = [row for row in rows if row["image"] != "d"]
    column = {"self-diversity": "self_diversity"}.get(by, by)
    if by != "total":
        values = [float(row[f"image_{column}"]) for row in known]
        assert values == sorted(values, reverse=by != "confidence")
    for row in (row for row in known if row["class"]):
        x0, y0, x1, y1 = map(float, row["box"].split())
        assert 0 <= x0 < x1 <= 100
        assert 0 <= y0 < y1 <= 80
        assert 0 <= float(row["distance"]) <= float(row["image_distance"]) <= 1
        assert float(row["confidence"]) >= float(row["image_confidence"]) > 0
    assert sorted(path.name for path in out.parent.iterdir()) == ["order.csv"]
    printed = capsys.readouterr().out
    assert f"5 images, the most uncertain first (by {by})" in printed
    assert "e,[x]" in printed


@pytest.mark.parametrize("by", BY)
def test_one_class_alone(run, photos, store, tmp_path, capsys, by):
    """Its pictures, in the order that it gives them; the others' tags say nothing."""
    words = f"rank {run} {photos} --split test --proposals {store} --device cpu --out {tmp_path}/r.csv --by {by}"
    assert main([*words.split(), "--only", "cat"]) == 0
    rows = rows_of(tmp_path / "r.csv")
    assert [row["class"] for row in rows] == ["cat"] * 3
    assert rows[0]["image"] == "d"
    assert {row["image"] for row in rows} == {"a", "b", "d"}
    for name in ("doubt", "distance", "dissimilarity", "self_diversity", "confidence"):
        assert all(row[name] == row[f"image_{name}"] for row in rows)
    said = capsys.readouterr().out
    assert "3 images, the most uncertain first" in said
    assert "dog" not in said
    assert main([*words.split(), "--only", "cat", "--only", "dog"]) == 0
    assert sorted(row["image"] for row in rows_of(tmp_path / "r.csv")) == ["a", "b", "b", "d", "d", "e,[x]"]


def test_where_there_are_boxes_the_scores_are_scored(run, photos, store, tmp_path, capsys):
    rank_dataset(run, photos, out=tmp_path / "r.csv", split="test", proposals=store, device="cpu")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["by", "AUROC", "AURC,", "%"] in lines
    assert {line[0] for line in lines if line and line[0] in BY} == set(BY)
    assert "the best boxes of 4 tags" in " ".join(word for line in lines for word in line)
    assert Image.open(tmp_path / "r.jpg").width == 1680
    assert Image.open(tmp_path / "r-risk.png").format == "PNG"


def test_a_data_set_with_tags_only(run, tmp_path, save_picture, capsys):
    """From photos to a ranking, proposals and all."""
    for name in ("cat/1.jpg", "dog/1.jpg", "dog/2.jpg"):
        save_picture(tmp_path / "photos" / name, (100, 80))
    words = f"rank {run} {tmp_path / 'photos'} --out {tmp_path / 'r.csv'} --device cpu --workers 1 --top 2"
    assert main(words.split()) == 0
    out = capsys.readouterr().out
    assert "AUROC" not in out
    assert not (tmp_path / "r-risk.png").exists()
    assert {row["image"] for row in rows_of(tmp_path / "r.csv")} == {"cat/1", "dog/1", "2"}
    numbered = [line.split()[0] for line in out.splitlines() if line.split() and line.split()[0].isdigit()]
    assert numbered == ["3", "1", "2"]  # images in all, and the two that are shown


def test_the_same_again(run, photos, store, tmp_path):
    """The noise is drawn from a fixed seed, and an earlier ranking is replaced."""
    contents = []
    for _ in range(2):
        rank_dataset(run, photos, out=tmp_path / "r.csv", split="test", proposals=store, device="cpu", pictures=False)
        contents.append((tmp_path / "r.csv").read_bytes())
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", "expected DATA, found nothing (see tag2box rank --help)"),
        ("{run}", "expected RUN DATA, found only"),
        ("{run} {photos} more", "expected RUN DATA, found"),
        ("nowhere {photos} --split test", "found nothing at nowhere"),
        ("{alone} {photos} --split test", "expected a run directory with weights/conditional.safetensors"),
        ("{run} nowhere", "nowhere does not exist"),
        ("{run} {photos} --split tset", "did you mean 'test'?"),
        ("{run} {photos} --split test --by distanse", "did you mean 'distance'?"),
        (
            "{run} {photos} --split test --only cats",
            "--only a class that pictures have, found 'cats'; did you mean",
        ),
        ("{run} {photos} --split test --top 0", "expected --top 1 or more, found 0"),
        ("{run} {photos} --split test --out order.txt", "expected a file to write that ends in .csv, found order.txt"),
        ("{run} {photos} --split test --out {run}/weights/best.safetensors/r.csv", "cannot write to folder"),
        ("{other} {photos} --split test", "found 'cat'; did you mean 'cats'?"),
    ],
)
def test_wrong_command_lines(words, expected, run, photos, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other, alone = save_run(tmp_path / "other", ["cats", "dog"]), save_run(tmp_path / "alone", teacher=False)
    before = sorted(tmp_path.rglob("*"))
    assert main(["rank", *words.format(run=run, photos=photos, other=other, alone=alone).split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert expected in err
    assert sorted(tmp_path.rglob("*")) == before


def test_nothing_is_written_where_the_work_fails(run, photos, store, tmp_path, monkeypatch):
    monkeypatch.setattr("tag2box.commands.rank.rank_part", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        rank_dataset(run, photos, out=tmp_path / "new" / "r.csv", split="test", proposals=store, device="cpu")
    assert not (tmp_path / "new").exists()
