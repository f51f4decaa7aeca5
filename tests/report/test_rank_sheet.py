import numpy as np
import pytest
from PIL import Image, ImageDraw

from tag2box.report.rank_sheet import Shown, draw_ranking

COLOURS = {"cat": "#ff0000", "dog": "#0000ff"}


def near(sheet, colour, bound=60) -> int:
    """How many pixels have about that colour."""
    return int((np.abs(np.asarray(sheet, dtype=int) - colour).sum(axis=2) < bound).sum())


@pytest.mark.parametrize("size", [(320, 240), (4000, 300), (30, 400), (9, 9)])
def test_both_nets_are_on_it(tmp_path, size):
    """At any size: the detector's box as a line of its colour, the samples' as a haze."""
    Image.new("RGB", size, "white").save(tmp_path / "a.png")
    width, height = size
    left, right = (0.0, 0.0, width / 2, height), (width / 2, 0.0, width, height)
    plain = Shown(tmp_path / "a.png", [], [], [("1", None)])
    both = Shown(tmp_path / "a.png", [("cat", left)], [[("dog", right)]] * 3, [("1", None), ("cat 0.50", "cat")])
    sheets = []
    for name, one in (("plain", plain), ("both", both)):
        draw_ranking([one], tmp_path / f"{name}.png", COLOURS)
        sheets.append(Image.open(tmp_path / f"{name}.png").convert("RGB"))
    assert near(sheets[1], (255, 0, 0)) > near(sheets[0], (255, 0, 0)) == 0
    assert near(sheets[1], (0, 0, 255), 200) > near(sheets[0], (0, 0, 255), 200)


def test_every_tag_is_named_and_the_most_doubtful_one_stands_out(tmp_path, monkeypatch):
    """In a narrow picture too: the caption then has more lines. Its head is the rank and the picture's name."""
    written, original = [], ImageDraw.ImageDraw.text

    def text(self, xy, words, **more):
        written.append(words)
        original(self, xy, words, **more)

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", text)
    Image.new("RGB", (30, 60), "white").save(tmp_path / "000324.png")
    colours = {"cat": "#ff0000", "dog": "#0000ff", "\U000f0000": "#00ff00"}
    words = [("7", None), *((f"{name} 0.50", name) for name in reversed(colours))]
    draw_ranking([Shown(tmp_path / "000324.png", [], [], words)], tmp_path / "a.png", colours)
    assert written == ["7: 000324", "#3 0.50", "dog 0.50", "cat 0.50"]
    sheet = np.asarray(Image.open(tmp_path / "a.png").convert("RGB"), dtype=int)
    filled = [near(sheet, colour) for colour in ((0, 255, 0), (0, 0, 255), (255, 0, 0))]
    assert filled[0] > 5 * max(filled[1:]) > 0


def test_the_picture_is_seen_under_samples_that_take_all_of_it(tmp_path):
    Image.new("RGB", (320, 240), "white").save(tmp_path / "a.png")
    whole = [[("cat", (0.0, 0.0, 320.0, 240.0))]] * 5
    draw_ranking([Shown(tmp_path / "a.png", [], whole, [("1", None)])], tmp_path / "b.png", COLOURS)
    middle = np.asarray(Image.open(tmp_path / "b.png").convert("RGB"), dtype=int)[100:120, 100:120]
    assert 4 < 255 - middle[..., 1].mean() < 30


def test_as_many_as_there_are_in_the_format_of_the_ending(tmp_path):
    Image.new("RGB", (60, 40), "grey").save(tmp_path / "a.png")
    shown = Shown(tmp_path / "a.png", [], [], [])
    for count in (1, 5, 12):
        draw_ranking([shown] * count, tmp_path / f"{count}.jpg", {})
        assert Image.open(tmp_path / f"{count}.jpg").format == "JPEG"
    heights = [Image.open(tmp_path / f"{count}.jpg").height for count in (1, 5, 12)]
    assert max(heights[:2]) < heights[2]
