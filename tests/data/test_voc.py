import shutil

import numpy as np
import pytest

from tag2box.data import open_dataset, open_ground_truth
from tag2box.errors import InputError

PETS = {
    "000012": [("cat", (1, 1, 50, 40)), ("dog", (20, 30, 100, 80), True)],
    "000003": [("dog", (5.5, 6, 70.25, 80)), ("cat", (3, 3, 9, 9), True), ("cat", (10, 10, 30, 30))],
    "000007": [],
}


def tags_of(dataset):
    return {image.id: image.tags for image in dataset}


def test_tags_come_from_class_lists_in_the_order_of_the_split(make_devkit):
    year = make_devkit(PETS)
    dataset = open_dataset(year.parent)
    assert dataset.classes == ("cat", "dog")
    assert dataset.ids == ("000012", "000003", "000007")
    assert tags_of(dataset) == {"000012": ("cat",), "000003": ("cat", "dog"), "000007": ()}
    assert dataset[0].path == year / "JPEGImages" / "000012.jpg"
    assert dataset[0].size == (100, 80)


def test_annotations_are_not_needed_for_tags(make_devkit):
    year = make_devkit(PETS)
    with_them = open_dataset(year)
    shutil.rmtree(year / "Annotations")
    assert open_dataset(year) == with_them
    assert open_ground_truth(year) is None


def test_ground_truth_to_the_letter(make_devkit):
    truth = open_ground_truth(make_devkit(PETS, pictures=False))
    assert truth.classes == ("cat", "dog")
    assert truth.ids == ("000012", "000003", "000007")
    assert truth.images.tolist() == [0, 0, 1, 1, 1]
    assert truth.labels.tolist() == [0, 1, 1, 0, 0]
    assert truth.boxes[:3].tolist() == [[0, 0, 50, 40], [19, 29, 100, 80], [4.5, 5, 70.25, 80]]
    assert truth.difficult.tolist() == [False, True, False, True, False]
    assert not truth.crowd.any()
    assert truth.sizes.tolist() == [[100, 80]] * 3
    assert truth.image_numbers is None


def test_home_made_devkit_without_class_lists(make_devkit):
    splits = {"train": ["000012", "000007"], "test": ["000003"]}
    fish = {**PETS, "000003": [("fish", (1, 1, 9, 9), True), ("dog", (1, 1, 9, 9))]}
    year = make_devkit(fish, splits, class_lists=False)
    train, test = open_dataset(year), open_dataset(year, "test")
    assert train.classes == test.classes == ("cat", "dog", "fish")  # of all splits, so that numbers agree
    assert tags_of(train) == {"000012": ("cat",), "000007": ()}
    assert tags_of(test) == {"000003": ("dog",)}  # the fish is difficult
    assert open_ground_truth(year, "test").classes == train.classes


def test_annotations_of_other_splits_may_be_missing(make_devkit):
    year = make_devkit(PETS, {"train": ["000012", "000007"], "test": ["000003"]}, class_lists=False)
    (year / "Annotations" / "000003.xml").unlink()
    assert open_dataset(year, "train").classes == ("cat", "dog")
    with pytest.raises(InputError, match=r"Annotations: expected an XML file for each image, found none for 000003"):
        open_dataset(year, "test")


def test_split_without_class_lists_beside_one_with(make_devkit):
    year = make_devkit(PETS, {"trainval": ["000012", "000003"], "mine": ["000007", "000003"]})
    for name in ("cat", "dog"):
        (year / "ImageSets" / "Main" / f"{name}_mine.txt").unlink()
    assert tags_of(open_dataset(year, "mine")) == {"000007": (), "000003": ("cat", "dog")}


