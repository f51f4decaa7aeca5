import json
import os
import stat
from pathlib import Path

import pytest

from tag2box.about import ABOUT
from tag2box.errors import InputError
from tag2box.labels import folder
from tag2box.labels.folder import FORMAT, require_free, whole_folder


def write(out, text):
    with whole_folder(out) as built:
        (built / "file.txt").write_text(text)
        (built / ABOUT).write_text(json.dumps({"format": FORMAT}))


def names(path):
    return sorted(entry.name for entry in path.iterdir())


@pytest.fixture(params=["at once", "in two steps"])
def both_ways(request, monkeypatch):
    """Where the system can swap folders, and where it cannot."""
    if request.param == "in two steps":
        monkeypatch.setattr(folder, "_exchange", lambda one, other: False)


def test_new(tmp_path):
    write(tmp_path / "out", "new")
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "file.txt").read_text() == "new"
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o777 & ~mask


def test_replaced(tmp_path, both_ways):
    write(tmp_path / "out", "old")
    (tmp_path / "out" / "left over").mkdir()
    write(tmp_path / "out", "new")
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["file.txt", ABOUT]
    assert (tmp_path / "out" / "file.txt").read_text() == "new"


def test_an_empty_folder_is_filled(tmp_path, both_ways):
    (tmp_path / "out").mkdir()
    require_free(tmp_path / "out", overwrite=False)
    write(tmp_path / "out", "new")
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_what_is_half_written_never_replaces_what_is_good(tmp_path, error):
    write(tmp_path / "out", "old")

    def write_half():
        with whole_folder(tmp_path / "out") as built:
            (built / "file.txt").write_text("half")
            raise error

    with pytest.raises(type(error)):
        write_half()
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "file.txt").read_text() == "old"


def test_a_move_that_fails_is_taken_back(tmp_path, monkeypatch):
    write(tmp_path / "out", "old")
    monkeypatch.setattr(folder, "_exchange", lambda one, other: False)
    rename = Path.rename

    def fail_on_the_new(self, target):
        if Path(target).name == "out" and not self.name.endswith("-old"):
            raise OSError("busy")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_on_the_new)
    with pytest.raises(OSError, match="busy"):
        write(tmp_path / "out", "new")
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "file.txt").read_text() == "old"


def test_through_a_link(tmp_path):
    write(tmp_path / "real", "old")
    (tmp_path / "out").symlink_to(tmp_path / "real")
    write(tmp_path / "out", "new")
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "real" / "file.txt").read_text() == "new"


def test_taken(tmp_path):
    write(tmp_path / "out", "old")
    with pytest.raises(InputError, match="is not empty; replace it with --overwrite"):
        require_free(tmp_path / "out", overwrite=False)
    require_free(tmp_path / "out", overwrite=True)


@pytest.mark.parametrize("about", [None, "", "[]", '{"format": "other"}', "\x00"])
def test_what_is_not_ours_is_never_replaced(tmp_path, about):
    (tmp_path / "photo.jpg").write_text("precious")
    if about is not None:
        (tmp_path / ABOUT).write_text(about)
    with pytest.raises(InputError, match="another folder; it is not replaced"):
        require_free(tmp_path, overwrite=True)


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "out").write_text("x")
    with pytest.raises(InputError, match="found a file"):
        require_free(tmp_path / "out", overwrite=True)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_shut(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot write to folder"), whole_folder(tmp_path / "out"):
        pass
    tmp_path.chmod(0o700)
