import numpy as np
import pytest
from PIL import Image

from tag2box.report import sheet as module
from tag2box.report.sheet import CAPTION, GUTTER, TALLEST, WIDTH, Photo, draw_sheet

RED, BLUE = (255, 0, 0), (0, 0, 255)


def photo(size, boxes=(), caption=()):
    return Photo(Image.new("RGB", size, "gray"), boxes, caption)


def draw(tmp_path, photos, columns=6):
    draw_sheet(photos, tmp_path / "sheet.png", columns=columns)
    with Image.open(tmp_path / "sheet.png") as sheet:
        return np.asarray(sheet).astype(int)


def where(sheet, colour):
    """x0, y0, x1, y1 around the pixels of that colour."""
    rows, columns = np.nonzero((np.abs(sheet - colour) < 40).all(axis=2))
    return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


def test_rows_and_columns(tmp_path):
    sheet = draw(tmp_path, [photo((200, 100))] * 7, columns=3)
    height = (WIDTH - 4 * GUTTER) / 3 / 2
    assert height > TALLEST
    assert sheet.shape == (GUTTER + 3 * (TALLEST + CAPTION + GUTTER), WIDTH, 3)
    grey = (np.abs(sheet - 128) < 3).all(axis=2)
    assert [np.count_nonzero(np.diff(grey[y].astype(int)) > 0) for y in (50, 320, 590)] == [3, 3, 1]


def test_pictures_of_one_row_are_of_one_height_and_fill_the_width(tmp_path):
    sheet = draw(tmp_path, [photo(size) for size in ((400, 300), (300, 400), (1000, 500), (500, 500), (640, 480))])
    grey = (np.abs(sheet - 128) < 3).all(axis=2)
    columns = grey.any(axis=0)
    assert GUTTER <= np.argmax(columns) <= GUTTER + 1
    tops = {int(np.argmax(grey[:, x])) for x in np.flatnonzero(columns)}
    heights = {int(grey[:, x].sum()) for x in np.flatnonzero(columns)}
    assert len(tops) == len(heights) == 1
    assert heights == {min(TALLEST, *heights)}


def test_a_box_is_drawn_around_its_object(tmp_path):
    """A picture of half the height of the sheet's row: sides double."""
    sheet = draw(tmp_path, [photo((200, 120), boxes=[((50, 40, 100, 80), "#ff0000")])])
    x0, y0, x1, y1 = where(sheet, RED)
    assert (x0, y0, x1, y1) == pytest.approx((GUTTER + 100, GUTTER + 80, GUTTER + 200, GUTTER + 160), abs=3)
    assert (sheet[y0 + 5 : y1 - 5, x0 + 5 : x1 - 5] == 128).all()  # the object itself stays to be seen


def test_boxes_at_and_over_the_border_are_fine(tmp_path):
    boxes = [((0, 0, 200, 120), "#ff0000"), ((-50, -50, 20, 20), "#0000ff"), ((199, 119, 200, 120), "#0000ff")]
    assert where(draw(tmp_path, [photo((200, 120), boxes)]), BLUE)


def test_a_caption_stands_below_its_picture(tmp_path):
    sheet = draw(tmp_path, [photo((200, 120), caption=[("cat", "#ff0000"), ("dög", "#0000ff")])])
    red, blue = where(sheet, RED), where(sheet, BLUE)
    for box in (red, blue):
        assert GUTTER + TALLEST <= box[1] < box[3] <= GUTTER + TALLEST + CAPTION
    assert red[2] < blue[0]


def test_tags_that_have_no_room_beside_each_other_stand_below_each_other(tmp_path):
    colours = ("#ff0000", "#0000ff", "#00ff00")
    narrow = photo((60, 120), caption=[(f"a rather long {i}", colour) for i, colour in enumerate(colours)])
    sheet = draw(tmp_path, [narrow, photo((120, 120))])
    tops = [where(sheet, colour)[1] for colour in (RED, BLUE, (0, 255, 0))]
    assert np.diff(tops).tolist() == [CAPTION] * 2


def test_what_is_left_out_of_a_caption_is_counted(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(module.ImageDraw.ImageDraw, "text", lambda self, xy, words, **_: written.append(words))
    draw(tmp_path, [photo((60, 120), caption=[(f"a rather long {i}", "#ff0000") for i in range(20)])])
    *shown, rest = written
    assert shown == [f"a rather long {i}" for i in range(len(shown))] != []
    assert rest == f"+{20 - len(shown)}"


@pytest.mark.parametrize("words", ["a class with a name that is longer than its picture is wide", "é", "猫"])
def test_a_caption_stays_below_its_picture(tmp_path, words):
    sheet = draw(tmp_path, [photo((50, 120), caption=[(words, "#ff0000")]), photo((120, 120))])
    below = sheet[GUTTER + TALLEST + 2 : -GUTTER]
    dark = np.flatnonzero((below < 200).any(axis=2).any(axis=0))
    assert dark.max() < GUTTER + TALLEST * 50 / 120 + GUTTER


@pytest.mark.parametrize("size", [(1, 1), (1, 3000), (3000, 1), (3, 2000), (32767, 1), (1, 32767)])
def test_pictures_of_any_shape(tmp_path, size):
    sheet = draw(tmp_path, [photo(size, boxes=[((0, 0, *size), "#ff0000")]), photo((40, 30))])
    assert sheet.shape[1] == WIDTH


def test_no_pictures(tmp_path):
    assert draw(tmp_path, []).shape == (GUTTER, WIDTH, 3)


def test_the_ending_is_the_format(tmp_path):
    draw_sheet([photo((40, 30))], tmp_path / "a.jpg")
    with Image.open(tmp_path / "a.jpg") as sheet:
        assert sheet.format == "JPEG"
    assert [file.name for file in tmp_path.iterdir()] == ["a.jpg"]
