import json

import pytest

from tag2box.data import folder_of, open_dataset, open_ground_truth
from tag2box.errors import InputError


def instances(**changes):
    document = {
        "images": [
            {"id": 9, "file_name": "b.jpg", "width": 32, "height": 24},
            {"id": 4, "file_name": "a.jpg", "width": 32, "height": 24},
            {"id": 7, "file_name": "c.jpg", "width": 32, "height": 24},
        ],
        "categories": [{"id": 18, "name": "dog"}, {"id": 3, "name": "zebra"}],
        "annotations": [
            {"id": 1, "image_id": 9, "category_id": 18, "bbox": [1, 2, 10, 20], "iscrowd": 0},
            {"id": 2, "image_id": 9, "category_id": 3, "bbox": [0, 0, 32, 24], "iscrowd": 1},
            {"id": 3, "image_id": 4, "category_id": 3, "bbox": [0.5, 0.5, 3.25, 4]},
        ],
    }
    return {**document, **changes}


@pytest.fixture
def make_coco(tmp_path, save_picture):
    def make(file="annotations/instances_train2017.json", pictures="train2017", **changes):
        document = instances(**changes)
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(json.dumps(document))
        for item in document["images"] if pictures is not None else ():
            save_picture(tmp_path / pictures / item["file_name"])
        return tmp_path / file

    return make


def test_tags_and_order(make_coco):
    dataset = open_dataset(make_coco())
    assert dataset.classes == ("zebra", "dog")  # by category number
    assert {image.id: image.tags for image in dataset} == {
        "a": ("zebra",),
        "b": ("dog",),
        "c": (),
    }  # a crowd gives none
    assert dataset.ids == ("a", "b", "c")
    assert dataset[0].size == (32, 24)


def test_ground_truth_without_pictures(make_coco):
    truth = open_ground_truth(make_coco(pictures=None))
    assert truth.ids == ("a", "b", "c")
    assert truth.images.tolist() == [0, 1, 1]
    assert truth.labels.tolist() == [0, 1, 0]
    assert truth.boxes.tolist() == [[0.5, 0.5, 3.75, 4.5], [1, 2, 11, 22], [0, 0, 32, 24]]
    assert truth.crowd.tolist() == [False, False, True]
    assert not truth.difficult.any()
    assert truth.sizes.tolist() == [[32, 24]] * 3
    assert truth.image_numbers == {4: "a", 9: "b", 7: "c"}
    assert truth.category_numbers == {3: 0, 18: 1}


def test_subset_keeps_numbers_right(make_coco):
    part = open_ground_truth(make_coco()).subset(["b", "c"])
    assert part.image_numbers == {9: "b", 7: "c"}
    assert part.category_numbers == {3: 0, 18: 1}
    assert part.images.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("file", "images"),
    [
        ("annotations/instances_train2017.json", "train2017"),
        ("annotations/instances_train2017.json", "images/train2017"),
        ("annotations/instances_train2017.json", "images"),
        ("annotations/instances_train2017.json", ""),
        ("all.json", ""),
        ("all.json", "images"),
        ("instances_val.json", "val"),
        ("_annotations.coco.json", ""),
    ],
)
def test_pictures_are_found_near_by(make_coco, file, images):
    assert len(open_dataset(make_coco(file, images))) == 3


def test_pictures_elsewhere(make_coco, tmp_path):
    file = make_coco(pictures="far/away")
    with pytest.raises(InputError, match=r"expected 'b\.jpg' in a folder near by, found it in none of"):
        open_dataset(file)
    assert len(open_dataset(file, images=tmp_path / "far" / "away")) == 3


def test_folder_with_splits(make_coco, tmp_path):
    make_coco()
    make_coco("annotations/instances_val2017.json", "val2017")
    (tmp_path / "annotations" / "captions_val2017.json").write_text("{}")
    assert open_dataset(tmp_path)[0].path.parent.name == "train2017"
    assert open_dataset(tmp_path, "val2017")[0].path.parent.name == "val2017"
    for opening in (open_dataset, open_ground_truth):
        with pytest.raises(InputError, match=r"no split 'train', only train2017, val2017; did you mean 'train2017'"):
            opening(tmp_path, "train")


def test_folder_with_splits_and_none_to_prefer(make_coco, tmp_path):
    make_coco("annotations/instances_left.json")
    make_coco("annotations/instances_right.json")
    with pytest.raises(InputError, match="choose one of left, right"):
        open_ground_truth(tmp_path)


def test_roboflow_export(make_coco, tmp_path):
    make_coco("train/_annotations.coco.json", "train")
    make_coco("valid/_annotations.coco.json", "valid")
    assert open_dataset(tmp_path)[0].path.parent.name == "train"
    assert open_dataset(tmp_path, "valid")[0].path.parent.name == "valid"
    assert len(open_ground_truth(tmp_path / "valid")) == 3


