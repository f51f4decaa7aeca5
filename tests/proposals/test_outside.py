import copyreg
import math
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.io import savemat

from tag2box.data.records import Dataset, TaggedImage
from tag2box.errors import InputError
from tag2box.proposals.outside import import_proposals

# of the two images in the data sets below, as we have them: 0-based and half-open
FIRST = [[0, 0, 100, 80], [10, 20, 31, 42]]
SECOND = [[99, 79, 100, 80]]


def dataset_of(*ids):
    return Dataset(("cat",), tuple(TaggedImage(id, Path(f"{id}.jpg"), (100, 80), ("cat",)) for id in ids))


def cells(values, shape):
    """A cell array, as MATLAB has them."""
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array.reshape(shape)


def y_first(boxes, dtype=np.float64):
    """As in the .mat files: y1, x1, y2, x2, 1-based, the last pixel included."""
    return np.array([(y0 + 1, x0 + 1, y1, x1) for x0, y0, x1, y1 in boxes], dtype=dtype).reshape(-1, 4)


def inclusive(boxes, dtype=np.float32):
    """As in the .pkl files: x1, y1, x2, y2, 0-based, the last pixel included."""
    return np.array([(x0, y0, x1 - 1, y1 - 1) for x0, y0, x1, y1 in boxes], dtype=dtype).reshape(-1, 4)


@pytest.fixture
def take(tmp_path):
    """`take(source, ids)`: the boxes taken over from a file, as lists."""

    def take(source, ids=("000005", "000007")):
        store = import_proposals(source, dataset_of(*ids), tmp_path / "new folder" / "store")
        assert store.settings == {"source": source.name}
        return [store[id].tolist() for id in ids]

    return take


@pytest.fixture
def refused(take, tmp_path):
    """`refused(source, ids)`: the one line that says why; nothing is written."""

    def refused(source, ids=("000005", "000007")):
        with pytest.raises(InputError) as caught:
            take(source, ids)
        assert not (tmp_path / "new folder").exists()
        assert len(str(caught.value).splitlines()) == 1
        return str(caught.value)

    return refused


# ---- .mat


def save_mat(path, images=("000005", "000007"), boxes=(FIRST, SECOND), dtype=np.float64, **more):
    content = {"boxes": cells([y_first(rows, dtype) for rows in boxes], (1, -1))}
    if images is not None:
        content["images"] = cells(list(images), (-1, 1))
    savemat(path, content | more)
    return path


@pytest.mark.parametrize("dtype", [np.float64, np.uint16, np.int32])
def test_mat_of_the_fast_rcnn_era(tmp_path, take, dtype):
    assert take(save_mat(tmp_path / "voc_2007_trainval.mat", dtype=dtype)) == [FIRST, SECOND]


def test_mat_in_another_order_and_with_more_images(tmp_path, take):
    source = save_mat(tmp_path / "a.mat", ["000009", "000007", "000005"], [FIRST, SECOND, FIRST])
    assert take(source) == [FIRST, SECOND]


def test_mat_without_names_goes_by_order(tmp_path, take):
    assert take(save_mat(tmp_path / "a.MAT", images=None), ["x", "y"]) == [FIRST, SECOND]


def test_mat_with_an_image_without_boxes(tmp_path, take):
    source = tmp_path / "a.mat"
    savemat(source, {"boxes": cells([y_first(FIRST), np.zeros((0, 0))], (1, 2))})
    assert take(source) == [FIRST, []]


def test_mat_with_a_box_outside_shows_it_as_the_file_has_it(tmp_path, refused):
    words = "expected boxes inside 100×80 pixels, found [1, 2, 80, 101] (y1, x1, y2, x2, counted from 1)"
    assert words in refused(save_mat(tmp_path / "a.mat", boxes=(FIRST, np.array([[1, 0, 101, 80]]))))


def test_mat_that_is_not_one(tmp_path, refused):
    for content in (b"", b"MATLAB 5.0", os.urandom(500), b"MATLAB 7.3 MAT-file" + bytes(600)):
        (tmp_path / "a.mat").write_bytes(content)
        assert "cannot read" in refused(tmp_path / "a.mat")


