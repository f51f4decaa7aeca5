import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tag2box.errors import InputError
from tag2box.evaluation.coco_results import _by_column, _by_entry
from tag2box.evaluation.names import Names
from tag2box.evaluation.read import read_detections

GOOD = {"image_id": "000001", "category_id": 1, "bbox": [10, 20, 30, 40], "score": 0.5}


@pytest.fixture
def truth(make_truth):
    return make_truth([], classes=("aeroplane", "dog", "hot_dog"), ids=("000001", "000012", "street.view"))


@pytest.fixture
def write(tmp_path):
    def write_results(content: object, name: str = "results.json") -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write_results


# --- COCO results -------------------------------------------------------------------------------------------


def test_coco_results(truth, write):
    found = read_detections(write([GOOD, {**GOOD, "image_id": "000012", "category_id": 3, "score": 1}]), truth)
    assert found.ids == truth.ids
    assert found.images.tolist() == [0, 1]
    assert found.labels.tolist() == [0, 2]
    assert found.scores.tolist() == [0.5, 1.0]
    assert found.boxes.tolist() == [[10, 20, 40, 60]] * 2


@pytest.mark.parametrize("image_id", ["000012", "000012.jpg", "000012.PNG", 12, "12", "0012"])
def test_an_image_by_name_file_name_or_number(image_id, truth, write):
    assert read_detections(write([{**GOOD, "image_id": image_id}]), truth).images.tolist() == [1]


@pytest.mark.parametrize("image_id", ["street.view", "street.view.jpg"])
def test_a_name_with_a_dot_in_it(image_id, truth, write):
    assert read_detections(write([{**GOOD, "image_id": image_id}]), truth).images.tolist() == [2]


def test_of_two_names_for_a_number_the_one_not_padded(make_truth, write):
    truth = make_truth([], ids=("7", "007", "0007"))
    entries = [{**GOOD, "image_id": name} for name in (7, "7", "007", "0007")]
    assert read_detections(write(entries), truth).images.tolist() == [0, 0, 1, 2]


def test_the_numbers_of_a_coco_file_come_first(truth, write):
    truth = replace(truth, image_numbers={12: "000001", 5: "000012", 9: "not in this split"}, category_numbers={90: 1})
    entries = [{**GOOD, "image_id": number, "category_id": 90} for number in (12, 5, 1)]
    found = read_detections(write(entries), truth)
    assert found.images.tolist() == [0, 1, 0]
    assert found.labels.tolist() == [1, 1, 1]
    with pytest.raises(InputError, match=r"category_id from 90 to 90, as in the COCO file, found 1"):
        read_detections(write([GOOD]), truth)


def test_a_class_by_name_in_all_entries_or_in_some(truth, write):
    named = {"image_id": 1, "category": "dog", "bbox": [0, 0, 1, 1], "score": 0}
    assert read_detections(write([named, named]), truth).labels.tolist() == [1, 1]
    assert read_detections(write([named, GOOD]), truth).labels.tolist() == [1, 0]


def test_nothing_found_is_a_result(truth, write):
    found = read_detections(write([]), truth)
    assert len(found) == 0
    assert found.boxes.shape == (0, 4)


def test_a_box_of_no_size_is_a_box(truth, write):
    assert len(read_detections(write([{**GOOD, "bbox": [1, 1, 0, 0]}]), truth)) == 1


def test_columns_and_entries_read_the_same(truth, random_problem):
    rng = np.random.default_rng(0)
    entries = [
        {"image_id": i, "category_id": c, "bbox": b, "score": s}
        for i, c, b, s in zip(
            rng.choice(["000001", "000012.jpg", "12"], 50).tolist(),
            rng.integers(1, 4, 50).tolist(),
            rng.random((50, 4)).tolist(),
            rng.random(50).tolist(),
            strict=True,
        )
    ]
    names = Names(truth)
    for fast, slow in zip(_by_column(entries, names), _by_entry(entries, names, Path("x")), strict=True):
        np.testing.assert_array_equal(fast, slow)