def test_one_folder_by_either_name(make_coco, tmp_path, monkeypatch):
    file = make_coco()
    assert folder_of(file) == folder_of(tmp_path) == tmp_path
    monkeypatch.chdir(file.parent)
    assert folder_of(file.name) == tmp_path
    assert folder_of(make_coco("lists/mine.json")) == tmp_path / "lists"


def test_one_file_is_one_split(make_coco):
    file = make_coco()
    assert len(open_dataset(file, "train2017")) == 3
    with pytest.raises(InputError, match="is one split, 'train2017', found 'val' asked for"):
        open_dataset(file, "val")


def test_same_name_in_two_folders(make_coco):
    images = [{"id": n, "file_name": f"{f}/1.jpg", "width": 32, "height": 24} for n, f in ((9, "x"), (4, "y"))]
    annotations = [{"id": 1, "image_id": 9, "category_id": 3, "bbox": [0, 0, 5, 5]}]
    file = make_coco(images=images, annotations=annotations)
    assert open_dataset(file).ids == open_ground_truth(file).ids == ("x/1", "y/1")


def test_missing_pictures_are_counted(make_coco, tmp_path):
    file = make_coco()
    (tmp_path / "train2017" / "b.jpg").unlink()
    (tmp_path / "train2017" / "a.jpg").rename(tmp_path / "train2017" / "aa.jpg")
    with pytest.raises(InputError, match=r"names 2 pictures that are not in .*train2017: b\.jpg, a\.jpg"):
        open_dataset(file)


@pytest.mark.parametrize("bbox", [[30, 2, 10, 10], [5, 5, -3, 4], [-9, 0, 10, 10]])
def test_box_outside(make_coco, bbox):
    annotations = [{"id": 77, "image_id": 4, "category_id": 3, "bbox": bbox}]
    with pytest.raises(InputError, match=r"annotation 77: expected a box inside an image of 32 × 24, found"):
        open_ground_truth(make_coco(annotations=annotations))


@pytest.mark.parametrize(
    "bbox", [None, 5, [1, 2, 3], [[1, 2, 3, 4]], [1, 2, "3", 4], [1, 2, None, 4], [1, 2, 10**400, 4]]
)
@pytest.mark.parametrize("others", [0, 1, 4])
def test_a_bbox_that_is_none_is_named(make_coco, bbox, others):
    whole = [{"id": n, "image_id": 9, "category_id": 3, "bbox": [0.5, 1, 2, 3]} for n in range(others)]
    wrong = {"id": 77, "image_id": 4, "category_id": 3, "bbox": bbox}
    with pytest.raises(InputError, match=r"annotation 77: expected a bbox of four numbers, found"):
        open_ground_truth(make_coco(annotations=[*whole, wrong, *whole]))


def test_images_without_annotations_have_no_boxes(make_coco):
    truth = open_ground_truth(make_coco(annotations=[]))
    assert (len(truth.ids), truth.boxes.shape) == (3, (0, 4))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"categories": [{"id": 3, "name": ""}, {"id": 18, "name": "dog"}]}, "expected a name for each category"),
        ({"categories": [{"id": 3, "name": "dog"}, {"id": 18, "name": "dog"}]}, "found some twice"),
        ({"categories": [{"id": 3, "name": "dog"}]}, r"annotation 1: found category_id 18, which no category has"),
        ({"images": [{"id": 1, "file_name": "a.jpg"}]}, "annotation 1: found image_id 9, which no image has"),
        ({"images": [{"id": 1}]}, r"expected 'file_name' \(str\) in every item, found"),
        ({"images": [{"id": 1, "file_name": "a.jpg"}] * 2}, "expected a number of its own"),
        ({"images": [{"id": n, "file_name": "a.jpg"} for n in (4, 9)]}, "expected one name per picture"),
        (
            {"annotations": [{"id": 5, "image_id": 4, "category_id": 3}]},
            "annotation 5: expected a bbox of four numbers",
        ),
        ({"annotations": None}, "expected a COCO instances file with lists"),
    ],
)
def test_documents_that_do_not_fit(make_coco, changes, message):
    with pytest.raises(InputError, match=message):
        open_ground_truth(make_coco(pictures=None, **changes))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"images": [\n{"id": 1,}\n]}', r"expected JSON, found .* in line 2"),
        ("[]", "found no object"),
        ("{}", "of nothing"),
    ],
)
def test_malformed_json(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match=message):
        open_dataset(tmp_path / "a.json")


def test_no_annotations_are_no_tags(make_coco):
    with pytest.raises(InputError, match="expected tags, found 3 images and not one tag"):
        open_dataset(make_coco(annotations=[]))