def test_mat_cut_off(tmp_path, take, refused):
    data = save_mat(tmp_path / "a.mat").read_bytes()
    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        (tmp_path / "a.mat").write_bytes(data[: int(share * len(data))])
        refused(tmp_path / "a.mat")


def test_mat_of_something_else(tmp_path, refused):
    savemat(tmp_path / "a.mat", {"scores": [1.0], "labels": [2.0]})
    assert "expected the variable 'boxes', found scores, labels" in refused(tmp_path / "a.mat")
    savemat(tmp_path / "b.mat", {"boxes": y_first(FIRST)})
    assert "expected 4 columns" in refused(tmp_path / "b.mat")
    savemat(tmp_path / "c.mat", {"boxes": cells(["ab", "cd"], (1, 2))})
    assert "expected numbers in array 1" in refused(tmp_path / "c.mat")


# ---- .pkl


def save_pkl(path, protocol=2, **content):
    content = {"boxes": [inclusive(FIRST), inclusive(SECOND)], "indexes": [5, 7]} | content
    path.write_bytes(pickle.dumps({key: value for key, value in content.items() if value is not None}, protocol))
    return path


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint16, ">f8", ">i4"])
def test_pkl_of_every_protocol(tmp_path, take, protocol, dtype):
    boxes = [inclusive(FIRST, dtype), np.asfortranarray(inclusive(SECOND, dtype))]
    assert take(save_pkl(tmp_path / "a.pkl", protocol, boxes=boxes)) == [FIRST, SECOND]


@pytest.mark.parametrize("protocol", range(6))
def test_pkl_of_arrays_in_arrays_transposed_and_numpy_numbers(tmp_path, take, protocol):
    boxes = cells([np.ascontiguousarray(inclusive(FIRST).T).T, inclusive(SECOND)], (2,))
    scores = cells([np.array([0.9, 0.8]), np.array([1.0])], (2,))
    source = save_pkl(tmp_path / "a.pkl", protocol, boxes=boxes, scores=scores, indexes=[np.int64(5), np.uint16(7)])
    assert take(source) == [FIRST, SECOND]
    equal_shapes = cells([inclusive(FIRST), inclusive(FIRST)], (2,))
    assert take(save_pkl(tmp_path / "b.pkl", protocol, boxes=equal_shapes)) == [FIRST, FIRST]


def test_pkl_with_strided_axes(tmp_path, take):
    boxes = np.stack([inclusive(FIRST), inclusive(FIRST)]).transpose(0, 2, 1).copy().transpose(0, 2, 1)
    assert take(save_pkl(tmp_path / "a.pkl", 5, boxes=boxes)) == [FIRST, FIRST]


def python_2_array(array):
    """The opcodes by which Python 2 pickles an array: its bytes are text."""
    order, raw = "<" if array.dtype.itemsize > 1 else "|", array.tobytes()
    shape = b"".join(b"K" + bytes([side]) for side in array.shape)
    return b"".join(
        [
            b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01",
            shape + b"\x86",
            b"cnumpy\ndtype\nU\x02" + array.dtype.str[1:].encode() + b"K\x00K\x01\x87R",
            b"(K\x03U\x01" + order.encode() + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
            b"\x89U" + bytes([len(raw)]) + raw + b"tb",
        ]
    )