def test_the_class_train_and_underscores(make_devkit):
    box = (1, 1, 9, 9)
    objects = {"a": [("train", box)], "b": [("big_cat", box), ("cat", box)], "c": [("cat", box)]}
    year = make_devkit(objects, {"train": ["a"], "val": ["b", "c"], "trainval": ["a", "b", "c"]})
    main = year / "ImageSets" / "Main"
    (main / "small_val.txt").write_text("c\n")  # a split of one's own, not the class "small"
    (main / "cat_small_val.txt").write_text("c   1\n")
    assert open_dataset(year).classes == ("big_cat", "cat", "train")
    assert tags_of(open_dataset(year, "trainval")) == {"a": ("train",), "b": ("big_cat", "cat"), "c": ("cat",)}
    assert tags_of(open_dataset(year, "val")) == {"b": ("big_cat", "cat"), "c": ("cat",)}
    assert tags_of(open_dataset(year, "small_val")) == {"c": ("cat",)}
    with pytest.raises(InputError, match="only small_val, train, trainval, val"):
        open_dataset(year, "none")


def test_splits_come_from_lists_alone(make_devkit, save_picture):
    year = make_devkit(PETS, {"train": ["000012"], "val": ["000003"]})
    save_picture(year / "JPEGImages" / "2007_test.jpg")
    assert open_dataset(year).ids == ("000012",)  # train, where there is no trainval
    assert open_dataset(year, "val").ids == ("000003",)


def test_windows_line_ends_wide_blanks_and_other_extensions(make_devkit):
    year = make_devkit(PETS)
    main = year / "ImageSets" / "Main"
    (main / "trainval.txt").write_bytes(b"000012\r\n000003 \r\n\r\n")
    (main / "cat_trainval.txt").write_bytes(b"000012   1\r\n000003\t-1\r\n")
    (year / "JPEGImages" / "000012.jpg").rename(year / "JPEGImages" / "000012.JPEG")
    assert tags_of(open_dataset(year)) == {"000012": ("cat",), "000003": ("dog",)}


def test_parts_of_people_are_no_objects(make_devkit):
    year = make_devkit({"a": [("person", (1, 1, 50, 60))]})
    xml = year / "Annotations" / "a.xml"
    part = "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></part>"
    text = xml.read_text().replace("<difficult>0</difficult>", "").replace("</object>", f"{part}</object>")
    xml.write_text(text)
    truth = open_ground_truth(year)
    assert truth.boxes.tolist() == [[0, 0, 50, 60]]
    assert truth.difficult.tolist() == [False]


def test_a_split_without_objects(make_devkit):
    truth = open_ground_truth(make_devkit(PETS, {"train": ["000012"], "test": ["000007"]}), "test")
    assert len(truth) == 0
    assert truth.boxes.shape == (0, 4)
    assert truth.ids == ("000007",)


def test_size_that_the_file_does_not_tell(make_devkit):
    truth = open_ground_truth(make_devkit({"a": [("cat", (1, 1, 5000, 40))]}, size=(0, 0), pictures=False))
    assert truth.sizes is None
    assert truth.boxes.tolist() == [[0, 0, 5000, 40]]


def test_a_pixel_outside_is_rounding_and_stays_unclipped(make_devkit):
    truth = open_ground_truth(make_devkit({"a": [("cat", (0, 0, 101, 82))]}))
    assert truth.boxes.tolist() == [[-1, -1, 101, 82]]


@pytest.mark.parametrize("box", [(1, 1, 103, 40), (-5, 1, 10, 10), (50, 1, 20, 40), (1, 1, 10, float("nan"))])
def test_box_outside_the_image(make_devkit, box):
    year = make_devkit({"a": [("cat", (1, 1, 9, 9))], "b": [("cat", box)]})
    with pytest.raises(InputError, match=r"b\.xml: expected a box inside an image of 100 × 80, found .*= \("):
        open_ground_truth(year)


def test_several_years_are_named(make_devkit):
    make_devkit(PETS)
    year = make_devkit(PETS, folder="VOCdevkit/VOC2012")
    with pytest.raises(InputError, match=r"several devkits, choose one of .*VOC2007, .*VOC2012"):
        open_dataset(year.parent)
    assert len(open_dataset(year)) == 3


