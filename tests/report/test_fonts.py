"""What is written on pictures can be read, whatever alphabets this machine has fonts for."""

from pathlib import Path

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen

from tag2box.report import fonts
from tag2box.report.fonts import font_for, readable, written

NOWHERE = "\U000f0000"
"""For private use: in no font."""
CAT, DOG, OWL = "猫", "犬", "🦉"


@pytest.fixture(autouse=True)
def forgetful():
    """Nothing is remembered from one test to the next."""
    yield
    for known in (fonts._written, fonts._tell, fonts._file_for, fonts._letters_of, fonts._system):
        known.cache_clear()


def install(monkeypatch, *files: Path) -> None:
    """These fonts are all that the system has."""
    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", lambda: [str(file) for file in files])


def make_font(path: Path, letters: str) -> Path:
    """A font in which every letter is a square."""
    pen = TTGlyphPen(None)
    for step, at in enumerate([(100, 0), (100, 700), (800, 700), (800, 0)]):
        (pen.lineTo if step else pen.moveTo)(at)
    pen.closePath()
    names = [".notdef", *(f"u{ord(letter):x}" for letter in letters)]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(letter): name for letter, name in zip(letters, names[1:], strict=True)})
    builder.setupGlyf(dict.fromkeys(names, pen.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (900, 100)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": path.stem, "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(path)
    return path


@pytest.mark.parametrize("name", ["cat", "é", "Käfer", "žába", "птица", "γάτα"])
def test_the_package_s_own_fonts_have_the_alphabets_of_europe(name, monkeypatch, capsys):
    install(monkeypatch)
    assert written([name]) == {name: name}
    assert font_for(name, 15).getmask(name).getbbox()
    assert capsys.readouterr().err == ""


def test_a_font_of_the_system_that_has_the_letters_is_used(tmp_path, monkeypatch, capsys):
    here = make_font(tmp_path / "here.ttf", CAT + fonts.BESIDE)
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    install(monkeypatch, make_font(tmp_path / "elsewhere.ttf", DOG + fonts.BESIDE), tmp_path / "broken.ttf", here)
    assert written([CAT, "cat"]) == {CAT: CAT, "cat": "cat"}
    assert font_for(f"{CAT} 0.95", 15).path == here
    assert readable(f"{CAT}…") == f"{CAT}…"
    assert capsys.readouterr().err == ""


def test_a_plain_style_comes_before_a_bold_one(tmp_path, monkeypatch):
    both = [make_font(tmp_path / name, CAT + fonts.BESIDE) for name in ("A-Bold.ttf", "B-Regular.ttf")]
    install(monkeypatch, *both)
    assert font_for(CAT, 15).path == both[1]


def test_a_font_without_figures_would_make_boxes_of_the_score(tmp_path, monkeypatch):
    install(monkeypatch, make_font(tmp_path / "a.ttf", CAT))
    assert written([CAT])[CAT] == "#1"


def test_the_last_resort_is_none(tmp_path, monkeypatch):
    install(monkeypatch, make_font(tmp_path / "LastResort.ttf", CAT + fonts.BESIDE))
    assert written([CAT])[CAT] == "#1"


def test_without_a_font_a_class_is_its_number_and_one_line_says_what_to_install(monkeypatch, capsys):
    install(monkeypatch)
    for _ in range(2):
        assert dict(written(["cat", CAT, DOG])) == {"cat": "cat", CAT: "#2", DOG: "#3"}
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    for words in (CAT, DOG, "#2", "#3", "fonts-noto-cjk"):
        assert words in told


def test_a_name_is_one_without_its_emoji_where_no_other_class_is_called_so(monkeypatch):
    install(monkeypatch)
    assert dict(written([f"owl {OWL}", OWL])) == {f"owl {OWL}": "owl", OWL: "#2"}
    assert written(["owl", f"owl {OWL}"])[f"owl {OWL}"] == "#2"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("two\nlines\t", "two lines"),
        ("a\u202eb\x00c\ufe0f", "abc"),
        (f"Ünï_{NOWHERE}{NOWHERE}.jpg", "Ünï_….jpg"),
        ("\udc80 odd bytes", "… odd bytes"),
        ("", ""),
        (NOWHERE, "…"),
    ],
)
def test_any_words_can_be_drawn(words, shown, monkeypatch):
    install(monkeypatch)
    assert readable(words) == shown
    font_for(shown, 12).getmask(shown)
