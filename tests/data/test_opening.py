from pathlib import Path

import pytest

from tag2box.data import Dataset, open_dataset, open_ground_truth
from tag2box.errors import InputError


@pytest.fixture
def pets(tmp_path, save_picture):
    for name in ("cat/1.jpg", "cat/2.png", "dog/3.jpg", "dog/4.jpg"):
        save_picture(tmp_path / "pets" / name)
    return tmp_path / "pets"


@pytest.fixture
def some_broken(pets):
    (pets / "cat" / "2.png").write_bytes(b"")
    (pets / "dog" / "2 copy.png").write_bytes(b"")  # the same bytes: one record, yet named as well
    (pets / "dog" / "4.jpg").write_bytes((pets / "dog" / "4.jpg").read_bytes()[:-200])
    return pets


def test_every_broken_picture_is_named_on_one_line(some_broken):
    with pytest.raises(InputError) as error:
        open_dataset(some_broken)
    message = str(error.value)
    assert "\n" not in message
    assert "found 3 bad images (--skip-bad-images" in message
    for name in ("2.png", "2 copy.png", "4.jpg"):
        assert name in message
    assert "empty file" in message


def test_bad_images_are_skipped_and_counted(some_broken, capsys):
    assert open_dataset(some_broken, skip_bad_images=True).ids == ("1", "3")
    shown = capsys.readouterr().err
    assert shown.startswith("skipped 3 bad images: ")
    assert shown.count("\n") == 1
    assert str(Path("dog", "4.jpg")) in shown


def test_nothing_left_after_skipping(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.jpg").write_text("no picture")
    with pytest.raises(InputError, match=r"expected images, found only 1 bad image: .*a\.jpg \(not an image\)"):
        open_dataset(tmp_path, skip_bad_images=True)


def test_without_check_only_headers_are_read(some_broken):
    with pytest.raises(InputError, match="2 bad images"):  # the truncated one has a good header
        open_dataset(some_broken, check=False)
    for name in ("cat/2.png", "dog/2 copy.png"):
        (some_broken / name).unlink()
    assert open_dataset(some_broken, check=False).ids == ("1", "3", "4")


def test_path_that_does_not_exist(pets):
    for opening in (open_dataset, open_ground_truth):
        with pytest.raises(InputError, match=r"pest does not exist; did you mean 'pets'"):
            opening(pets.parent / "pest")
    with pytest.raises(InputError, match=r"does not exist \(nor does the folder"):
        open_dataset(pets / "nowhere" / "at all")


def test_a_file_of_another_kind(pets):
    with pytest.raises(InputError, match=r"1\.jpg: expected a folder, a COCO \.json, or a tag file"):
        open_dataset(pets / "cat" / "1.jpg")


def test_image_folder_where_none_is_needed(pets):
    with pytest.raises(InputError, match="has its pictures inside"):
        open_dataset(pets, images=pets)


def test_text_paths_are_fine(pets):
    assert open_dataset(str(pets)) == open_dataset(pets)


def test_a_folder_one_may_not_read(pets, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(InputError, match=r"cannot read .*pets: permission denied"):
        open_dataset(pets)


def test_a_file_one_may_not_read(pets, monkeypatch):
    (pets / "tags.csv").write_text("image,tags\n1,cat\n")

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InputError, match=r"cannot read .*tags\.csv: permission denied"):
        open_dataset(pets)


def test_a_folder_named_like_a_tag_file(pets):
    (pets / "tags.csv").mkdir()
    assert isinstance(open_dataset(pets, warn=lambda message: None), Dataset)


def test_ground_truth_has_the_ids_of_the_data_set(make_devkit):
    box = (1, 1, 9, 9)
    year = make_devkit({"b": [("cat", box)], "a": [("dog", box)], "c": [("cat", box)]})
    truth = open_ground_truth(year)
    assert truth.ids == open_dataset(year).ids == ("b", "a", "c")
    (year / "JPEGImages" / "a.jpg").write_bytes(b"")
    dataset = open_dataset(year, skip_bad_images=True, warn=lambda message: None)
    assert truth.subset(dataset.ids).ids == dataset.ids == ("b", "c")