def test_pkl_of_python_2(tmp_path, take):
    boxes = b"(" + python_2_array(inclusive(FIRST, np.float64)) + python_2_array(inclusive(SECOND, np.uint8)) + b"l"
    names = b"(U\x06000005U\x06000007l"
    source = tmp_path / "a.pkl"
    source.write_bytes(b"\x80\x02(U\x05boxes" + boxes + b"U\x07indexes" + names + b"d.")
    assert take(source) == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        ([5, 7], ("000005", "000007")),
        (["5", "000007"], ("000005", "000007")),
        ([b"000005", "000007.jpg"], ("000005", "000007")),
        ([2008000002, "2008_000003"], ("2008_000002", "2008_000003")),
        (["2008000002", "JPEGImages/2008_000003.jpg"], ("2008_000002", "2008_000003")),
        (np.array([5, 7]), ("000005", "000007")),
        (np.array(["a", "b"]), ("a", "b")),
        (["cat/001", "dog/001"], ("cat/001", "dog/001")),
        (["a.b", "a.c"], ("a.b", "a.c")),
        (["²", "٣"], ("²", "٣")),  # digits to Python, not numbers of ours
        ((5, 7), ("5", "7")),
    ],
)
@pytest.mark.parametrize("key", ["indexes", "ids"])
def test_pkl_names(tmp_path, take, names, ids, key):
    assert take(save_pkl(tmp_path / "a.pkl", **({"indexes": None} | {key: names})), ids) == [FIRST, SECOND]


def test_pkl_in_another_order_and_without_names(tmp_path, take):
    source = save_pkl(tmp_path / "a.pkl", indexes=["b", "a"])
    assert take(source, ["a", "b"]) == [SECOND, FIRST]
    assert take(save_pkl(tmp_path / "b.pickle", indexes=None), ["a", "b"]) == [FIRST, SECOND]


def test_pkl_best_score_first_and_equals_as_they_come(tmp_path, take):
    boxes = [[n, n, n + 9, n + 9] for n in range(4)]
    source = save_pkl(tmp_path / "a.pkl", boxes=[inclusive(boxes)], indexes=["a"], scores=[np.array([1, 3, 3, 2])])
    assert take(source, ["a"]) == [[boxes[n] for n in (1, 2, 3, 0)]]
    column = [np.array([[1], [3], [3], [2]], np.uint8)]
    source = save_pkl(tmp_path / "a.pkl", boxes=[inclusive(boxes)], indexes=["a"], scores=column)
    assert take(source, ["a"]) == [[boxes[n] for n in (1, 2, 3, 0)]]
    for unfit in ([np.array([1.0])], [["high"]], 5, [np.array([1]), np.array([2])]):
        source = save_pkl(tmp_path / "a.pkl", boxes=[inclusive(boxes)], indexes=["a"], scores=unfit)
        assert take(source, ["a"]) == [boxes]


@pytest.mark.parametrize("protocol", range(6))
def test_pkl_with_an_image_without_boxes(tmp_path, take, protocol):
    assert take(save_pkl(tmp_path / "a.pkl", protocol, boxes=[np.zeros((0, 4)), []])) == [[], []]


# ---- wrong in other ways


def test_other_files(tmp_path, refused):
    (tmp_path / "a.json").touch()
    assert refused(tmp_path / "a.json") == "expected proposals in a .mat or .pkl file, found a.json"
    assert "does not exist" in refused(tmp_path / "b.mat")
    (tmp_path / "c.pkl").mkdir()
    assert "does not exist" in refused(tmp_path / "c.pkl")


