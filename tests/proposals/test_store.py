import json
import struct
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from tag2box.data.records import Dataset, TaggedImage
from tag2box.errors import InputError
from tag2box.proposals.store import FORMAT, ProposalStore, open_store, write_store

SETTINGS = {"overlap": 0.75, "passes": ({"side": 140, "k": (70, 140)},)}


def dataset_of(sizes):
    """A data set of {id: size}."""
    return Dataset(("cat",), tuple(TaggedImage(id, Path(f"{id}.jpg"), size, ("cat",)) for id, size in sizes.items()))


def some_boxes(count, seed=0):
    return np.random.default_rng(seed).integers(-(2**15), 2**15, (count, 4)).astype("<i2")


def write(path, boxes, sizes=None, setting=SETTINGS):
    """A store of {id: boxes} and, where not given, images of 100 × 80 pixels."""
    sizes = sizes or dict.fromkeys(boxes, (100, 80))
    counts = [len(rows) for rows in boxes.values()]
    write_store(path, list(boxes), list(sizes.values()), setting, counts, iter(boxes.values()))
    return dataset_of(sizes)


@pytest.fixture
def small(tmp_path):
    """A store of three images, and the data set it is for."""
    path = tmp_path / "small.safetensors"
    return path, write(path, {"a": some_boxes(3), "b": some_boxes(0), "é": some_boxes(2, 1)})


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


@given(st.dictionaries(names, st.tuples(st.integers(0, 6), st.integers(1, 32767), st.integers(1, 32767)), max_size=8))
@settings(max_examples=100, deadline=None)
def test_round_trip(tmp_path_factory, images):
    path = tmp_path_factory.mktemp("store") / "s"
    boxes = {id: some_boxes(count, seed) for seed, (id, (count, _, _)) in enumerate(images.items())}
    sizes = {id: (width, height) for id, (_, width, height) in images.items()}
    store = open_store(path, write(path, boxes, sizes), SETTINGS)
    assert len(store) == len(images)
    assert store.ids == tuple(images)
    assert store.count == sum(map(len, boxes.values()))
    for id, rows in boxes.items():
        assert id in store
        np.testing.assert_array_equal(store[id], rows)
        assert store[id].dtype == np.int16
        assert store.size(id) == sizes[id]
    with safe_open(path, framework="np") as file:  # any reader of safetensors reads it too
        assert sorted(file.keys()) == ["boxes", "id_offsets", "ids", "offsets", "sizes"]
        np.testing.assert_array_equal(file.get_tensor("boxes"), np.concatenate([*boxes.values(), some_boxes(0)]))
        assert file.get_tensor("ids").tobytes() == "".join(images).encode()
        assert file.get_tensor("offsets").tolist() == np.cumsum([0, *map(len, boxes.values())]).tolist()
        assert file.get_tensor("sizes").tolist() == [list(size) for size in sizes.values()]
        assert json.loads(file.metadata()["settings"]) == json.loads(json.dumps(SETTINGS))


def test_same_input_same_bytes(tmp_path, small):
    path, _ = small
    again = tmp_path / "another name"
    write(again, {"a": some_boxes(3), "b": some_boxes(0), "é": some_boxes(2, 1)})
    assert again.read_bytes() == path.read_bytes()


def test_boxes_are_a_view_into_the_file(small):
    store = ProposalStore(small[0])
    assert not store["a"].flags.writeable
    assert not store["a"].flags.owndata
    with pytest.raises(KeyError):
        store["c"]
    assert "c" not in store


# ---- speed


def write_sparse(path, boxes):
    """A store of one image with so many boxes, all zero, which take no room on disk."""
    entries = {"__metadata__": {"format": FORMAT, "settings": "{}", "images": ""}}
    shapes = {"offsets": ("I64", 8, (2,)), "id_offsets": ("I64", 8, (2,)), "sizes": ("I32", 4, (1, 2))}
    shapes |= {"boxes": ("I16", 2, (boxes, 4)), "ids": ("U8", 1, (1,))}
    place = 0
    for name, (dtype, width, shape) in shapes.items():
        end = place + width * int(np.prod(shape))
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": (place, end)}
        place = end
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + struct.pack("<qqqqii", 0, boxes, 0, 1, 100, 80))
        file.seek(8 * boxes, 1)
        file.write(b"a")


def seconds_to_open(path):
    """The best of five."""
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        ProposalStore(path)
        taken.append(time.perf_counter() - began)
    return min(taken)


def test_opened_in_milliseconds_whatever_its_size(tmp_path):
    for name, boxes in (("small", 10), ("large", 25_000_000)):
        write_sparse(tmp_path / name, boxes)
    assert (tmp_path / "large").stat().st_size > 200_000_000
    assert ProposalStore(tmp_path / "large")["a"].shape == (25_000_000, 4)
    small, large = seconds_to_open(tmp_path / "small"), seconds_to_open(tmp_path / "large")
    assert large < 0.02
    assert large < 3 * small + 0.002


# ---- what is refused


