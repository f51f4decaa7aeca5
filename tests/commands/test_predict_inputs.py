from pathlib import Path

import pytest

from tag2box.about import write_about
from tag2box.commands.predict_inputs import find_inputs, passed_over, without_bad
from tag2box.errors import InputError


@pytest.fixture
def photos(save_picture, tmp_path, monkeypatch):
    """cat/1.png, cat/2.jpg, dog/1.jpg, notes.txt, and we are in the folder above."""
    for name in ("cat/1.png", "cat/2.jpg", "dog/1.jpg"):
        save_picture(tmp_path / "photos" / name)
    (tmp_path / "photos" / "notes.txt").write_text("no picture")
    monkeypatch.chdir(tmp_path)
    return Path("photos")


def names(*asked):
    return [(one.path.as_posix(), one.id, one.out) for one in find_inputs(asked)]


def test_files(photos):
    assert names("photos/dog/1.jpg") == [("photos/dog/1.jpg", "1", "1.jpg")]
    assert names("photos/cat/2.jpg", "photos/dog/1.jpg") == [
        ("photos/cat/2.jpg", "2", "2.jpg"),
        ("photos/dog/1.jpg", "1", "1.jpg"),
    ]


def test_a_folder_and_equal_names_in_it(photos):
    everything = [
        ("photos/cat/1.png", "cat/1", "cat/1.png"),
        ("photos/cat/2.jpg", "2", "2.jpg"),
        ("photos/dog/1.jpg", "dog/1", "dog/1.jpg"),
    ]
    assert names("photos") == names("photos/") == names("./photos", "photos/cat") == everything


def test_patterns(photos):
    assert [path for path, *_ in names("photos/*/1.*")] == ["photos/cat/1.png", "photos/dog/1.jpg"]
    assert len(names("photos/**/*.jpg")) == 2
    assert len(names("photos/**")) == len(names("photos/*")) == 3  # folders too; the text is passed over
    assert len(names("photos/*", "photos/cat/1.png")) == 3


def test_equal_names_of_far_folders(save_picture, tmp_path):
    paths = [str(save_picture(tmp_path / name)) for name in ("a/x/1.jpg", "b/x/1.jpg", "b/2.jpg")]
    assert [one.out for one in find_inputs(paths)] == ["a/x/1.jpg", "b/x/1.jpg", "2.jpg"]


def test_names_that_differ_by_their_ending_or_by_capitals(save_picture, tmp_path):
    paths = [str(save_picture(tmp_path / name)) for name in ("1.jpg", "1.png", "1.bmp", "u/IMG.jpg", "v/img.jpg")]
    inputs = find_inputs(paths)
    assert [one.id for one in inputs] == ["1.jpg", "1.png", "1.bmp", "IMG", "img"]
    assert [one.out for one in inputs] == ["1.jpg", "1.png", "1-2.png", "IMG.jpg", "img-2.jpg"]


@pytest.mark.parametrize(
    "name", ["[1].jpg", "a b.jpg", 'it\'s "it".jpg', "Ünï©ode – 猫.png", "*.jpg", "x.tar.jpg", "<b>.png"]
)
def test_any_name(name, save_picture, tmp_path):
    path = save_picture(tmp_path / "photos" / name)
    save_picture(tmp_path / "photos" / "other.jpg")
    (found,) = find_inputs([str(path)])
    assert (found.path, found.id, found.out) == (path, path.stem, name)
    assert len(find_inputs([str(tmp_path / "photos")])) == 2


def test_videos_among_pictures(photos):
    for name in ("clip.mp4", "cat/clip.AVI", "cat.mov"):
        (photos / name).write_bytes(b"")
    assert [path for path, *_ in names("photos")] == ["photos/cat/1.png", "photos/cat/2.jpg", "photos/dog/1.jpg"]
    assert names("photos/clip.mp4", "photos/cat/clip.AVI") == [
        ("photos/clip.mp4", "clip", "clip.mp4"),
        ("photos/cat/clip.AVI", "cat/clip", "cat/clip.mp4"),
    ]
    # Frames of cat.mov would be called as the pictures in cat/.
    assert [id for _, id, _ in names("photos/cat.mov", "photos")] == ["cat.mov", "cat/1", "2", "dog/1"]
    assert [one.is_video for one in find_inputs(["photos/clip.mp4", "photos/cat/1.png"])] == [True, False]


def test_what_an_earlier_command_has_written_is_left_out(photos, save_picture):
    for name in ("predictions/cat/1.png", "found/1.png", "photos-coco/images/1.png"):
        save_picture(photos / name)
    assert len(names("photos")) == 6  # anybody's
    for folder, format in (("predictions", "predictions"), ("found", "predictions"), ("photos-coco", "labels")):
        write_about(photos / folder, {"format": f"tag2box {format} 1"})
    assert len(names("photos")) == 3
    assert names("photos/predictions") == [("photos/predictions/cat/1.png", "1", "1.png")]  # asked for by name
    (photos / "found" / "tag2box.json").write_text('{"format": "another"}')
    assert len(names("photos")) == 4


def test_videos_that_were_passed_over(photos):
    for name in ("clip.mp4", "cat/clip.AVI", "predictions/clip.mp4"):
        (photos / name).parent.mkdir(exist_ok=True)
        (photos / name).write_bytes(b"")
    write_about(photos / "predictions", {"format": "tag2box predictions 1"})
    asked = ["photos", "photos/cat", "photos/clip.mp4"]
    assert passed_over(asked, find_inputs(asked)) == [Path("photos/cat/clip.AVI")]
    assert passed_over(asked[2:], find_inputs(asked[2:])) == []


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("photos/cat/3.jpg", r"photos/cat/3\.jpg does not exist"),
        ("fotos", r"fotos does not exist; did you mean 'photos'\?"),
        ("photos/*.webp", r"expected pictures or videos that match photos/\*\.webp, found nothing"),
        ("photos/*.txt", "found 1 other file"),
        ("empty", "empty: expected pictures, found none$"),
        ("films", r"films: expected pictures, found none but 1 video, to be named each: films/clip\.mp4"),
        ("", "expected a picture, found an empty name"),
    ],
)
def test_nothing_there(asked, words, photos):
    Path("empty").mkdir()
    Path("films").mkdir()
    Path("films/clip.mp4").write_bytes(b"")
    with pytest.raises(InputError, match=words):
        find_inputs([asked])


def test_links_in_circles(photos):
    (photos / "cat" / "up").symlink_to("..")
    assert len(names("photos")) == 3


def test_bad_ones_are_all_named(photos):
    Path("photos/cat/2.jpg").write_bytes(b"")
    Path("photos/clip.mp4").write_bytes(b"no video")
    asked = ["photos", "photos/clip.mp4", "photos/notes.txt"]
    words = (
        r"found 3 bad images \(--skip-bad-images goes on without\): photos/cat/2\.jpg \(empty file\), "
        r"photos/notes\.txt \(not an image\), photos/clip\.mp4 \(not a video that OpenCV can open\)"
    )
    with pytest.raises(InputError, match=words):
        without_bad(find_inputs(asked), skip=False)
    good, bad = without_bad(find_inputs(asked), skip=True)
    assert [one.id for one in good] == ["cat/1", "dog/1"]
    assert len(bad) == 3
    with pytest.raises(InputError, match="expected pictures, found only 1 bad image: photos/notes"):
        without_bad(find_inputs(["photos/notes.txt"]), skip=True)