def test_missing_images_are_named_and_close_ones_suggested(tmp_path, refused):
    source = save_pkl(tmp_path / "a.pkl", indexes=["photo-1", "photo-2"])
    assert "expected proposals for all 2 images, found none for 1 (photo_1); did you mean 'photo-1'?" in refused(
        source, ["photo_1", "photo-2"]
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"boxes": None}, "expected a dictionary with 'boxes' and 'indexes', found only indexes"),
        ({"boxes": 5}, "expected 'boxes' to be a list of arrays, found int"),
        ({"boxes": {"a": 1}}, "expected 'boxes' to be a list of arrays, found dict"),
        ({"boxes": [inclusive(FIRST)]}, "expected an array of boxes for each of 2 images, found 1"),
        ({"boxes": ["ab", "cd"]}, "expected numbers in array 1 of 'boxes'"),
        ({"boxes": [[[1, 2], [3]], []]}, "expected numbers in array 1 of 'boxes'"),
        ({"boxes": [np.zeros((4, 5)), []]}, r"expected 4 columns in array 1 of 'boxes', found shape (4, 5)"),
        ({"boxes": [[], np.zeros(8)]}, r"expected 4 columns in array 2 of 'boxes', found shape (8,)"),
        ({"indexes": "ab"}, "expected a list of image names, found str"),
        ({"indexes": [5, None]}, "expected image names or numbers, found NoneType"),
        ({"indexes": [5, math.nan]}, "expected image names or numbers, found float"),
        ({"indexes": [5, [7]]}, "expected image names or numbers, found list"),
        ({"indexes": [5, "9" * 5000]}, "found none for 1 (000007)"),
        (
            {"boxes": [[[0, 0, 100, 79]], []]},
            "image 000005: expected boxes inside 100×80 pixels, found [0, 0, 100, 79] (x1, y1, x2, y2, counted from 0)",
        ),
        ({"boxes": [[], [[-1, 0, 9, 9]]]}, "image 000007: expected boxes inside"),
        ({"boxes": [[], [[0, math.nan, 9, 9]]]}, "image 000007: expected boxes inside"),
        ({"boxes": [[], [[0, 0, math.inf, 9]]]}, "image 000007: expected boxes inside"),
        (
            {"boxes": [[], [[5, 5, 4, 9]]]},
            "image 000007: expected boxes with a positive width and height, found [5, 5, 4, 9] (x1",
        ),
        ({"boxes": [[], [[5.2, 5, 4.4, 9]]]}, "image 000007: expected boxes with a positive width and height"),
    ],
)
def test_content_that_cannot_be(tmp_path, refused, content, words):
    assert words in refused(save_pkl(tmp_path / "a.pkl", **content))


@pytest.mark.parametrize("content", [[1, 2], "text", 5, None, np.zeros(3)])
def test_a_pickle_of_something_else(tmp_path, refused, content):
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(content))
    assert "expected a dictionary with 'boxes' and 'indexes', found" in refused(tmp_path / "a.pkl")


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot make the folder"):
        import_proposals(save_pkl(tmp_path / "a.pkl"), dataset_of("5", "7"), tmp_path / "file" / "store")


# ---- pickles that mean harm


def call(module, name, *arguments):
    """The opcodes that call a function by its name with some texts."""
    texts = b"".join(b"X" + struct.pack("<I", len(text)) + text.encode() for text in arguments)
    return f"c{module}\n{name}\n(".encode() + texts + b"tR"


class Calls:
    """Pickled, a call of any function."""

    def __init__(self, function, *arguments):
        self.called = function, arguments

    def __reduce__(self):
        return self.called


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize("place", ["alone", "boxes", "indexes", "key", "object array", "scores"])
def test_nothing_is_called(tmp_path, refused, protocol, place):
    trace = tmp_path / "trace"
    harm = Calls(os.system, f"touch '{trace}'")
    content = {
        "alone": harm,
        "boxes": {"boxes": [harm, inclusive(SECOND)], "indexes": [5, 7]},
        "indexes": {"boxes": [inclusive(FIRST), inclusive(SECOND)], "indexes": [5, harm]},
        "key": {harm: 1},
        "object array": {"boxes": cells([inclusive(FIRST), harm], (2,)), "indexes": [5, 7]},
        "scores": {"boxes": [inclusive(FIRST), inclusive(SECOND)], "indexes": [5, 7], "scores": harm},
    }[place]
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(content, protocol))
    assert f"expected a pickle of numpy arrays alone, found {os.system.__module__}.system; not loaded" in refused(
        tmp_path / "a.pkl"
    )
    assert not trace.exists()
    pickle.loads(pickle.dumps(harm))  # the means do work
    assert trace.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("builtins", "eval"),
        ("builtins", "exec"),
        ("builtins", "getattr"),
        ("builtins", "bytearray"),
        ("__builtin__", "eval"),  # as Python 2 calls it
        ("os", "system"),
        ("subprocess", "Popen"),
        ("pathlib", "Path"),
        ("copyreg", "_reconstructor"),
        ("copy_reg", "_reconstructor"),
        ("numpy", "fromfile"),
        ("numpy", "load"),
        ("numpy", "memmap"),
        ("numpy", "ndarray.tofile"),
        ("numpy", "dtype.__class__"),
        ("numpy.core.multiarray", "fromfile"),
        ("numpy._core.multiarray", "fromstring"),
        ("numpy.core.numeric", "load"),
        ("numpy.testing._private.utils", "runstring"),
        ("numpy.f2py.diagnose", "run_command"),
        ("_codecs", "decode"),
        ("tag2box.proposals.pickles", "_STAND_INS"),
    ],
)
def test_other_names_are_refused_and_told(tmp_path, refused, module, name):
    (tmp_path / "a.pkl").write_bytes(b"\x80\x02" + call(module, name, str(tmp_path / "trace")) + b".")
    line = refused(tmp_path / "a.pkl")
    assert "expected a pickle of numpy arrays alone, found" in line
    assert f".{name.rpartition('.')[2]}; not loaded" in line
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("codec", ["utf-8", "rot13", "unicode_escape", "zip", "idna"])
def test_other_codecs_are_refused(tmp_path, refused, codec):
    (tmp_path / "a.pkl").write_bytes(b"\x80\x02" + call("_codecs", "encode", "text", codec) + b".")
    assert f"found _codecs.encode with {codec}; not loaded" in refused(tmp_path / "a.pkl")


