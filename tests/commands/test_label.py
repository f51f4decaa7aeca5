import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tag2box.cli import main
from tag2box.commands.label import label_dataset
from tag2box.config import load_recipe
from tag2box.data import open_dataset, open_ground_truth
from tag2box.detector import build_prediction_net, save_detector
from tag2box.detector_file import build_conditional_net
from tag2box.errors import InputError
from tag2box.known import write_known
from tag2box.labels.output import FORMATS, Output
from tag2box.proposals.store import write_store
from tag2box.remembered import save_places
from tag2box.review.database import Database
from tag2box.review.store import Store

CAT, DOG = ("cat", (11, 11, 60, 60)), ("dog", (21, 21, 90, 70))
BOXES = np.array([[10, 10, 60, 60], [20, 20, 90, 70], [0, 0, 100, 80]], dtype=np.int16)


def save_run(folder, classes, *, teacher=True) -> Path:
    """Nets that know nothing: all classes alike everywhere, boxes as they are proposed."""
    torch.set_num_threads(1)
    small = {"backbone.weights": "none", "head.width": 8, "data.scales": 32, "inference.scales": 32}
    recipe = load_recipe("demo", small)
    nets = {"best": build_prediction_net(recipe, len(classes))}
    if teacher:
        nets["conditional"] = build_conditional_net(recipe, len(classes))
    (folder / "weights").mkdir(parents=True)
    for name, net in nets.items():
        for layer in (net.predictor.scores, net.predictor.offsets):
            torch.nn.init.zeros_(layer.weight)
        save_detector(folder / "weights" / f"{name}.safetensors", net, recipe, classes)
    return folder


@pytest.fixture
def run(tmp_path) -> Path:
    return save_run(tmp_path / "run", ["dog", "yak", "cat"])


@pytest.fixture
def photos(make_devkit) -> Path:
    return make_devkit({"a": [CAT], "b": [CAT, DOG], "c": [(*CAT, True)]}, {"test": ["a", "b", "c"]})


@pytest.fixture
def store(tmp_path) -> Path:
    path = tmp_path / "store.safetensors"
    write_store(path, ["a", "b", "c"], [(100, 80)] * 3, {}, [3] * 3, [BOXES] * 3)
    return path


def label(run, photos, store, out, **options):
    output = {key: options.pop(key) for key in ("format", "overwrite", "images_as") if key in options}
    return label_dataset(
        run, photos, Output(folder=out, **{"format": "coco", **output}), split="test", proposals=store, **options
    )


@pytest.mark.parametrize("by", ["prediction", "conditional"])
@pytest.mark.parametrize("score", [None, 0.0, 1.0])
def test_every_tag_and_no_other(run, photos, store, tmp_path, by, score, capsys):
    label(run, photos, store, tmp_path / "out", by=by, score=score)
    labelled = open_dataset(tmp_path / "out")
    assert [image.tags for image in labelled] == [("cat",), ("cat", "dog"), ()]  # `c` has no tag: only difficult cats
    about = json.loads((tmp_path / "out" / "tag2box.json").read_text())
    assert about["by"] == by
    assert about["score"] == ({"prediction": 0.7, "conditional": 0.1}[by] if score is None else score)
    out = capsys.readouterr().out
    assert f"in 2 images, by the {by} net" in out
    assert str(tmp_path / "out" / "annotations" / "instances_test.json") in out


def test_scored_where_there_are_boxes(run, photos, store, tmp_path, capsys):
    summary = label(run, photos, store, tmp_path / "out", score=1.0)  # the first of equals is the cats' box
    assert summary["per_class"] == {
        "cat": {"boxes": 2, "images": 2, "objects": 2, "precision": 100.0, "recall": 100.0},
        "dog": {"boxes": 1, "images": 1, "objects": 1, "precision": 0.0, "recall": 0.0},
    }
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["class", "boxes", "images", "objects", "precision", "recall"] in lines
    assert ["all", "3", "2", "3", "66.7", "66.7"] in lines


@pytest.mark.parametrize("by", ["prediction", "conditional"])
def test_what_the_run_remembers_of_its_pictures_counts(run, photos, store, tmp_path, by):
    """The nets know nothing, and of `b` the run knows that the dog is the second proposal; of `a` it knows nothing."""
    places = torch.tensor([[-1.0, -1, 1], [1, -1, -1], [-1, -1, -1]])  # dog, yak, cat
    save_places(run / "weights" / "hints.safetensors", [places.half()], [torch.from_numpy(BOXES)], ["b"])
    summary = label(run, photos, store, tmp_path / "out", score=1.0, by=by)
    assert summary["per_class"]["dog"]["precision"] == 100.0