def test_unknown_split_is_suggested(make_devkit):
    year = make_devkit(PETS, {"trainval": ["000012"], "test": ["000003"]})
    for opening in (open_dataset, open_ground_truth):
        with pytest.raises(InputError, match=r"no split 'trainvall', only test, trainval; did you mean 'trainval'"):
            opening(year, "trainvall")


def test_several_splits_and_none_to_prefer(make_devkit):
    year = make_devkit(PETS, {"left": ["000012"], "right": ["000003"]})
    with pytest.raises(InputError, match="several splits, choose one of left, right"):
        open_dataset(year)


def test_no_lists_at_all(make_devkit):
    year = make_devkit(PETS)
    for file in (year / "ImageSets" / "Main").iterdir():
        file.unlink()
    with pytest.raises(InputError, match="expected a list of images per split"):
        open_dataset(year)


def test_class_without_a_name(make_devkit):
    year = make_devkit(PETS)
    (year / "ImageSets" / "Main" / "_trainval.txt").write_text("000012 1\n")
    with pytest.raises(InputError, match=r"_trainval\.txt: expected the name of a class"):
        open_dataset(year)


def test_class_list_with_a_line_that_does_not_fit(make_devkit):
    year = make_devkit(PETS)
    (year / "ImageSets" / "Main" / "cat_trainval.txt").write_text("000012 1\n000003 yes\n")
    with pytest.raises(
        InputError, match=r"cat_trainval\.txt: expected an image and 1, 0 or -1 in each line, found '000003 yes'"
    ):
        open_dataset(year)


def test_object_of_no_class(make_devkit):
    year = make_devkit(PETS)
    xml = year / "Annotations" / "000003.xml"
    xml.write_text(xml.read_text().replace("dog", "dogg"))
    with pytest.raises(InputError, match=r"000003\.xml: found an object 'dogg'.*did you mean 'dog'"):
        open_ground_truth(year)


def test_list_naming_missing_pictures(make_devkit):
    year = make_devkit(PETS)
    (year / "JPEGImages" / "000003.jpg").rename(year / "JPEGImages" / "00003.jpg")
    with pytest.raises(
        InputError, match=r"trainval\.txt names 1 picture that is not in .*: 000003; did you mean '00003'"
    ):
        open_dataset(year)


def test_malformed_xml_names_file_and_line(make_devkit):
    year = make_devkit(PETS)
    (year / "Annotations" / "000012.xml").write_text("<annotation>\n<object>\n</annotation>")
    with pytest.raises(InputError, match=r"000012\.xml: expected well-formed XML.*line 3"):
        open_ground_truth(year)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<name>dog</name>", "<name> </name>", "expected a name in each object"),
        ("<xmin>5.5</xmin>", "<xmin>five</xmin>", "expected a number as xmin of the object 'dog', found 'five'"),
        ("<xmin>5.5</xmin>", "", "expected a number as xmin of the object 'dog', found None"),
    ],
)
def test_annotation_with_something_missing(make_devkit, old, new, message):
    year = make_devkit(PETS)
    xml = year / "Annotations" / "000003.xml"
    xml.write_text(xml.read_text().replace(old, new))
    with pytest.raises(InputError, match=rf"000003\.xml: {message}"):
        open_ground_truth(year)


LAUGHS = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><annotation>&c;</annotation>'
OUTSIDE = (
    '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]><annotation><object><name>&b;</name></object></annotation>'
)


@pytest.mark.parametrize("text", [LAUGHS, OUTSIDE])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entity_tricks_are_refused(make_devkit, text, encoding):
    year = make_devkit(PETS)
    (year / "Annotations" / "000012.xml").write_text(text, encoding=encoding)
    with pytest.raises(InputError, match=r"000012\.xml: expected a plain annotation, found XML entities"):
        open_ground_truth(year)


def test_subset_keeps_the_objects_of_its_images(make_devkit):
    truth = open_ground_truth(make_devkit(PETS))
    part = truth.subset(["000003", "000007"])
    assert part.ids == ("000003", "000007")
    assert part.images.tolist() == [0, 0, 0]
    np.testing.assert_array_equal(part.boxes, truth.boxes[2:])
    assert part.sizes.shape == (2, 2)
