"""Outputs checked against Label Studio's documented format for predictions, by rules written down here, slow and plain.

https://labelstud.io/guide/predictions, https://labelstud.io/tags/rectanglelabels
"""

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from defusedxml.ElementTree import parse
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from tag2box.labels.label_studio import write_label_studio
from tag2box.labels.records import LabelledImage, LabelledSet


def read_interface(file: Path):
    """The names of its two parts, the field with the picture's address, and the labels."""
    (picture,), (labels,) = (list(parse(file).iterfind(tag)) for tag in ("Image", "RectangleLabels"))
    assert labels.get("toName") == picture.get("name")
    assert picture.get("value")[0] == "$"
    return picture.get("name"), labels.get("name"), picture.get("value")[1:], [one.get("value") for one in labels]


def check_tasks(tasks, interface):
    """What Label Studio asks of tasks with predictions."""
    to_name, from_name, field, labels = interface
    assert isinstance(tasks, list)
    ids = [result["id"] for task in tasks for made in task["predictions"] for result in made["result"]]
    assert len(set(ids)) == len(ids)
    for task in tasks:
        assert isinstance(task["data"][field], str)
        for made in task["predictions"]:
            assert isinstance(made["model_version"], str)
            assert 0 <= made["score"] <= 1
            for result in made["result"]:
                check_result(result, from_name, to_name, labels)


def check_result(result, from_name, to_name, labels):
    assert isinstance(result["id"], str)
    assert result["type"] == "rectanglelabels"
    assert (result["from_name"], result["to_name"]) == (from_name, to_name)
    assert type(result["original_width"]) is type(result["original_height"]) is int
    assert min(result["original_width"], result["original_height"]) > 0
    assert result["image_rotation"] == 0
    assert 0 <= result["score"] <= 1
    value = result["value"]
    assert set(value) == {"x", "y", "width", "height", "rotation", "rectanglelabels"}
    assert value["rotation"] == 0
    assert len(value["rectanglelabels"]) == 1
    assert value["rectanglelabels"][0] in labels
    for start, extent in (("x", "width"), ("y", "height")):
        assert 0 <= value[start] <= 100
        assert 0 < value[extent] <= 100
        assert value[start] + value[extent] <= 100 + 1e-9


def corners(result):
    """In pixels."""
    value, width, height = result["value"], result["original_width"], result["original_height"]
    x0, y0 = value["x"] * width / 100, value["y"] * height / 100
    return [x0, y0, x0 + value["width"] * width / 100, y0 + value["height"] * height / 100]


def served(address: str, document_root: Path) -> Path:
    """The file that Label Studio serves for a task's address of local files."""
    parts = urlsplit(address)
    assert parts.path == "/data/local-files/"
    ((path,),) = parse_qs(parts.query, strict_parsing=True).values()
    return document_root / path


@pytest.mark.parametrize("images_as", ["link", "copy"])
def test_tasks(awkward, tmp_path, images_as):
    out = tmp_path / "to check & more"
    out.mkdir()
    main, turned = write_label_studio(awkward, out, name=out.name, images_as=images_as)
    assert turned == (2 if images_as == "link" else 0)
    interface = read_interface(out / "config.xml")
    assert interface[3] == list(awkward.classes)
    tasks = json.loads((out / main).read_text(encoding="utf-8"))
    check_tasks(tasks, interface)
    assert [task["data"]["name"] for task in tasks] == [image.id for image in awkward.images]
    for task, image in zip(tasks, awkward.images, strict=True):
        file = served(task["data"]["image"], tmp_path)
        assert file.is_file()
        assert file.is_relative_to(out / "images")
        with Image.open(file) as picture:
            assert picture.format in {"JPEG", "PNG", "GIF", "BMP", "WEBP"}  # what browsers show
            assert ImageOps.exif_transpose(picture).size == image.size
        results = [result for made in task["predictions"] for result in made["result"]]
        assert [result["value"]["rectanglelabels"][0] for result in results] == [label.name for label in image.labels]
        for result, label in zip(results, image.labels, strict=True):
            assert (result["original_width"], result["original_height"]) == image.size
            assert corners(result) == pytest.approx(label.box, abs=1e-5)
            assert result["score"] == pytest.approx(label.score)
        assert [made["score"] for made in task["predictions"]] == [
            pytest.approx(min(label.score for label in image.labels)) for _ in image.labels[:1]
        ]


