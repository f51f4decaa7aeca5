import json
from pathlib import Path

import pytest

from tag2box.data.records import Dataset, TaggedImage
from tag2box.errors import InputError
from tag2box.labels import output as output_module
from tag2box.labels.output import FORMATS, Output


def dataset(labelled):
    images = (TaggedImage(image.id, image.path, image.size, ()) for image in labelled.images)
    return Dataset(labelled.classes, tuple(images))


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("format", FORMATS)
def test_written_twice_alike_and_nothing_beside(awkward, tmp_path, format):
    for _ in range(2):
        output = Output(format=format, folder=tmp_path / "deep" / "out", overwrite=True)
        output.require_room(dataset(awkward), tmp_path / "photos")
        main, turned = output.write(awkward, {"score": 0.5, "none": float("nan")})
        assert main.exists()
        assert turned == 2
        about = json.loads((tmp_path / "deep" / "out" / "tag2box.json").read_text())
        assert (about["written_as"], about["score"], about["none"]) == (format, 0.5, None)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_failure_leaves_the_earlier_output(awkward, tmp_path, format, monkeypatch):
    out = tmp_path / "out"
    output = Output(format=format, folder=out, overwrite=True, images_as="copy")
    output.write(awkward, {})
    before = files(out)

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("tag2box.labels.placing.shutil.copyfile", full)
    with pytest.raises(OSError, match="no space"):
        output.write(awkward, {"other": 1})
    assert files(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "photos"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": "yollo"}, "expected --format coco, voc, yolo or label-studio, found 'yollo'; did you mean 'yolo'?"),
        ({"format": "coco", "images_as": "lnik"}, "expected --images-as link, copy or none, found 'lnik'"),
        (
            {"format": "coco", "val_fraction": 0.1},
            "expected --val-fraction with --format yolo only, found it with coco",
        ),
        ({"format": "voc", "seed": 0}, "expected --seed with --format yolo only"),
        ({"format": "yolo", "image_root": "x"}, "expected --image-root with --format label-studio only"),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises(InputError) as refused:
        Output(folder=Path("out"), **options)
    assert words in str(refused.value)


def test_pictures_that_are_elsewhere_are_not_placed():
    assert Output(format="label-studio", folder=Path("out")).placed == "link"
    assert Output(format="label-studio", folder=Path("out"), image_root="https://x").placed == "none"
    assert Output(format="label-studio", folder=Path("out"), image_root="https://x", images_as="copy").placed == "copy"


def test_not_into_the_data_set(awkward, tmp_path):
    for folder in (tmp_path / "photos", tmp_path / "photos" / "labels"):
        with pytest.raises(InputError, match="expected a folder outside the data set"):
            Output(format="coco", folder=folder, overwrite=True).require_room(dataset(awkward), tmp_path / "photos")
    with pytest.raises(InputError, match="expected a folder without pictures of the data set"):
        Output(format="coco", folder=tmp_path, overwrite=True).require_room(dataset(awkward), tmp_path / "annotations")


def test_room_is_asked_for_before_the_work(awkward, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot make the folder"):
        Output(format="coco", folder=tmp_path / "file" / "out").require_room(dataset(awkward), tmp_path / "photos")
    with pytest.raises(InputError, match="images for val"):
        Output(format="yolo", folder=tmp_path / "out", val_fraction=1e-9).require_room(
            dataset(awkward), tmp_path / "photos"
        )
    assert output_module.VAL_FRACTION == 0.2
