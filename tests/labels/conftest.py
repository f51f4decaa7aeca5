"""Labelled pictures with all the names and turns that people's pictures have."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from PIL import Image

from tag2box.labels.records import Label, LabelledImage, LabelledSet, inside

CLASSES = ("traffic light", 'kind of "x"', "größe <1> & more", "yes")
WHITE = (0.0, 0.0, 15.0, 10.0)
"""Of a picture 30 × 20 as it is seen, the white quarter."""
_UNDO = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_90"}
_UNDO |= {7: "TRANSVERSE", 8: "ROTATE_270"}


def _save_turned(path: Path, orientation: int = 1, **options: object) -> Path:
    """A picture that is 30 × 20 and white in its upper left quarter when its EXIF tag has been heeded."""
    upright = np.zeros((20, 30, 3), dtype=np.uint8)
    upright[:10, :15] = 255
    stored, exif = Image.fromarray(upright), Image.Exif()
    if orientation > 1:
        stored = stored.transpose(Image.Transpose[_UNDO[orientation]])
        exif[0x0112] = orientation
        options["exif"] = exif
    path.parent.mkdir(parents=True, exist_ok=True)
    stored.save(path, **options)
    return path


@pytest.fixture
def save_turned() -> Callable[..., Path]:
    """`save_turned(path, orientation)`: 30 × 20, the upper left quarter white, when seen as its EXIF tag says."""
    return _save_turned


@pytest.fixture
def awkward(tmp_path: Path) -> LabelledSet:
    """Pictures with blanks, quotes, umlauts and equal names in two folders, each with its white quarter labelled."""
    names = {
        "cat/001": ("cat/001.jpg", 1),
        "dog/001": ("dog/001.jpg", 6),
        "cat_001": ("cat_001.PNG", 8),
        "my photo 'of' 1": ("sub dir/my photo 'of' 1.jpeg", 1),
        "Größe #2 50% a=b&c": ("Größe #2 50% a=b&c.jpg", 3),
        "images": ("images/labels/images.bmp", 1),
        "a": ("a.gif", 1),
        "turned": ("turned.tif", 6),
        "small.web": ("small.web.webp", 5),
    }
    images = []
    for number, (id, (name, orientation)) in enumerate(names.items()):
        path = _save_turned(tmp_path / "photos" / name, orientation)
        labels = [Label(CLASSES[number % 4], WHITE, 0.5 + number / 20), Label("yes", (3.25, 2.5, 30.0, 20.0), 1.0)]
        images.append(LabelledImage(id, path, (30, 20), tuple(labels) if number != 3 else ()))
    return LabelledSet(CLASSES, tuple(images), "all")


@pytest.fixture(scope="session")
def one_image() -> Callable[..., LabelledSet]:
    """`one_image(size, boxes)`: a set of one image that is not on disk, with these boxes."""

    def make(size: tuple[int, int], boxes: Sequence[Sequence[float]]) -> LabelledSet:
        rows = inside(np.array(boxes, dtype=np.float64).reshape(-1, 4), size).tolist()
        labels = tuple(Label("cat", (box[0], box[1], box[2], box[3]), 0.5) for box in rows)
        return LabelledSet(("cat",), (LabelledImage("a", Path("/nowhere/a.jpg"), size, labels),), "all")

    return make


def _sized_boxes() -> st.SearchStrategy[tuple[tuple[int, int], list[list[float]]]]:
    """A picture's size and boxes with corners in order that may be anywhere, in it, across its edge, or outside."""
    side = st.one_of(st.integers(1, 40), st.integers(1, 32767))
    share = st.floats(-0.2, 1.2)

    def boxes(size: tuple[int, int]) -> st.SearchStrategy[list[list[float]]]:
        spans = (st.tuples(share, share).map(lambda ends, w=w: sorted(end * w for end in ends)) for w in size)
        box = st.tuples(*spans).map(lambda both: [both[0][0], both[1][0], both[0][1], both[1][1]])
        return st.lists(box, min_size=1, max_size=4)

    return st.tuples(side, side).flatmap(lambda size: st.tuples(st.just(size), boxes(size)))


@pytest.fixture(scope="session")
def sized_boxes() -> st.SearchStrategy[tuple[tuple[int, int], list[list[float]]]]:
    """A strategy: the size of a picture, and boxes that may reach beyond it."""
    return _sized_boxes()
