from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tag2box.errors import InputError
from tag2box.labels.naming import flat_names, is_file_name, relative_names, require_text


def test_names_that_can_stay_do():
    ids = ["000001", "IMG_1.jpg", "größe", "it's", "日本"]
    assert flat_names(ids) == ids


def test_the_others_give_way():
    assert flat_names(["a b", "a_b", "a/b", "A_B"]) == ["a_b-3", "a_b", "a_b-4", "A_B-2"]
    assert flat_names(["a_b-2", "a/b", "a_b"]) == ["a_b-2", "a_b-3", "a_b"]


@given(st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=12))
def test_names_are_safe_and_all_different(ids):
    names = flat_names(ids)
    assert len({name.casefold() for name in names}) == len(ids)
    for name in names:
        assert name == "".join(name.split())
        assert not set(name) & set('/\\<>:"|?*\0\n')
        assert name[0] not in ".#"
        assert is_file_name(name)


def test_undecodable_and_endless_names():
    (name,) = flat_names(["\udcff" + "äöü/" * 200])
    assert len(name.encode()) < 255
    assert flat_names(["x" * 300 + "1", "x" * 300 + "2"])[0] != flat_names(["x" * 300 + "2"])[0]


def test_relative_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = [Path("photos/cat/1.jpg"), tmp_path / "photos" / "cat" / "." / "2 é.jpg", Path("photos/x/../dog/1.jpg")]
    assert relative_names(paths) == (tmp_path / "photos", ["cat/1.jpg", "cat/2 é.jpg", "dog/1.jpg"])
    assert relative_names(paths[:1]) == (tmp_path / "photos" / "cat", ["1.jpg"])


@pytest.mark.parametrize("name", ["a\nb", "a\x00b", "\udcff"])
def test_no_text(name):
    with pytest.raises(InputError, match="plain text"):
        require_text(["cat", name])


def test_text():
    require_text(["cat", 'größe <1> & "x"', "日本"])
