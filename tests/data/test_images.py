import os
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tag2box.data.images import MAX_SIDE, check_images, image_size, read_image, survey
from tag2box.errors import InputError


def photo(width=64, height=48):
    """Smooth colours with some detail, as a camera gives them."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 255 // width, y * 255 // height, (x * y) % 256], axis=-1).astype(np.uint8)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
def test_orientation_is_applied_and_the_size_agrees(tmp_path, orientation, suffix):
    upright = np.zeros((20, 30, 3), dtype=np.uint8)
    upright[:10, :15] = 255  # the white quarter is top left in the picture as seen
    undo = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_90"}
    undo |= {7: "TRANSVERSE", 8: "ROTATE_270"}
    stored = Image.fromarray(upright)
    if orientation > 1:
        stored = stored.transpose(Image.Transpose[undo[orientation]])
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"a.{suffix}"
    stored.save(path, exif=exif)

    seen = read_image(path)

    assert seen.shape == (20, 30, 3)
    assert image_size(path) == (30, 20)
    assert survey([path]) == [(30, 20)]
    np.testing.assert_allclose(seen[2:8, 2:13], 255, atol=30)  # JPEG rings at edges
    np.testing.assert_allclose(seen[12:, 18:], 0, atol=30)  # JPEG rings at edges


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [
        *[(mode, "png") for mode in ("L", "1", "RGBA", "LA")],
        *[(mode, "jpg") for mode in ("CMYK", "YCbCr")],
        *[("RGB", suffix) for suffix in ("ppm", "bmp", "JPG")],
        *[("P", "gif"), ("CMYK", "tif"), ("L", "pgm"), ("RGBA", "webp"), ("I;16", "tif")],
    ],
)
def test_every_mode_reads_as_rgb(tmp_path, mode, suffix):
    path = tmp_path / f"a b é.{suffix}"
    grey = Image.fromarray(photo()).convert("L")
    image = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257) if mode == "I;16" else grey.convert(mode)
    image.save(path)

    seen = read_image(path)

    assert seen.shape == (48, 64, 3)
    assert seen.dtype == np.uint8
    assert check_images([path]) == []
    if mode == "1":
        assert set(np.unique(seen)) == {0, 255}
    else:
        error = np.abs(seen.astype(float) - np.asarray(grey, dtype=float)[..., None])
        assert error.mean() < 4  # CMYK and YCbCr through JPEG are not exact


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_sixteen_bits_are_scaled_not_clipped(tmp_path, suffix):
    values = np.array([[0, 255, 256, 257 * 100, 40000, 65535]], dtype=np.uint16)
    path = tmp_path / f"deep.{suffix}"
    Image.fromarray(values).save(path)

    assert read_image(path)[0, :, 0].tolist() == [0, 0, 1, 100, 156, 255]


def test_big_endian_sixteen_bits(tmp_path):
    path = tmp_path / "deep.tif"
    Image.frombytes("I;16B", (2, 1), b"\x80\x00\xff\xff").save(path)
    assert read_image(path)[0, :, 0].tolist() == [128, 255]


def test_floats_are_stretched_and_nan_is_black(tmp_path):
    path = tmp_path / "height.tiff"
    Image.fromarray(np.array([[-2.0, 0.0, 2.0, np.nan, np.inf]], dtype=np.float32)).save(path)
    assert read_image(path)[0, :, 0].tolist() == [0, 128, 255, 0, 255]


def test_a_flat_float_picture_is_black(tmp_path):
    path = tmp_path / "flat.tiff"
    Image.fromarray(np.full((2, 2), 7.5, dtype=np.float32)).save(path)
    assert not read_image(path).any()


def test_transparency_shows_white(tmp_path):
    rgba = np.zeros((1, 3, 4), dtype=np.uint8)
    rgba[0, :, 3] = [0, 128, 255]  # black under three opacities
    Image.fromarray(rgba).save(tmp_path / "alpha.png")
    assert read_image(tmp_path / "alpha.png")[0, :, 0].tolist() == [255, 127, 0]


def test_transparent_palette_entry_shows_white(tmp_path):
    image = Image.fromarray(np.array([[0, 1]], dtype=np.uint8)).convert("P")
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.save(tmp_path / "p.png", transparency=0)
    assert read_image(tmp_path / "p.png")[0].tolist() == [[255, 255, 255], [40, 50, 60]]


@pytest.mark.parametrize("suffix", ["gif", "webp", "png", "tif"])
def test_animation_gives_its_first_frame(tmp_path, suffix):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "lime")]
    frames[0].save(tmp_path / f"a.{suffix}", save_all=True, append_images=frames[1:])
    red, green, blue = read_image(tmp_path / f"a.{suffix}")[4, 4].tolist()
    assert red > 240
    assert green < 15
    assert blue < 15


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("kept", [0.3, 0.5, 0.9, 0.99])
def test_truncated_jpeg_is_found_although_drafted(tmp_path, progressive, kept):
    Image.fromarray(photo(400, 300)).save(tmp_path / "whole.jpg", progressive=progressive, quality=90)
    data = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(data[: int(len(data) * kept)])

    broken = check_images([tmp_path / "whole.jpg", tmp_path / "cut.jpg"])

    assert [path.name for path, _ in broken] == ["cut.jpg"]
    assert "truncated" in broken[0][1]
    with pytest.raises(InputError, match=r"cut\.jpg.*truncated"):
        read_image(tmp_path / "cut.jpg")


@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # Pillow's, on its way to the error
@given(share=st.floats(0, 1), suffix=st.sampled_from(["jpg", "png", "gif", "tif", "webp", "bmp"]))
@settings(max_examples=100, deadline=None)
def test_what_the_check_passes_can_be_read(tmp_path_factory, share, suffix):
    path = tmp_path_factory.mktemp("cut") / f"a.{suffix}"
    Image.fromarray(photo()).save(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    try:
        read_image(path)
        readable = True
    except InputError:
        readable = False
    assert readable == (check_images([path]) == [])


def test_every_broken_picture_is_found_with_its_reason(tmp_path, save_picture):
    good = [save_picture(tmp_path / f"good{i}.jpg") for i in range(5)]
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "page.png").write_text("<html>404</html>")
    png = save_picture(tmp_path / "whole.png").read_bytes()
    (tmp_path / "half.png").write_bytes(png[: len(png) // 2])
    (tmp_path / "folder.jpg").mkdir()
    names = ["empty.jpg", "page.png", "half.png", "folder.jpg", "gone.jpg"]

    broken = check_images([*good, *(tmp_path / name for name in names)])

    assert [path.name for path, _ in broken] == names
    reasons = [reason for _, reason in broken]
    assert reasons[0] == "empty file"
    assert reasons[1] == "not an image"
    assert "truncated" in reasons[2]
    assert reasons[3] == "is a directory"
    assert reasons[4] == "no such file or directory"


def test_decompression_bomb_is_refused(tmp_path, save_picture, monkeypatch):
    path = save_picture(tmp_path / "bomb.png", size=(200, 100))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5000)
    assert "decompression bomb" in check_images([path])[0][1]
    with pytest.raises(InputError, match="decompression bomb"):
        read_image(path)


def test_sides_have_to_fit_int16(tmp_path):
    Image.new("1", (MAX_SIDE + 1, 1)).save(tmp_path / "long.png")
    Image.new("1", (MAX_SIDE, 1)).save(tmp_path / "fits.png")
    assert check_images([tmp_path / "fits.png"]) == []
    assert "32768 × 1 pixels" in check_images([tmp_path / "long.png"])[0][1]
    with pytest.raises(InputError, match="32767"):
        read_image(tmp_path / "long.png")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_picture_one_may_not_read(tmp_path, save_picture):
    path = save_picture(tmp_path / "private.jpg")
    path.chmod(0)
    assert check_images([path]) == [(path, "permission denied")]


def test_the_bar_is_for_people_who_wait(tmp_path, save_picture, monkeypatch, capsys):
    paths = [save_picture(tmp_path / f"{i}.jpg") for i in range(3)]
    check_images(paths)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("tag2box.progress.PATIENCE_S", -1)
    assert check_images(paths) == []
    assert "checking images" in capsys.readouterr().err


def test_a_large_but_honest_picture_is_fine(tmp_path, save_picture, monkeypatch):
    path = save_picture(tmp_path / "large.png", size=(80, 100))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5000)  # Pillow warns up to twice that, then refuses
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_images([path]) == []
