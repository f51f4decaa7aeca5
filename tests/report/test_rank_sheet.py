import numpy as np
import pytest
from PIL import Image

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


def test_as_many_as_there_are_in_the_format_of_the_ending(tmp_path):
    Image.new("RGB", (60, 40), "grey").save(tmp_path / "a.png")
    shown = Shown(tmp_path / "a.png", [], [], [])
    for count in (1, 5, 12):
        draw_ranking([shown] * count, tmp_path / f"{count}.jpg", {})
        assert Image.open(tmp_path / f"{count}.jpg").format == "JPEG"
    heights = [Image.open(tmp_path / f"{count}.jpg").height for count in (1, 5, 12)]
    assert max(heights[:2]) < heights[2]