def without(field: str) -> dict:
    return {key: value for key, value in GOOD.items() if key != field}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {**GOOD, "image_id": "000002"},
            r"entry 2: expected one of the split's 3 images, found image_id '000002'$",
        ),
        ({**GOOD, "image_id": 7}, r"entry 2: .* found image_id 7$"),
        ({**GOOD, "image_id": None}, r"entry 2: .* found image_id None$"),
        ({**GOOD, "image_id": [1]}, r"entry 2: .* found image_id \[1\]$"),
        ({**GOOD, "image_id": True}, r"entry 2: .* found image_id True$"),
        ({**GOOD, "category_id": True}, r"entry 2: expected a category_id from 1 to 3, .* found True$"),
        (
            {**GOOD, "category": "dog"},
            r"entry 2: expected one class, found category 'dog' and category_id 1, which is 'aeroplane'$",
        ),
        ({**GOOD, "category_id": 0}, r"entry 2: expected a category_id from 1 to 3, 1-based in .*, found 0$"),
        ({**GOOD, "category_id": 4}, r"entry 2: .* found 4$"),
        ({**GOOD, "category_id": "dog"}, r"entry 2: .* found 'dog'$"),
        ({**without("category_id"), "category": "dgo"}, r"entry 2: .* 3 classes, found 'dgo'; did you mean 'dog'\?"),
        (without("image_id"), r"entry 2: expected the field image_id, found category_id, bbox, score"),
        (without("category_id"), r"entry 2: expected the field category_id"),
        (without("bbox"), r"entry 2: expected the field bbox"),
        (without("score"), r"entry 2: expected the field score"),
        ({}, r"entry 2: expected the field image_id, found none"),
        ({**GOOD, "bbox": [0, 0, -3, 4]}, r"entry 2: expected a box of some size, found width -3 and height 4"),
        ({**GOOD, "bbox": [0, 0, 3]}, r"entry 2: expected bbox \[x, y, width, height\], found \[0, 0, 3\]"),
        ({**GOOD, "bbox": {"x": 1}}, r"entry 2: expected bbox"),
        ({**GOOD, "bbox": [0, 0, "3", 4]}, r"entry 2: expected a number in bbox, found '3'"),
        ({**GOOD, "bbox": [0, 0, None, 4]}, r"entry 2: expected a number in bbox, found None"),
        ({**GOOD, "bbox": [0, 0, 10**400, 4]}, r"entry 2: expected finite numbers"),
        ({**GOOD, "score": "0.5"}, r"entry 2: expected a number in score, found '0.5'"),
        ({**GOOD, "score": float("nan")}, r"entry 2: expected finite numbers, found score nan"),
        ({**GOOD, "score": float("inf")}, r"entry 2: expected finite numbers, found score inf"),
        (5, r"entry 2: expected an object with image_id, .*, found a number"),
        ([GOOD], r"entry 2: expected an object with .* found a list"),
    ],
)
def test_a_wrong_entry_is_named(entry, message, truth, write):
    with pytest.raises(InputError, match=message) as caught:
        read_detections(write([GOOD, entry, GOOD]), truth)
    assert "\n" not in str(caught.value)
    assert "results.json" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "found an empty file"),
        (" \n", "found an empty file"),
        ('[{"image_id": 1,', "expected JSON, found expecting .* in line 1, column 17$"),
        ("[" * 100_000, "expected JSON"),
        ({"images": [], "annotations": [], "categories": []}, "found a COCO ground truth"),
        ({"results": []}, "expected a JSON list of detections, found an object"),
        ("null", "expected a JSON list of detections, found null"),
    ],
)
def test_a_file_of_something_else(content, message, truth, write):
    with pytest.raises(InputError, match=message):
        read_detections(write(content), truth)


def test_a_file_in_another_encoding(tmp_path, truth):
    (tmp_path / "results.json").write_bytes(b'[\n{"image_id": "caf\xe9"}]')
    with pytest.raises(InputError, match=r"results\.json: expected JSON in UTF-8, found byte 0xe9 in line 2$"):
        read_detections(tmp_path / "results.json", truth)


def test_a_class_by_name_and_number_that_agree(truth, write):
    both = {**GOOD, "category": "dog", "category_id": 2}
    assert read_detections(write([both, both]), truth).labels.tolist() == [1, 1]
    assert read_detections(write([both, GOOD]), truth).labels.tolist() == [1, 0]


def test_a_file_that_names_every_class_may_number_them_as_it_likes(truth, write):
    """What `tag2box predict` writes: the detector's numbers, which a data set with gaps in its own does not have."""
    truth = replace(truth, category_numbers={7: 0, 18: 1, 90: 2})
    dog, hot_dog = ({**GOOD, "category": c, "category_id": n} for c, n in (("dog", 1), ("hot_dog", 7)))
    assert read_detections(write([dog, hot_dog]), truth).labels.tolist() == [1, 2]
    assert _by_entry([dog, hot_dog], Names(truth), Path("x"))[1].tolist() == [1, 2]
    with pytest.raises(InputError, match=r"entry 3: .* category_id 7, which is 'hot_dog' in an earlier entry"):
        read_detections(write([dog, hot_dog, {**dog, "category_id": 7}]), truth)
    with pytest.raises(
        InputError, match=r"entry 1: expected a category_id from 7 to 90, as in the COCO file, found 1$"
    ):
        read_detections(write([dog, hot_dog, GOOD]), truth)  # a number alone is the data set's, and so are all


