"""Outputs read as Ultralytics reads them, by rules written down here from its pages and code, slow and plain."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tag2box.data.splits import in_validation
from tag2box.errors import InputError
from tag2box.labels.naming import flat_names
from tag2box.labels.yolo import split_by_hash, write_yolo

FORMATS = {"bmp", "dng", "jpeg", "jpg", "mpo", "png", "tif", "tiff", "webp", "pfm", "heic"}


def read_yolo(file: Path):
    """The classes, and for each part each picture's rows of class and xywh in shares."""
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert "train" in content
    assert "val" in content
    names = content["names"]
    assert list(names) == list(range(len(names)))
    assert all(type(name) is str for name in names.values())
    root = Path(content.get("path") or file.parent)
    parts = {part: read_part(root / content[part], len(names)) for part in ("train", "val")}
    return names, parts


def read_part(folder: Path, classes: int):
    found = {}
    for path in sorted(folder.glob("**/*.*")):
        if path.name.rpartition(".")[-1].lower() in FORMATS:
            with Image.open(path) as image:
                assert image.format.lower() in FORMATS
            found[path] = read_labels(label_path(path), classes)
    return found


def label_path(path: Path) -> Path:
    """The last folder called images becomes labels, the extension .txt."""
    before, after = str(path).rsplit("/images/", 1)
    return Path(f"{before}/labels/{after}".rsplit(".", 1)[0] + ".txt")


def read_labels(file: Path, classes: int):
    assert file.is_file()
    rows = [[float(word) for word in line.split()] for line in file.read_text(encoding="utf-8").strip().splitlines()]
    for row in rows:
        assert len(row) == 5  # more would be a polygon
        assert all(0 <= value <= 1 for value in row[1:])
        assert row[0] == int(row[0]) < classes
    assert len(set(map(tuple, rows))) == len(rows)  # of equal rows all but one are dropped
    return rows


def corners(row, size):
    _, x, y, width, height = row
    return [
        (x - width / 2) * size[0],
        (y - height / 2) * size[1],
        (x + width / 2) * size[0],
        (y + height / 2) * size[1],
    ]


@pytest.mark.parametrize("images_as", ["link", "copy"])
def test_read_back(awkward, tmp_path, images_as):
    main, turned = write_yolo(awkward, tmp_path / "out", images_as=images_as, val_fraction=0.4, seed=3)
    assert turned == (2 if images_as == "link" else 0)
    names, parts = read_yolo(tmp_path / "out" / main)
    assert list(names.values()) == list(awkward.classes)
    stems = flat_names([image.id for image in awkward.images])
    assert sorted(path.stem for part in parts.values() for path in part) == sorted(stems)
    for image, stem in zip(awkward.images, stems, strict=True):
        part = "val" if in_validation(image.id, 0.4, 3) else "train"
        ((_, rows),) = [(path, rows) for path, rows in parts[part].items() if path.stem == stem]
        assert [names[int(row[0])] for row in rows] == [label.name for label in image.labels]
        for row, label in zip(rows, image.labels, strict=True):
            np.testing.assert_allclose(corners(row, image.size), label.box, atol=1e-4)


@pytest.mark.parametrize("images_as", ["link", "copy"])
def test_boxes_fit_the_pictures_as_they_are_loaded(awkward, tmp_path, images_as):
    """Ultralytics loads with OpenCV, which turns pictures by their EXIF tag, TIFF as they are stored."""
    main, _ = write_yolo(awkward, tmp_path / "out", images_as=images_as, val_fraction=0)
    _, parts = read_yolo(tmp_path / "out" / main)
    assert len(parts["train"]) == len(awkward.images)
    for path, rows in parts["train"].items():
        content = np.fromfile(path, np.uint8)
        if path.suffix == ".tif":
            seen = cv2.imdecodemulti(content, cv2.IMREAD_UNCHANGED)[1][0]
        else:
            seen = cv2.imdecode(content, cv2.IMREAD_COLOR)
        assert seen.shape == (20, 30, 3)
        for x0, y0, x1, y1 in [corners(row, (30, 20)) for row in rows[:1]]:
            assert seen[round(y0) + 2 : round(y1) - 2, round(x0) + 2 : round(x1) - 2].mean() > 225


def test_no_labels_is_an_empty_file(awkward, tmp_path):
    write_yolo(awkward, tmp_path / "out", val_fraction=0)
    assert (tmp_path / "out" / "labels" / "train" / "my_photo_'of'_1.txt").read_bytes() == b""


def test_it_can_be_moved(awkward, tmp_path):
    main, _ = write_yolo(awkward, tmp_path / "out", val_fraction=0)
    (tmp_path / "out").rename(tmp_path / "else where")
    _, parts = read_yolo(tmp_path / "else where" / main)
    assert len(parts["train"]) == len(parts["val"]) == len(awkward.images)


def test_labels_alone(awkward, tmp_path):
    write_yolo(awkward, tmp_path / "out", images_as="none", val_fraction=0)
    assert not any((tmp_path / "out" / "images" / "train").iterdir())
    assert len(list((tmp_path / "out" / "labels" / "train").iterdir())) == len(awkward.images)


def test_the_split_is_the_same_as_everywhere():
    ids = [f"{n:06d}" for n in range(100)]
    assert split_by_hash(ids, 0.3, 7) == ["val" if in_validation(id, 0.3, 7) else "train" for id in ids]


@pytest.mark.parametrize(("fraction", "words"), [(0.0001, "images for val"), (0.9999, "images for train")])
def test_a_part_without_images(fraction, words):
    with pytest.raises(InputError, match=words):
        split_by_hash(["a", "b", "c"], fraction, 0)


def test_no_such_fraction():
    with pytest.raises(InputError, match=r"between 0 and 1, found 1\.5"):
        split_by_hash(["a", "b", "c"], 1.5, 0)


@settings(deadline=None)
@given(data=st.data())
def test_boxes_stay_inside_and_come_back(data, sized_boxes, one_image, tmp_path_factory):
    labelled = one_image(*data.draw(sized_boxes))
    out = tmp_path_factory.mktemp("yolo")
    write_yolo(labelled, out, images_as="none", val_fraction=0)
    image = labelled.images[0]
    for line, label in zip((out / "labels" / "train" / "a.txt").read_text().splitlines(), image.labels, strict=True):
        row = [float(word) for word in line.split()]
        x0, y0, x1, y1 = corners(row, (1, 1))
        assert 0 - 1e-12 <= x0 < x1 <= 1 + 1e-12
        assert 0 - 1e-12 <= y0 < y1 <= 1 + 1e-12
        np.testing.assert_allclose(corners(row, image.size), label.box, atol=0.6e-6 * max(image.size) + 1e-9)