@pytest.mark.parametrize("format", FORMATS)
def test_from_the_command_line(run, photos, store, tmp_path, format, capsys):
    words = f"label {run} {photos} --split test --format {format} --out {tmp_path / 'out'} --proposals {store}"
    words += " --val-fraction 0.5 --seed 1" if format == "yolo" else ""
    assert main([*words.split(), "--device", "cpu", "--tta", "--images-as", "copy"]) == 0
    assert json.loads((tmp_path / "out" / "tag2box.json").read_text())["written_as"] == format
    capsys.readouterr()
    assert main(words.split()) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main([*words.split(), "--overwrite"]) == 0


def test_what_a_person_has_said(run, photos, store, tmp_path):
    known = tmp_path / "boxes.json"
    write_known(known, {"a": {"cat": [(1, 2, 3.5, 4), (5, 5, 50, 50)], "dog": [(0, 0, 9, 9)]}, "b": {"cat": []}})
    label(run, photos, store, tmp_path / "out", known=known)
    truth = open_ground_truth(tmp_path / "out")
    own = truth.subset(["a"])
    assert [truth.classes[c] for c in own.labels] == ["cat", "cat", "dog"]
    assert own.boxes.tolist() == [[1, 2, 3.5, 4], [5, 5, 50, 50], [0, 0, 9, 9]]
    assert [truth.classes[c] for c in truth.subset(["b"]).labels] == ["dog"]


def test_what_has_been_decided_in_a_review(run, photos, store, tmp_path):
    with closing(Database(tmp_path / "review.sqlite")) as database:
        Store(database).decide("a", "cat", "accepted", [[5, 5, 50, 50]], 0)
        Store(database).decide("b", "cat", "rejected", [], 0)
    label(run, photos, store, tmp_path / "out", known=tmp_path / "review.sqlite")
    truth = open_ground_truth(tmp_path / "out")
    assert truth.subset(["a"]).boxes.tolist() == [[5, 5, 50, 50]]
    assert [truth.classes[c] for c in truth.subset(["b"]).labels] == ["dog"]


def test_a_data_set_with_tags_only(run, tmp_path, save_picture, capsys):
    """From photos to labels, proposals and all; pictures of one name in two folders, one of them turned."""
    exif = Image.Exif()
    exif[0x0112] = 6
    save_picture(tmp_path / "photos" / "cat" / "001.jpg", (80, 100), exif=exif)
    save_picture(tmp_path / "photos" / "dog" / "001.jpg", (100, 80))
    assert main(f"label {run} {tmp_path / 'photos'} --format coco --out {tmp_path / 'out'}".split()) == 0
    out = capsys.readouterr().out
    assert "precision" not in out
    assert "1 linked picture to be turned by EXIF tag" in out
    labelled = open_dataset(tmp_path / "out")
    assert [(image.id, image.tags, image.size) for image in labelled] == [
        ("cat/001", ("cat",), (100, 80)),
        ("dog/001", ("dog",), (100, 80)),
    ]


@pytest.mark.parametrize("by", ["prediction", "conditional"])
def test_a_picture_without_proposals(run, make_devkit, tmp_path, by):
    photos = make_devkit({"a": [CAT, DOG]}, {"test": ["a"]})
    write_store(tmp_path / "none.safetensors", ["a"], [(100, 80)], {}, [0], [BOXES[:0]])
    label(run, photos, tmp_path / "none.safetensors", tmp_path / "out", by=by)
    assert open_ground_truth(tmp_path / "out").boxes.tolist() == [[0, 0, 100, 80]] * 2


