import json
from pathlib import Path

import pytest

from tag2box.data.records import Dataset, TaggedImage
from tag2box.errors import InputError
from tag2box.known import FORMAT, read_known, write_known

DATASET = Dataset(
    ("cat", "dög"),
    (TaggedImage("a", Path("a.jpg"), (100, 50), ("cat",)), TaggedImage("b", Path("b.jpg"), (10, 10), ("cat", "dög"))),
)


def test_back_as_written(tmp_path):
    known = {
        "a": {"cat": [(0.0, 0.0, 100.0, 50.0), (1.5, 2.0, 3.0, 4.0)]},
        "b": {"cat": [], "dög": [(0.0, 0.0, 1.0, 1.0)]},
    }
    write_known(tmp_path / "boxes.json", known)
    assert read_known(tmp_path / "boxes.json", DATASET) == known


@pytest.mark.parametrize(
    ("images", "words"),
    [
        ({"c": {}}, "expected images of the data set, found c"),
        ({"a": {"cta": []}}, "expected a class of the data set, found 'cta'; did you mean 'cat'?"),
        ({"a": []}, "image a: expected classes with lists of boxes, found list"),
        ({"a": {"cat": 3}}, "expected a list of boxes, found int"),
        ({"a": {"cat": [[1, 2, 3]]}}, "expected a box [x0, y0, x1, y1], found [1, 2, 3]"),
        ({"a": {"cat": [[1, 2, True, 3]]}}, "expected a box"),
        ({"a": {"cat": [[1, 2, float("nan"), 3]]}}, "within the picture's 100 × 50 pixels"),
        ({"a": {"cat": [[1, 2, 101, 3]]}}, "within the picture's 100 × 50 pixels"),
        ({"a": {"cat": [[3, 2, 3, 5]]}}, "within the picture's 100 × 50 pixels"),
    ],
)
def test_refused(tmp_path, images, words):
    file = tmp_path / "boxes.json"
    file.write_text(json.dumps({"format": FORMAT, "images": images}))
    with pytest.raises(InputError, match=r"boxes\.json") as refused:
        read_known(file, DATASET)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "other", "images": {}}', "\x00"])
def test_not_such_a_file(tmp_path, text):
    file = tmp_path / "boxes.json"
    file.write_text(text)
    with pytest.raises(InputError, match=r"boxes\.json"):
        read_known(file, DATASET)
