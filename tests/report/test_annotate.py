import numpy as np
import pytest
from PIL import Image, ImageColor

from tag2box.report import annotate as module
from tag2box.report.annotate import annotate

COLOURS = {"cat": "#e4002b", "dog": "#0072ce"}
RED, BLUE = (ImageColor.getrgb(colour) for colour in COLOURS.values())


def grey(width, height, value=128):
    return np.full((height, width, 3), value, dtype=np.uint8)


def count(picture, colour):
    return int((np.asarray(picture) == colour).all(axis=2).sum())


@pytest.fixture
def labels(monkeypatch):
    """Where labels were put, and what was written."""
    placed = []
    original = module.ImageDraw.ImageDraw.text

    def text(self, xy, words, **more):
        placed.append((words, self.textbbox(xy, words, font=more["font"], anchor=more["anchor"])))
        return original(self, xy, words, **more)

    monkeypatch.setattr(module.ImageDraw.ImageDraw, "text", text)
    return placed


@pytest.mark.parametrize("width", [20, 100, 500, 4000])
def test_lines_and_letters_have_their_share_of_any_picture(width, labels):
    """Whatever the size, the same picture is drawn: shares of the picture, not pixels."""
    height = width * 3 // 4
    box = (0.2 * width, 0.4 * height, 0.8 * width, 0.9 * height)
    picture = annotate(grey(width, height), [("cat", 0.875, box)], COLOURS)
    assert picture.width % width == 0
    assert picture.width >= 400
    words, (x0, y0, x1, y1) = labels[0]
    assert words == "cat 0.88"
    assert 0.08 < (x1 - x0) / picture.width < 0.16
    assert 0.015 < (y1 - y0) / picture.height < 0.05
    column = np.asarray(picture)[:, picture.width // 2]
    lines = (column == RED).all(axis=1).sum() / 2 / picture.height
    assert 0.005 < lines < 0.012


def test_the_line_is_on_the_box_and_the_inside_is_left_alone():
    pixels = grey(600, 400)
    picture = np.asarray(annotate(pixels, [("cat", 0.5, (100, 150, 300, 350))], COLOURS))
    rows, columns = np.nonzero((picture == RED).all(axis=2))
    below = rows > 200  # the label is above
    assert (columns[below].min(), columns[below].max(), rows.max()) == (100, 299, 349)
    assert (picture[170:330, 120:280] == 128).all()
    assert (pixels == 128).all()


def test_no_detections_no_change():
    pixels = np.random.default_rng(0).integers(0, 256, (400, 500, 3), dtype=np.uint8)
    assert (np.asarray(annotate(pixels, [], COLOURS)) == pixels).all()


def test_the_surest_is_on_top():
    boxes = [("cat", 0.9, (100, 100, 300, 300)), ("dog", 0.4, (100, 100, 300, 300))]
    for found in (boxes, boxes[::-1]):
        picture = annotate(grey(500, 400), found, COLOURS)
        assert picture.getpixel((200, 298)) == RED


@pytest.mark.parametrize(
    "box", [(0, 0, 30, 30), (470, 0, 500, 400), (0, 370, 500, 400), (0, 0, 500, 400), (9, 9, 9, 9)]
)
@pytest.mark.parametrize("name", ["cat", "a class with a very long name indeed, longer than any picture is wide " * 3])
def test_labels_stay_on_the_picture(box, name, labels):
    picture = annotate(grey(500, 400), [(name, 0.5, box)], {name: "#e4002b"})
    words, (x0, y0, x1, y1) = labels[0]
    assert 0 <= x0 < x1 <= picture.width
    assert 0 <= y0 < y1 <= picture.height
    assert words.endswith(" 0.50")


def test_labels_do_not_hide_each_other(labels):
    found = [("cat", 0.9 - i / 100, (100 + i, 100 + i, 160 + i, 150 + i)) for i in range(40)]
    annotate(grey(500, 400), found, COLOURS)
    assert 4 <= len(labels) < 40  # where there is no room left, the box stands without words
    boxes = [box for _, box in labels]
    for i, (x0, y0, x1, y1) in enumerate(boxes):
        assert all(a1 <= x0 or x1 <= a0 or b1 <= y0 or y1 <= b0 for a0, b0, a1, b1 in boxes[:i])


def test_a_long_name_takes_no_more_than_its_box_or_a_third_of_the_picture(labels):
    name = "a class with a very long name indeed"
    for width in (60, 300):
        annotate(grey(600, 450), [(name, 0.5, (50, 100, 50 + width, 300))], {name: "#e4002b"})
        words, (x0, _, x1, _) = labels.pop()
        assert "…" in words
        assert words.startswith("a cl")
        assert words.endswith(" 0.50")
        assert 0.75 * max(width, 200) < x1 - x0 <= max(width, 200)
    annotate(grey(600, 450), [("toadstool", 0.5, (50, 100, 90, 300))], {"toadstool": "#e4002b"})
    assert labels[0][0] == "toadstool 0.50"


def test_a_name_that_no_font_has_is_its_number(labels, capsys):
    colours = {"cat": "#e4002b", "\U000f0000": "#0072ce"}
    for _ in range(3):
        annotate(grey(500, 400), [("\U000f0000", 0.5, (10, 100, 90, 190))], colours)
    assert labels[0][0] == "#2 0.50"
    assert capsys.readouterr().err.count("\n") <= 1


@pytest.mark.parametrize("name", ["K", "žába", "птица", "two\nlines", "<b>&amp;"])
def test_any_name(name, labels):
    annotate(grey(500, 400), [(name, 0.5, (10, 10, 90, 90))], {name: "#0072ce"})
    assert labels[0][0] == f"{' '.join(name.split())} 0.50"


@pytest.mark.parametrize("size", [(1, 1), (2, 900), (900, 2), (3000, 20), (20, 3000)])
def test_odd_pictures(size, labels):
    picture = annotate(grey(*size), [("cat", 1.0, (0, 0, *size))], COLOURS)
    assert picture.width / picture.height == pytest.approx(size[0] / size[1])
    assert count(picture, RED) > 0


def test_a_black_and_a_white_ground():
    """The line is told from what is beside it on either."""
    for value in (0, 255):
        picture = annotate(grey(500, 400, value), [("dog", 0.5, (100, 150, 300, 350))], COLOURS)
        assert count(picture, BLUE) > 1000
    assert isinstance(picture, Image.Image)
