"""Fonts for what is written on pictures: one that has the letters, wherever it is on this machine.

A letter that a font lacks is drawn as an empty box, and a class of empty boxes is no class. So where no font has a
name's letters, something is written that can be read: the class's number.
"""

import sys
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from PIL import ImageFont

from tag2box.errors import name_some

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

UNSEEN = ("Cc", "Cf")
"""Unicode categories that leave no mark, or turn the words around."""
SYMBOLS = ("So", "Sk")
"""Those without which a name may still be one: emoji and their skin tones."""
VARIANTS = range(0xFE00, 0xFE10)
BESIDE = "…#.0123456789"
"""What may stand in one line with a name: a font without these would make boxes of them."""
STYLED = ("bold", "black", "light", "thin", "italic", "oblique", "cond", "narrow", "mono", "serif")
"""Of a font's file name; plainer ones are preferred."""
EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO")


def font_for(words: str, size: int) -> Font:
    """A font that has the letters of these words; where none has all, the one that has most alphabets."""
    return _load(None if words.isascii() else _file_for(words) or _dejavu(), size)


def readable(words: str) -> str:
    """Words on one line, as far as they can be drawn: an ellipsis stands for what no font has.

    >>> readable("two" + chr(10) + "lines"), readable("a" + chr(0xF0000) * 3 + "b")
    ('two lines', 'a…b')
    """
    words = _visible(words)
    if _can_draw(words):
        return words
    known = _letters_of(_dejavu())
    kept = "".join(letter if letter == " " or _among(ord(letter), known) else "…" for letter in words)
    while "……" in kept:
        kept = kept.replace("……", "…")
    return kept


def written(classes: Sequence[str] | Mapping[str, str]) -> Mapping[str, str]:
    """What is written on pictures for each class: its name, or its number where no font has the letters.

    >>> written(["Käfer", "two" + chr(10) + "lines"])["two" + chr(10) + "lines"]
    'two lines'
    """
    return _written(tuple(classes))


@cache
def _written(classes: tuple[str, ...]) -> Mapping[str, str]:
    names, numbered = dict[str, str](), []
    for number, name in enumerate(classes, 1):
        words = _visible(name)
        if not _can_draw(words):
            numbered.append(name)
            plain = "".join(letter for letter in words if unicodedata.category(letter) not in SYMBOLS).strip()
            fits = plain and _can_draw(plain) and plain not in (*classes, *names.values())
            words = plain if fits else f"#{number}"
        names[name] = words
    if numbered:
        _tell(
            f"no font installed here has the letters of {name_some(numbered, 3)}; on pictures they are "
            f"{name_some([names[name] for name in numbered], 3)}. {_advice(''.join(numbered))}"
        )
    return MappingProxyType(names)


@cache
def _tell(line: str) -> None:
    print(line, file=sys.stderr)  # once: it is cached


def _advice(words: str) -> str:
    lacking = [letter for letter in words if not _can_draw(letter)]
    if any(unicodedata.name(letter, "").startswith(EAST_ASIAN) for letter in lacking):
        return "Noto Sans CJK (fonts-noto-cjk) has them"
    if all(unicodedata.category(letter) in SYMBOLS for letter in lacking):
        return "Symbola (fonts-symbola) may have them"
    return "Noto Sans (fonts-noto) may have them"


def _visible(words: str) -> str:
    """On one line, without what leaves no mark."""
    shown = (" " if one.isspace() else one for one in words if one.isspace() or not _unseen(one))
    return " ".join("".join(shown).split())


def _unseen(letter: str) -> bool:
    return unicodedata.category(letter) in UNSEEN or ord(letter) in VARIANTS


def _can_draw(words: str) -> bool:
    return words.isascii() or _file_for(words) is not None


@cache
def _load(path: Path | None, size: int) -> Font:
    """Without a file Pillow's own font, which has little beyond ASCII."""
    return ImageFont.load_default(size) if path is None else ImageFont.truetype(path, size)


@cache
def _file_for(words: str) -> Path | None:
    """The font that comes with matplotlib if it has all these letters, else one of the system's."""
    wanted = np.unique(np.array([ord(letter) for letter in (*words, *BESIDE) if letter != " "], dtype=np.uint32))
    if bool(_among(wanted, _letters_of(_dejavu())).all()):
        return _dejavu()
    return next((path for path in _system() if bool(_among(wanted, _letters_of(path)).all()) and _opens(path)), None)


def _among(wanted: NDArray[np.uint32] | int, known: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which of these are among rising numbers."""
    if not len(known):
        return np.zeros(np.shape(wanted), dtype=bool)
    found: NDArray[np.bool_] = known[np.searchsorted(known, wanted).clip(max=len(known) - 1)] == wanted
    return found


@cache
def _letters_of(path: Path) -> NDArray[np.uint32]:
    """The code points that a font has, rising; none where it is no font, or one of pixels."""
    from matplotlib.ft2font import FT2Font

    try:
        face = FT2Font(str(path))
        letters = face.get_charmap() if face.scalable else {}
    except (OSError, RuntimeError, ValueError):
        letters = {}
    return np.sort(np.fromiter(letters, dtype=np.uint32, count=len(letters)))


@cache
def _dejavu() -> Path:
    from matplotlib import get_data_path

    return Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"


@cache
def _system() -> tuple[Path, ...]:
    """What is installed, plain styles first. Not matplotlib's own list: that one is as old as its cache."""
    from matplotlib.font_manager import findSystemFonts

    def styled(path: Path) -> tuple[bool, str]:
        return any(style in path.stem.lower() for style in STYLED), path.name

    files = (Path(name) for name in findSystemFonts())
    # The last resort has a frame with a number for every letter there is.
    return tuple(sorted((path for path in files if "lastresort" not in path.stem.lower()), key=styled))


def _opens(path: Path) -> bool:
    """Pillow's FreeType may know less than matplotlib's."""
    try:
        _load(path, 12)
    except (OSError, ValueError):
        return False
    return True