def test_numbers_of_a_coco_data_set_stay(run, tmp_path, save_picture):
    """So that the labels can be scored against the file they were made from."""
    save_picture(tmp_path / "coco" / "images" / "x.jpg", (100, 80))
    content = {
        "images": [{"id": 77, "file_name": "x.jpg", "width": 100, "height": 80}],
        "categories": [{"id": 18, "name": "dog"}, {"id": 17, "name": "cat"}],
        "annotations": [{"id": 1, "image_id": 77, "category_id": 18, "bbox": [1, 2, 30, 40], "iscrowd": 0}],
    }
    (tmp_path / "coco" / "instances_val.json").write_text(json.dumps(content))
    write_store(tmp_path / "store.safetensors", ["x"], [(100, 80)], {}, [3], [BOXES])
    output = Output(format="coco", folder=tmp_path / "out")
    label_dataset(run, tmp_path / "coco" / "instances_val.json", output, proposals=tmp_path / "store.safetensors")
    written = json.loads((tmp_path / "out" / "annotations" / "instances_val.json").read_text())
    assert [(entry["id"], entry["name"]) for entry in written["categories"]] == [(17, "cat"), (18, "dog")]
    assert {(one["image_id"], one["category_id"]) for one in written["annotations"]} == {(77, 18)}


def test_a_detector_without_its_teacher_cannot_ask_it(photos, store, tmp_path):
    run = save_run(tmp_path / "alone", ["cat", "dog"], teacher=False)
    for source in (run, run / "weights" / "best.safetensors"):
        with pytest.raises(InputError, match=f"expected a run with a conditional net .*, found none in {source}"):
            label(source, photos, store, tmp_path / "out", by="conditional")
        assert not (tmp_path / "out").exists()
    label(run, photos, store, tmp_path / "out")


def test_without_a_name_the_folder_is_called_after_data_and_format(run, photos, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(f"label {run} {photos} --split test --format voc --proposals {store}".split()) == 0
    assert open_dataset(tmp_path / "VOC2007-voc").ids == ("a", "b", "c")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", "expected DATA, found nothing (see tag2box label --help)"),
        ("{run}", "expected RUN DATA, found only"),
        ("{run} {photos} more --format coco", "expected RUN DATA, found"),
        ("{run} {photos} --split test", "expected --format coco, voc, yolo or label-studio, found none"),
        ("{run} {photos} --split test --format yollo", "did you mean 'yolo'?"),
        ("nowhere {photos} --split test --format coco", "found nothing at nowhere"),
        ("nowhere {photos} --split test --format coco --by conditional", "found nothing at nowhere"),
        ("{run} nowhere --format coco", "nowhere does not exist"),
        ("{run} {photos} --split tset --format coco", "did you mean 'test'?"),
        ("{other} {photos} --split test --format coco", "found 'dog'; did you mean 'dogs'?"),
        ("{run} {photos} --split test --format coco --by predicton", "expected --by prediction or conditional"),
        ("{run} {photos} --split test --format coco --score 40", "expected --score between 0 and 1, found 40.0"),
        ("{run} {photos} --split test --format coco --by conditional --tta", "expected --tta with --by prediction"),
        ("{run} {photos} --split test --format coco --known {run}/none.json", "none.json"),
        ("{run} {photos} --split test --format yolo --val-fraction 0.0001", "expected images for val, found none"),
        ("{run} {photos} --split test --format coco --out {photos}/labels", "outside the data set"),
        ("{run} {photos} --split test --format coco --out {run} --overwrite", "it is not replaced"),
    ],
)
def test_wrong_command_lines(words, expected, run, photos, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = save_run(tmp_path / "other", ["cat", "dogs"])
    before = sorted(tmp_path.rglob("*"))
    assert main(["label", *words.format(run=run, photos=photos, other=other).split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert expected in err
    assert sorted(tmp_path.rglob("*")) == before


def test_what_has_been_reviewed_is_done_in_label_studio(run, photos, store, tmp_path):
    write_known(tmp_path / "boxes.json", {"a": {"cat": [(5, 5, 50, 50)]}, "b": {"cat": []}})
    label(run, photos, store, tmp_path / "out", format="label-studio", known=tmp_path / "boxes.json")
    tasks = {task["data"]["name"]: task for task in json.loads((tmp_path / "out" / "tasks.json").read_text())}
    assert "annotations" in tasks["a"]
    assert "annotations" not in tasks["b"]  # it has a dog as well
    assert len(tasks["b"]["predictions"]) == 1


def test_fewer_proposals(run, photos, store, tmp_path):
    label(run, photos, store, tmp_path / "out", max_proposals=1, score=0.0)
    about = json.loads((tmp_path / "out" / "tag2box.json").read_text())
    assert about["max_proposals"] == 1
    assert about["labels"]["all"]["boxes"] == 3  # one for each tag
    with pytest.raises(InputError, match="expected --max-proposals with --by prediction only"):
        label(run, photos, store, tmp_path / "out2", max_proposals=1, by="conditional")
