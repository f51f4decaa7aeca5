import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pycocotools.coco import COCO

from tag2box.data import open_dataset, open_ground_truth
from tag2box.labels.coco import write_coco
from tag2box.labels.records import LabelledImage


def expected(labelled):
    """Each picture's labels, by the picture's id."""
    return {image.id: [(label.name, label.box) for label in image.labels] for image in labelled.images}


@pytest.mark.parametrize("images_as", ["link", "copy"])
def test_read_back_by_pycocotools(awkward, tmp_path, images_as, capsys):
    main, turned = write_coco(awkward, tmp_path / "out", images_as=images_as)
    coco = COCO(str(tmp_path / "out" / main))
    assert turned == (2 if images_as == "link" else 0)
    assert [coco.cats[number]["name"] for number in sorted(coco.cats)] == list(awkward.classes)
    assert sorted(coco.imgs) == list(range(1, len(awkward.images) + 1))
    for number, image in enumerate(awkward.images, 1):
        entry = coco.imgs[number]
        assert (entry["width"], entry["height"]) == image.size
        assert (tmp_path / "photos" / entry["file_name"]).samefile(image.path)
        with Image.open(tmp_path / "out" / "images" / entry["file_name"]) as picture:
            picture.verify()
        annotations = coco.loadAnns(coco.getAnnIds(imgIds=[number]))
        assert [coco.cats[one["category_id"]]["name"] for one in annotations] == [one.name for one in image.labels]
        for one, label in zip(annotations, image.labels, strict=True):
            x, y, width, height = one["bbox"]
            assert (x, y, x + width, y + height) == pytest.approx(label.box)
            assert one["area"] == pytest.approx(width * height)
            assert one["score"] == pytest.approx(label.score)
            assert one["iscrowd"] == 0
            assert one["segmentation"] == []  # with a polygon CVAT would draw one in place of the box


def test_read_back_by_ourselves(awkward, tmp_path):
    write_coco(awkward, tmp_path / "out")
    dataset, truth = open_dataset(tmp_path / "out"), open_ground_truth(tmp_path / "out")
    assert dataset.classes == awkward.classes
    assert dataset.split == "all"
    assert {image.id: image.size for image in dataset} == {image.id: image.size for image in awkward.images}
    for image in dataset:
        assert set(image.tags) == {name for name, _ in expected(awkward)[image.id]}
        own = truth.subset([image.id])
        rows = [(own.classes[c], tuple(box)) for c, box in zip(own.labels, own.boxes.tolist(), strict=True)]
        assert rows == [(name, pytest.approx(box)) for name, box in expected(awkward)[image.id]]


def test_a_file_alone(awkward, tmp_path):
    main, turned = write_coco(awkward, tmp_path / "out", images_as="none")
    assert turned == 0
    assert not (tmp_path / "out" / "images").exists()
    assert len(open_dataset(tmp_path / "out" / main, images=tmp_path / "photos")) == len(awkward.images)


def test_numbers_that_are_there_already(awkward, tmp_path):
    images = {image.id: 1000 + number for number, image in enumerate(awkward.images)}
    categories = {name: 90 - number for number, name in enumerate(awkward.classes)}
    main, _ = write_coco(awkward, tmp_path / "out", images_as="none", image_numbers=images, category_numbers=categories)
    content = json.loads((tmp_path / "out" / main).read_text())
    assert [entry["id"] for entry in content["images"]] == list(images.values())
    assert {entry["name"]: entry["id"] for entry in content["categories"]} == categories
    assert {one["image_id"] for one in content["annotations"]} <= set(images.values())


def test_any_encoding_reads_it(awkward, tmp_path):
    main, _ = write_coco(awkward, tmp_path / "out", images_as="none")
    assert (tmp_path / "out" / main).read_bytes().isascii()


@settings(deadline=None)
@given(data=st.data())
def test_boxes_stay_inside_and_come_back(data, sized_boxes, one_image, tmp_path_factory):
    labelled = one_image(*data.draw(sized_boxes))
    out = tmp_path_factory.mktemp("coco")
    main, _ = write_coco(labelled, out, images_as="none")
    image: LabelledImage = labelled.images[0]
    for one, label in zip(json.loads((out / main).read_text())["annotations"], image.labels, strict=True):
        x, y, width, height = one["bbox"]
        assert width >= 0.98
        assert height >= 0.98
        assert x >= 0
        assert y >= 0
        assert x + width <= image.size[0] + 1e-6
        assert y + height <= image.size[1] + 1e-6
        np.testing.assert_allclose([x, y, x + width, y + height], label.box, atol=0.011)
