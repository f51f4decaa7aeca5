import stat

import pytest

from tag2box.errors import InputError
from tag2box.files import atomic_path, require_writable, write_atomically


def test_text_and_bytes(tmp_path):
    write_atomically(tmp_path / "a.txt", "grün")
    write_atomically(tmp_path / "a.txt", b"new")
    assert (tmp_path / "a.txt").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail_halfway() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert path.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_the_ending_stays_for_writers_that_go_by_it(tmp_path):
    with atomic_path(tmp_path / "plot.png") as temporary:
        assert (temporary.suffix, temporary.parent) == (".png", tmp_path)


def test_others_may_read_it_as_any_new_file(tmp_path):
    write_atomically(tmp_path / "ours", "")
    (tmp_path / "plain").write_text("")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ours", "plain")]
    assert modes[0] == modes[1]


def test_where_nothing_can_be_written(tmp_path):
    with pytest.raises(InputError, match=r"cannot write to folder .*missing"):
        write_atomically(tmp_path / "missing" / "a.txt", "")
    with pytest.raises(InputError, match="found a folder"):
        require_writable(tmp_path)
    require_writable(tmp_path / "fine.txt")
    assert list(tmp_path.iterdir()) == []
