from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from tag2box.data.images import read_image
from tag2box.labels.placing import place_all


def untagged(path) -> np.ndarray:
    """The pixels as stored, as a tool sees them that knows nothing of EXIF."""
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    return cv2.imdecode(np.fromfile(path, np.uint8), flags)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
def test_a_copy_needs_no_turning(tmp_path, save_turned, orientation, suffix):
    original, copy = save_turned(tmp_path / f"a.{suffix}", orientation), tmp_path / "out" / f"b.{suffix}"
    assert place_all([(original, copy)], "copy") == 0
    for seen in (read_image(copy), untagged(copy)):
        assert seen.shape == (20, 30, 3)
        np.testing.assert_allclose(seen[2:8, 2:13], 255, atol=30)
        np.testing.assert_allclose(seen[12:, 18:], 0, atol=30)
    with Image.open(copy) as image:
        assert image.getexif().get(0x0112, 1) == 1


def test_a_copy_of_an_upright_picture_is_the_file_itself(tmp_path, save_picture):
    original = save_picture(tmp_path / "a.jpg")
    place_all([(original, tmp_path / "b.jpg")], "copy")
    assert (tmp_path / "b.jpg").read_bytes() == original.read_bytes()
    assert not (tmp_path / "b.jpg").is_symlink()


@pytest.mark.parametrize("suffix", ["png", "tif", "webp"])
def test_what_only_some_tools_turn_is_not_linked(tmp_path, save_turned, suffix):
    original, place = save_turned(tmp_path / f"a.{suffix}", 6), tmp_path / f"b.{suffix}"
    assert place_all([(original, place)], "link") == 0
    assert not place.is_symlink()
    assert untagged(place).shape == (20, 30, 3)


def test_links_and_how_many_of_them_want_turning(tmp_path, save_turned, save_picture):
    originals = [save_turned(tmp_path / "a.jpg", 6), save_picture(tmp_path / "b.jpg"), save_picture(tmp_path / "c.png")]
    places = [tmp_path / "out" / path.name for path in originals]
    assert place_all(zip(originals, places, strict=True), "link") == 1
    assert all(
        place.is_symlink() and place.samefile(original) for place, original in zip(places, originals, strict=True)
    )


def test_a_link_leads_there_from_anywhere(tmp_path, save_picture, monkeypatch):
    save_picture(tmp_path / "photos" / "a.jpg")
    monkeypatch.chdir(tmp_path / "photos")
    place_all([(Path("a.jpg"), tmp_path / "out" / "a.jpg")], "link")
    (tmp_path / "out").rename(tmp_path / "photos" / "moved")
    assert read_image(tmp_path / "photos" / "moved" / "a.jpg").shape == (24, 32, 3)


def test_none(tmp_path, save_picture):
    assert place_all([(save_picture(tmp_path / "a.jpg"), tmp_path / "out" / "a.jpg")], "none") == 0
    assert not (tmp_path / "out").exists()


def test_a_jpeg_with_more_after_its_end_is_not_linked(tmp_path, save_picture):
    """Ultralytics would write it anew, and through a link that is the user's own picture."""
    original = save_picture(tmp_path / "a.jpg")
    original.write_bytes(original.read_bytes() + b"camera's notes")
    place_all([(original, tmp_path / "b.jpg")], "link")
    assert not (tmp_path / "b.jpg").is_symlink()
    assert (tmp_path / "b.jpg").read_bytes() == original.read_bytes()


@pytest.mark.parametrize("how", ["link", "copy"])
def test_another_extension_is_a_png(tmp_path, save_picture, how):
    original = save_picture(tmp_path / "a.gif", mode="P")
    place_all([(original, tmp_path / "b.png")], how)
    with Image.open(tmp_path / "b.png") as image:
        assert image.format == "PNG"
    np.testing.assert_array_equal(read_image(tmp_path / "b.png"), read_image(original))


def test_colours_stay_what_they_are(tmp_path, save_turned):
    profile = b"not really a profile, but kept"
    original = save_turned(tmp_path / "a.jpg", 6, icc_profile=profile)
    place_all([(original, tmp_path / "b.jpg")], "copy")
    with Image.open(tmp_path / "b.jpg") as image:
        assert image.info["icc_profile"] == profile


def test_where_links_are_refused(tmp_path, save_picture, monkeypatch):
    def refuse(*_, **__):
        raise OSError("a privilege is not held")

    original = save_picture(tmp_path / "a.jpg")
    monkeypatch.setattr(Path, "symlink_to", refuse)
    place_all([(original, tmp_path / "b.jpg")], "link")
    assert (tmp_path / "b.jpg").stat().st_ino == original.stat().st_ino
    monkeypatch.setattr(Path, "hardlink_to", refuse)
    place_all([(original, tmp_path / "c.jpg")], "link")
    assert (tmp_path / "c.jpg").read_bytes() == original.read_bytes()