def test_more_images_than_asked_for_are_welcome(small):
    path, dataset = small
    store = open_store(path, dataset.subset([True, False, True]), SETTINGS)
    assert len(store["é"]) == 2


def test_another_order_of_the_same_images_is_welcome(small):
    path, dataset = small
    store = open_store(path, replace(dataset, images=dataset.images[::-1]))
    np.testing.assert_array_equal(store["a"], some_boxes(3))


def test_other_settings_are_refused_and_named(small):
    path, dataset = small
    with pytest.raises(InputError, match=r"other settings: overlap differs; .*tag2box proposals … --overwrite"):
        open_store(path, dataset, SETTINGS | {"overlap": 0.8})
    with pytest.raises(InputError, match="other settings: overlap, max_boxes differ; "):
        open_store(path, dataset, SETTINGS | {"overlap": 0.8, "max_boxes": 9})
    assert open_store(path, dataset)  # not asked for


def test_missing_images_are_refused_and_named(small):
    path, _ = small
    wanted = dataset_of(dict.fromkeys(("a", "x", "b", "y", "z", "w"), (100, 80)))
    with pytest.raises(InputError, match=r"other images: 4 of 6 are not in it \(x, y, z and 1 more\)"):
        open_store(path, wanted, SETTINGS)


def test_an_image_of_another_size_is_refused(small):
    path, _ = small
    with pytest.raises(InputError, match=r"other images: b was 100×80 and is 80×100 pixels now"):
        open_store(path, dataset_of({"a": (100, 80), "b": (80, 100)}), SETTINGS)


def test_a_file_cut_off_anywhere_is_refused(small, tmp_path):
    data = small[0].read_bytes()
    cut = tmp_path / "cut"
    for length in range(len(data)):
        cut.write_bytes(data[:length])
        with pytest.raises(InputError, match="expected a whole tag2box proposal store"):
            ProposalStore(cut)


def header_of(**changes):
    """A header that says it is a store, and empty arrays but for the changes; None leaves one out."""
    entries = {
        "__metadata__": {"format": FORMAT, "settings": "{}", "images": ""},
        "offsets": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
        "id_offsets": {"dtype": "I64", "shape": [1], "data_offsets": [8, 16]},
        "sizes": {"dtype": "I32", "shape": [0, 2], "data_offsets": [16, 16]},
        "boxes": {"dtype": "I16", "shape": [0, 4], "data_offsets": [16, 16]},
        "ids": {"dtype": "U8", "shape": [0], "data_offsets": [16, 16]},
    }
    text = json.dumps({name: entry for name, entry in (entries | changes).items() if entry is not None}).encode()
    return struct.pack("<Q", len(text)) + text + bytes(16)


def test_the_header_as_it_should_be(tmp_path):
    (tmp_path / "s").write_bytes(header_of())
    assert len(ProposalStore(tmp_path / "s")) == 0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04 a zip file",
        b"\xff" * 100,
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 1 << 23) + b"{}",
        header_of() + b"more",
        header_of(__metadata__=None),
        header_of(__metadata__={"format": "pt"}),
        header_of(__metadata__={"format": FORMAT}),
        header_of(__metadata__={"format": FORMAT, "settings": "{", "images": ""}),
        *(header_of(**{name: None}) for name in ("offsets", "id_offsets", "sizes", "boxes", "ids")),
        header_of(offsets={"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}),
        header_of(offsets={"dtype": "I64", "shape": [0], "data_offsets": [0, 0]}),
        header_of(offsets={"dtype": "I64", "shape": [2], "data_offsets": [0, 16]}),
        header_of(more={"dtype": "U8", "shape": [0], "data_offsets": [16, 16]}),
    ],
)
def test_something_else_is_refused(tmp_path, content):
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(
        InputError, match=r"expected a whole tag2box proposal store, found something else; .*--overwrite"
    ):
        ProposalStore(tmp_path / "s")


def test_nothing_there_and_a_folder(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*No such file"):
        ProposalStore(tmp_path / "missing")
    with pytest.raises(InputError, match=r"cannot read .*directory"):
        ProposalStore(tmp_path)


# ---- written whole or not at all


@pytest.mark.parametrize(
    "boxes",
    [
        [some_boxes(1)],  # too few arrays
        [some_boxes(1), some_boxes(2), some_boxes(0)],  # too many
        [some_boxes(1), some_boxes(3)],  # another count than announced
        [some_boxes(1), some_boxes(2).astype(np.int64)],
    ],
)
def test_a_failing_writer_leaves_the_old_file_and_nothing_else(tmp_path, boxes):
    path = tmp_path / "s"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match=r"expected int16|zip\(\)"):
        write_store(path, ["a", "b"], [(9, 9), (9, 9)], {}, [1, 2], iter(boxes))
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["s"]


def test_an_interrupted_writer_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "s"
    path.write_bytes(b"old")

    def stopped():
        yield some_boxes(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_store(path, ["a", "b"], [(9, 9), (9, 9)], {}, [1, 2], stopped())
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["s"]
