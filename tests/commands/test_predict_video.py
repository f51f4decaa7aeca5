import numpy as np
import pytest
from PIL import Image

from tag2box.commands import predict_video as module
from tag2box.commands.predict_video import (
    Every,
    Video,
    is_video_name,
    parse_every,
    probe_video,
    read_frames,
    write_video,
)
from tag2box.errors import InputError


@pytest.fixture
def clip(tmp_path):
    """Twelve frames that grow brighter, red on top."""
    path = tmp_path / "clip.mp4"
    with write_video(path, 6.0) as add:
        for number in range(12):
            pixels = np.full((48, 64, 3), 20 * number, dtype=np.uint8)
            pixels[:16] = (250, 0, 0)
            add(number, Image.fromarray(pixels))
    return path


def test_there_and_back(clip):
    assert probe_video(clip) == Video(rate=6.0, frames=12)
    frames = list(read_frames(clip, 1))
    assert [number for number, _ in frames] == list(range(12))
    assert all(pixels.shape == (48, 64, 3) and pixels.dtype == np.uint8 for _, pixels in frames)
    for number, pixels in frames:
        np.testing.assert_allclose(pixels[24:, :].mean(axis=(0, 1)), 20 * number, atol=12)
        red, green, _ = pixels[4:12, 8:56].mean(axis=(0, 1))
        assert red > 200 > 60 > green
    assert [path.name for path in clip.parent.iterdir()] == ["clip.mp4"]


def test_some_frames(clip):
    assert [number for number, _ in read_frames(clip, 5)] == [0, 5, 10]
    assert [number for number, _ in read_frames(clip, 99)] == [0]


def test_odd_sides(tmp_path):
    with write_video(tmp_path / "odd.mp4", 0.2) as add:
        add(0, Image.new("RGB", (65, 47)))
        add(1, Image.new("RGB", (65, 47)))
    ((_, pixels), _) = read_frames(tmp_path / "odd.mp4", 1)
    assert pixels.shape == (46, 64, 3)


def test_frames_as_pictures_where_nothing_encodes(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CODEC", "????")
    with write_video(tmp_path / "clip.mp4", 5) as add:
        for number in (0, 30):
            add(number, Image.new("RGB", (64, 48), "red"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clip"]
    assert sorted(path.name for path in (tmp_path / "clip").iterdir()) == ["000000.jpg", "000030.jpg"]


def test_a_stopped_video_leaves_nothing(tmp_path):
    def stopped():
        with write_video(tmp_path / "clip.mp4", 5) as add:
            add(0, Image.new("RGB", (64, 48)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"no video at all" * 100])
def test_no_video(content, tmp_path, capfd):
    (tmp_path / "x.mp4").write_bytes(content)
    assert probe_video(tmp_path / "x.mp4") == "not a video that OpenCV can open"
    assert capfd.readouterr().err == ""


def test_a_video_that_was_cut_off(clip):
    whole = clip.read_bytes()
    clip.write_bytes(whole[: len(whole) // 2])
    assert isinstance(probe_video(clip), str)  # an MP4's index is at its end


def test_names():
    assert [is_video_name(name) for name in ("a.mp4", "b.MOV", "c.jpg", "d", "e.gif")] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("words", "every", "step"),
    [
        ("1", Every(1, False), 1),
        ("10", Every(10, False), 10),
        ("2s", Every(2, True), 50),
        ("0.001s", Every(0.001, True), 1),
    ],
)
def test_every(words, every, step):
    assert parse_every(words) == every
    assert every.step(rate=25) == step


@pytest.mark.parametrize("words", ["0", "-1", "1.5", "often", "", "s", "0s", "nans", "infs", "2 frames"])
def test_never(words):
    with pytest.raises(InputError, match=r"every: expected a number of frames \(10\) or seconds \(0\.5s\), found"):
        parse_every(words)