def test_a_missing_file(truth, write):
    path = write([])
    with pytest.raises(InputError, match=r"did you mean 'results.json'\?"):
        read_detections(path.with_name("result.json"), truth)


# --- VOC results --------------------------------------------------------------------------------------------

LINES = "000001 0.5 11 21 40 60\n000012 0.25 1 1 1 1\n"


def test_voc_results_convert_to_the_same_as_coco(truth, write):
    path = write(LINES, "comp4_det_test_aeroplane.txt")
    write("", "comp4_det_test_hot_dog.txt")
    write("000012 1e-3 1.5 2.5 3.5 4.5", "comp4_det_test_dog.txt")
    for given, labels in ((path, [0, 0]), (path.parent, [0, 0, 1])):
        found = read_detections(given, truth)
        assert found.labels.tolist() == labels
        assert found.boxes[:2].tolist() == [[10, 20, 40, 60], [0, 0, 1, 1]]
    assert found.scores.tolist() == [0.5, 0.25, 0.001]
    assert found.images.tolist() == [0, 1, 1]
    assert found.boxes[2].tolist() == [0.5, 1.5, 3.5, 4.5]


@pytest.mark.parametrize(
    "name", ["comp3_det_val_hot_dog.txt", "comp4_0a-salt_det_my_split_hot_dog.TXT", "det_test_hot_dog.txt"]
)
def test_any_prefix_and_the_longest_class(name, truth, write):
    assert read_detections(write(LINES, name), truth).labels.tolist() == [2, 2]


def test_an_image_name_with_spaces(make_truth, write):
    truth = make_truth([], ids=("my cat 1",))
    assert read_detections(write("my cat 1 0.5 1 1 2 2", "comp4_det_test_cat.txt"), truth).images.tolist() == [0]


def test_windows_line_ends_and_no_last_one(truth, write):
    assert len(read_detections(write(LINES.strip().replace("\n", "\r\n"), "comp4_det_test_dog.txt"), truth)) == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("000012 0.5 1 2 3", "line 3: expected 'image score xmin ymin xmax ymax', found 5 fields"),
        ("000012 0.5 1 2 3 x", "line 3: expected a number, found 'x'"),
        ("000012 nan 1 2 3 4", "line 3: expected finite numbers"),
        ("000012 0.5 10 2 3 4", "line 3: expected a box of some size, found width -6 and height 3"),
        ("000112 0.5 1 2 3 4", r"line 3: .* found image_id '000112'$"),
    ],
)
def test_a_wrong_line_is_named(line, message, truth, write):
    with pytest.raises(InputError, match=message):
        read_detections(write(LINES + line, "comp4_det_test_dog.txt"), truth)


def test_unknown_class_in_a_file_name(truth, write):
    with pytest.raises(InputError, match=r"comp4_det_test_airplane.txt: .* did you mean 'aeroplane'\?"):
        read_detections(write(LINES, "comp4_det_test_airplane.txt"), truth)


def test_two_files_for_a_class(truth, write):
    write(LINES, "comp3_det_test_dog.txt")
    folder = write(LINES, "comp4_det_test_dog.txt").parent
    with pytest.raises(
        InputError, match=r"one file for class dog, found .*comp3_det_test_dog.txt and comp4_det_test_dog"
    ):
        read_detections(folder, truth)


def test_an_empty_folder_or_file(tmp_path, truth, write):
    with pytest.raises(InputError, match=r"expected files named <prefix>_det_<split>_<class>.txt, found none"):
        read_detections(tmp_path, truth)
    with pytest.raises(InputError, match="found an empty file"):
        read_detections(write("\n", "comp4_det_test_dog.txt"), truth)


def test_a_picture_called_txt(tmp_path, truth):
    (tmp_path / "comp4_det_test_dog.txt").write_bytes(b"\xff\xd8\xff\xe0 no text")
    with pytest.raises(InputError, match="expected lines of text"):
        read_detections(tmp_path, truth)
