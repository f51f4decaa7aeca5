from dataclasses import replace

import numpy as np
import pytest
from defusedxml.ElementTree import parse
from hypothesis import given, settings
from hypothesis import strategies as st

from tag2box.data import open_dataset, open_ground_truth
from tag2box.data.voc_boxes import read_annotation
from tag2box.labels.naming import flat_names
from tag2box.labels.records import LabelledSet
from tag2box.labels.voc import write_voc


def sorted_classes(labelled: LabelledSet) -> LabelledSet:
    """With classes in the order in which a VOC reader has them."""
    return replace(labelled, classes=tuple(sorted(labelled.classes)))


@pytest.mark.parametrize("images_as", ["link", "copy"])
def test_read_back_by_our_reader(awkward, tmp_path, images_as):
    main, turned = write_voc(awkward, tmp_path / "out", images_as=images_as)
    assert turned == (2 if images_as == "link" else 0)
    assert (tmp_path / "out" / main).is_dir()
    dataset, truth = open_dataset(tmp_path / "out"), open_ground_truth(tmp_path / "out")
    assert dataset.split == "trainval"
    assert dataset.classes == tuple(sorted(awkward.classes))
    names = flat_names([image.id for image in awkward.images])
    assert dataset.ids == tuple(names)
    for image, seen in zip(awkward.images, dataset, strict=True):
        assert seen.size == image.size
        assert set(seen.tags) == {label.name for label in image.labels}
        own = truth.subset([seen.id])
        assert not own.difficult.any()
        assert [own.classes[c] for c in own.labels] == [label.name for label in image.labels]
        boxes = np.array([label.box for label in image.labels]).reshape(-1, 4)
        np.testing.assert_allclose(own.boxes, boxes, atol=0.5)


def test_an_annotation_names_its_picture_and_its_origin(awkward, tmp_path):
    write_voc(awkward, tmp_path / "out")
    for image, name in zip(awkward.images, flat_names([image.id for image in awkward.images]), strict=True):
        root = parse(tmp_path / "out" / "Annotations" / f"{name}.xml").getroot()
        assert (tmp_path / "out" / "JPEGImages" / root.findtext("filename")).is_file()
        assert root.findtext("source/image") == image.id
        assert [root.findtext(f"size/{key}") for key in ("width", "height", "depth")] == ["30", "20", "3"]
        assert [float(text.text) for text in root.iterfind("object/score")] == [
            pytest.approx(label.score) for label in image.labels
        ]
        for item in root.iterfind("object"):
            assert [item.findtext(key) for key in ("pose", "truncated", "difficult")] == ["Unspecified", "0", "0"]


def test_without_pictures_the_original_is_named(awkward, tmp_path):
    write_voc(awkward, tmp_path / "out", images_as="none")
    assert not any((tmp_path / "out" / "JPEGImages").iterdir())
    assert parse(tmp_path / "out" / "Annotations" / "dog_001.xml").findtext("filename") == "001.jpg"


def test_lists_of_classes(awkward, tmp_path):
    plain = replace(
        awkward,
        classes=("cat", "traffic light", "unseen"),
        split="val",
        images=tuple(
            replace(image, labels=tuple(label._replace(name="traffic light") for label in image.labels))
            for image in awkward.images
        ),
    )
    write_voc(plain, tmp_path / "out")
    lists = tmp_path / "out" / "ImageSets" / "Main"
    assert sorted(path.name for path in lists.iterdir()) == [
        "cat_val.txt",
        "traffic light_val.txt",
        "unseen_val.txt",
        "val.txt",
    ]
    assert (lists / "traffic light_val.txt").read_text().splitlines()[2:4] == ["cat_001  1", "my_photo_'of'_1 -1"]
    assert set((lists / "unseen_val.txt").read_text().split()[1::2]) == {"-1"}
    dataset = open_dataset(tmp_path / "out")
    assert dataset.classes == plain.classes
    assert [set(image.tags) for image in dataset] == [{label.name for label in image.labels} for image in plain.images]


@pytest.mark.parametrize("classes", [("a/b", "c"), ("Cat", "cat")])
def test_classes_that_are_no_file_names_have_no_lists(awkward, tmp_path, classes):
    images = tuple(
        replace(image, labels=tuple(label._replace(name=classes[0]) for label in image.labels))
        for image in awkward.images
    )
    write_voc(replace(awkward, classes=classes, images=images), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out" / "ImageSets" / "Main").iterdir()] == ["trainval.txt"]
    assert open_dataset(tmp_path / "out").classes == classes[:1]


@settings(deadline=None)
@given(data=st.data())
def test_boxes_stay_inside_and_come_back(data, sized_boxes, one_image, tmp_path_factory):
    labelled = one_image(*data.draw(sized_boxes))
    out = tmp_path_factory.mktemp("voc")
    write_voc(labelled, out, images_as="none")
    (width, height), labels = labelled.images[0].size, labelled.images[0].labels
    file = out / "Annotations" / "a.xml"
    for item in parse(file).iterfind("object/bndbox"):
        xmin, ymin, xmax, ymax = (int(item.findtext(key)) for key in ("xmin", "ymin", "xmax", "ymax"))
        assert 1 <= xmin <= xmax <= width
        assert 1 <= ymin <= ymax <= height
    for item, label in zip(read_annotation(file).objects, labels, strict=True):
        np.testing.assert_allclose(item.box, label.box, atol=0.5 + 1e-9)


def test_the_label_map_that_datumaro_asks_for(awkward, tmp_path):
    write_voc(awkward, tmp_path / "out", images_as="none")
    lines = (tmp_path / "out" / "labelmap.txt").read_text(encoding="utf-8").splitlines()
    assert [line.partition(":")[0] for line in lines[1:]] == list(awkward.classes)
    write_voc(replace(awkward, classes=("a:b",), images=awkward.images[3:4]), tmp_path / "other", images_as="none")
    assert not (tmp_path / "other" / "labelmap.txt").exists()
