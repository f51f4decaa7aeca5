import shutil
from pathlib import Path

import pytest
from PIL import Image

from tag2box.data import open_dataset, open_ground_truth
from tag2box.errors import InputError


@pytest.fixture
def pets(tmp_path, save_picture):
    for name in ("cat/001.jpg", "cat/outside/tom.JPG", "dog/001.jpg", "hot dog/été 1.png"):
        save_picture(tmp_path / name)
    return tmp_path


def tags_of(dataset):
    return {image.id: image.tags for image in dataset}


def test_a_folder_per_class(pets):
    dataset = open_dataset(pets)
    assert dataset.classes == ("cat", "dog", "hot dog")
    assert tags_of(dataset) == {"cat/001": ("cat",), "dog/001": ("dog",), "tom": ("cat",), "été 1": ("hot dog",)}
    assert list(dataset.ids) == sorted(dataset.ids)
    assert open_ground_truth(pets) is None


def test_the_same_picture_in_two_folders_carries_both_tags(pets):
    shutil.copy(pets / "cat" / "001.jpg", pets / "dog" / "also.jpg")
    dataset = open_dataset(pets)
    assert tags_of(dataset)["cat/001"] == ("cat", "dog")
    assert len(dataset) == 4


def test_files_of_equal_size_but_other_bytes_stay_apart(tmp_path):
    for name, colour in (("cat", "red"), ("dog", "blue")):
        (tmp_path / name).mkdir()
        Image.new("RGB", (9, 9), colour).save(tmp_path / name / f"{name}.bmp")
    assert tags_of(open_dataset(tmp_path)) == {"cat": ("cat",), "dog": ("dog",)}


def test_links_that_lead_nowhere_are_bad_images_among_others(pets, capsys):
    for name in ("cat/gone.jpg", "dog/gone.jpg", "dog/lost.png"):
        (pets / name).symlink_to(pets / "nowhere")
    (pets / "cat" / "empty.jpg").touch()
    with pytest.raises(InputError, match="found 4 bad images") as error:
        open_dataset(pets)
    for name in ("cat/gone.jpg", "dog/gone.jpg", "dog/lost.png"):
        assert f"{name} (no such file or directory)" in str(error.value)
    assert "empty.jpg (empty file)" in str(error.value)
    assert len(open_dataset(pets, skip_bad_images=True)) == 4
    assert capsys.readouterr().err.startswith("skipped 4 bad images")


def test_a_picture_that_cannot_be_read_beside_one_of_its_size(pets, monkeypatch):
    shutil.copy(pets / "cat" / "001.jpg", pets / "dog" / "secret.jpg")
    open_file = Path.open

    def refuse(path, *options):
        if path.name == "secret.jpg":
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(path, *options)

    monkeypatch.setattr(Path, "open", refuse)  # while comparing; the pictures themselves are read otherwise
    assert "secret" in open_dataset(pets).ids


def test_litter_is_ignored(pets, save_picture):
    save_picture(pets / ".tag2box" / "x.jpg")
    save_picture(pets / "__MACOSX" / "cat" / "001.jpg")
    for name in (".DS_Store", "Thumbs.db", "._001.jpg"):
        (pets / "cat" / name).write_bytes(b"junk")
    messages = []
    assert len(open_dataset(pets, warn=messages.append)) == 4
    assert messages == []


def test_links_are_followed_but_not_in_circles(pets, tmp_path_factory, save_picture):
    fish = save_picture(tmp_path_factory.mktemp("fish") / "nemo.jpg").parent
    (pets / "fish").symlink_to(fish)
    (pets / "cat" / "loop").symlink_to(pets)
    assert open_dataset(pets).classes == ("cat", "dog", "fish", "hot dog")
    assert len(open_dataset(pets)) == 5


def test_what_is_left_out_is_told(pets, save_picture):
    save_picture(pets / "loose.jpg")
    (pets / "notes").mkdir()
    messages = []
    dataset = open_dataset(pets, warn=messages.append)
    assert dataset.classes == ("cat", "dog", "hot dog")
    assert "ignored 1 picture in no class folder" in messages[0]
    assert "loose.jpg" in messages[0]
    assert "without pictures: notes" in messages[1]


def test_splits_as_folders(tmp_path, save_picture):
    for name in ("train/cat/1.jpg", "train/dog/2.jpg", "val/cat/1.jpg", "test/fish/3.jpg"):
        save_picture(tmp_path / name)
    train = open_dataset(tmp_path)
    assert train.ids == ("1", "2")
    assert train.classes == open_dataset(tmp_path, "val").classes == ("cat", "dog", "fish")
    assert tags_of(open_dataset(tmp_path, "test")) == {"3": ("fish",)}
    with pytest.raises(InputError, match="no split 'vall', only test, train, val; did you mean 'val'"):
        open_dataset(tmp_path, "vall")


def test_a_split_of_any_name_when_asked_for(tmp_path, save_picture):
    for name in ("spring/cat/1.jpg", "autumn/dog/2.jpg"):
        save_picture(tmp_path / name)
    assert open_dataset(tmp_path).classes == ("autumn", "spring")  # nobody said that these are splits
    spring = open_dataset(tmp_path, "spring")
    assert spring.classes == ("cat", "dog")
    assert tags_of(spring) == {"1": ("cat",)}


def test_splits_without_classes_inside(tmp_path, save_picture):
    save_picture(tmp_path / "train" / "1.jpg")
    save_picture(tmp_path / "test" / "2.jpg")
    with pytest.raises(InputError, match="expected a folder per class inside test, train, found none"):
        open_dataset(tmp_path)


def test_split_asked_of_plain_class_folders(pets):
    with pytest.raises(InputError, match=r"has no split 'doge'.*found cat, dog, hot dog; did you mean 'dog'"):
        open_dataset(pets, "doge")


def test_no_images(tmp_path):
    with pytest.raises(InputError, match="found no images: the folder is empty"):
        open_dataset(tmp_path)
    (tmp_path / "report.pdf").touch()
    with pytest.raises(InputError, match=r"expected a folder per class.*found no images, only report\.pdf"):
        open_dataset(tmp_path)


def test_pictures_without_tags(tmp_path, save_picture):
    save_picture(tmp_path / "a.jpg")
    with pytest.raises(InputError, match=r"expected .*tags\.csv.*found 1 pictures without tags"):
        open_dataset(tmp_path)