def test_registered_extensions_are_refused(tmp_path, refused):
    copyreg.add_extension("os", "system", 240)
    try:
        (tmp_path / "a.pkl").write_bytes(b"\x80\x02\x82\xf0" + b"X\x04\x00\x00\x00true\x85R.")
        assert ".system; not loaded" in refused(tmp_path / "a.pkl")
    finally:
        copyreg.remove_extension("os", "system", 240)


class Elements:
    """Pickled, a `numpy.dtype` that is told anything about itself."""

    def __init__(self, code, *state):
        self.code, self.state = code, state

    def __reduce__(self):
        return np.dtype, (self.code, False, True), self.state


ADDRESS = b"A" * 8
FORGED = [
    Elements("V8", 3, "|", None, ("f",), {"f": (np.dtype("O"), 0)}, 8, 8, 0),  # a field of objects, unsaid
    Elements("O8", 3, "|", None, None, None, -1, -1, 0),  # objects that deny it
    Elements("V8", 3, "|", (np.dtype("O"), (1,)), None, None, 8, 8, 0),
    Elements("f8", 3, "<", None, ("f",), {"f": (np.dtype("O"), 0)}, 8, 8, 0),
    Elements("V8", 3, "|", None, None, None, 8, 8, 63),
]


@pytest.mark.parametrize("elements", FORGED)
@pytest.mark.parametrize(
    "make",
    [
        lambda elements: Calls(np._core.numeric._frombuffer, ADDRESS, elements, (1,), "C"),
        lambda elements: Calls(np._core.multiarray.scalar, elements, ADDRESS),
        lambda elements: Calls(np.ndarray, (1,), elements, ADDRESS),
    ],
)
def test_bytes_are_never_taken_for_addresses(tmp_path, refused, elements, make):
    """numpy's own functions end the process over some of these."""
    refused(save_pkl(tmp_path / "a.pkl", boxes=[make(elements), inclusive(SECOND)]))


@pytest.mark.parametrize("kept", [0, 1, 2, 10, 40, 100, 150, 200])
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_pkl_cut_off(tmp_path, refused, protocol, kept):
    source = save_pkl(tmp_path / "a.pkl", protocol)
    source.write_bytes(source.read_bytes()[:kept])
    refused(source)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes(tmp_path, refused, data):
    (tmp_path / "a.pkl").write_bytes(data)
    refused(tmp_path / "a.pkl")


@given(st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_pickles_are_read_or_refused_in_one_line(tmp_path, data):
    source = save_pkl(tmp_path / "a.pkl", data.draw(st.sampled_from([0, 2, 5])))
    content = bytearray(source.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    source.write_bytes(content)
    line = "read"
    try:
        import_proposals(source, dataset_of("000005", "000007"), tmp_path / "store")
    except InputError as error:
        line = str(error)
    assert len(line.splitlines()) == 1