@pytest.mark.parametrize("images_as", ["link", "copy"])
def test_pictures_that_browsers_do_not_show(save_turned, tmp_path, images_as):
    names = ["a.tif", "a.tif.png", "b.ppm", "c.png"]
    paths = [save_turned(tmp_path / "photos" / name) for name in names]
    paths.append(save_turned(tmp_path / "photos" / "a tiff.jpg", format="TIFF"))
    before = [path.read_bytes() for path in paths]
    images = tuple(LabelledImage(path.name, path, (30, 20), ()) for path in paths)
    out = tmp_path / "out"
    out.mkdir()
    write_label_studio(LabelledSet(("cat",), images, "all"), out, name="out", images_as=images_as)
    tasks = json.loads((out / "tasks.json").read_text())
    placed = [served(task["data"]["image"], tmp_path) for task in tasks]
    assert [file.name for file in placed] == ["a.tif.png.png", "a.tif.png", "b.ppm.png", "c.png", "a tiff.jpg.png"]
    assert [path.read_bytes() for path in paths] == before
    for file, path in zip(placed, paths, strict=True):
        with Image.open(file) as picture, Image.open(path) as original:
            assert picture.format == "PNG"
            np.testing.assert_array_equal(picture, original)


def test_pictures_where_they_are(awkward, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    write_label_studio(awkward, out, name="out", images_as="none")
    assert not (out / "images").exists()
    for task, image in zip(json.loads((out / "tasks.json").read_text()), awkward.images, strict=True):
        assert served(task["data"]["image"], tmp_path).samefile(image.path)


@pytest.mark.parametrize("root", ["https://example.com/photos", "https://example.com/photos/", "s3://bucket/photos"])
def test_pictures_elsewhere(awkward, tmp_path, root):
    out = tmp_path / "out"
    out.mkdir()
    write_label_studio(awkward, out, name="out", images_as="none", image_root=root)
    addresses = [task["data"]["image"] for task in json.loads((out / "tasks.json").read_text())]
    assert addresses[1] == f"{root.rstrip('/')}/dog/001.jpg"
    assert addresses[3] == f"{root.rstrip('/')}/sub%20dir/my%20photo%20%27of%27%201.jpeg"


@pytest.mark.parametrize("number", [0, 3])  # the second has no box left
def test_what_a_person_has_reviewed_is_an_annotation(awkward, tmp_path, number):
    images = tuple(replace(image, reviewed=place == number) for place, image in enumerate(awkward.images))
    write_label_studio(replace(awkward, images=images), tmp_path, name="out", images_as="none")
    tasks, interface = json.loads((tmp_path / "tasks.json").read_text()), read_interface(tmp_path / "config.xml")
    assert [place for place, task in enumerate(tasks) if "annotations" in task] == [number]
    task, (to_name, from_name, _, labels) = tasks[number], interface
    assert task["predictions"] == []  # it would be shown beside it as a second opinion
    (made,) = task["annotations"]
    for result, label in zip(made["result"], images[number].labels, strict=True):
        check_result(result, from_name, to_name, labels)
        assert corners(result) == pytest.approx(label.box, abs=1e-5)


def test_colours(awkward, tmp_path):
    awkward = replace(awkward, classes=(*awkward.classes, *map(str, range(20))))
    write_label_studio(awkward, tmp_path, name="out", images_as="none")
    colours = [label.get("background") for label in parse(tmp_path / "config.xml").iter("Label")]
    assert len(set(colours)) == len(awkward.classes)
    assert all(len(colour) == 7 and colour[0] == "#" for colour in colours)


@settings(deadline=None)
@given(data=st.data())
def test_boxes_stay_inside_and_come_back(data, sized_boxes, one_image, tmp_path_factory):
    labelled = one_image(*data.draw(sized_boxes))
    out = tmp_path_factory.mktemp("studio")
    write_label_studio(labelled, out, name="out", images_as="none")
    tasks = json.loads((out / "tasks.json").read_text())
    check_tasks(tasks, read_interface(out / "config.xml"))
    image = labelled.images[0]
    for result, label in zip(tasks[0]["predictions"][0]["result"], image.labels, strict=True):
        np.testing.assert_allclose(corners(result), label.box, atol=2e-8 * max(image.size) + 1e-9)
