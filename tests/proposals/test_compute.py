import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tag2box.data import open_dataset, read_image
from tag2box.errors import InputError
from tag2box.proposals import compute
from tag2box.proposals.compute import compute_proposals, propose
from tag2box.proposals.selective_search import PRESETS, selective_search

SLOW = PRESETS["thorough"]  # so that there is time to interrupt it
on_linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")


@pytest.fixture(scope="module")
def dataset(demo_devkit):
    return open_dataset(demo_devkit, "trainval")


@pytest.fixture(scope="module")
def uninterrupted(dataset, tmp_path_factory):
    """The bytes of a store computed in one go by one process."""
    path = tmp_path_factory.mktemp("store") / "whole"
    compute_proposals(dataset, path, SLOW, workers=1)
    return path.read_bytes()


@pytest.fixture
def tiny(tmp_path, save_picture):
    """Eight pictures of noise, over in a moment."""
    for number in range(8):
        save_picture(tmp_path / "data" / "cat" / f"{number}.png", (20 + number, 20))
    return open_dataset(tmp_path / "data")


def test_holds_the_boxes_of_every_picture(dataset, tmp_path):
    store = compute_proposals(dataset.subset([n < 2 for n in range(12)]), tmp_path / "s", SLOW, workers=1)
    assert store.ids == dataset.ids[:2]
    for image in dataset.images[:2]:
        np.testing.assert_array_equal(store[image.id], selective_search(read_image(image.path), SLOW))
    assert store.settings == json.loads(json.dumps(SLOW.as_dict()))
    assert [file.name for file in tmp_path.iterdir()] == ["s"]


def test_two_workers_write_the_same_bytes_as_one(dataset, uninterrupted, tmp_path):
    compute_proposals(dataset, tmp_path / "s", SLOW, workers=2)
    assert (tmp_path / "s").read_bytes() == uninterrupted


def test_stopped_after_any_number_of_pictures(tiny, tmp_path, monkeypatch):
    compute_proposals(tiny, tmp_path / "whole", SLOW, workers=1)
    asked = []
    for count in range(len(tiny)):
        path = tmp_path / f"stopped after {count}"
        asked.clear()

        def stop_late(file, setting, count=count):
            asked.append(file)
            if len(asked) > count:
                raise KeyboardInterrupt
            return propose(file, setting)

        monkeypatch.setattr(compute, "propose", stop_late)
        with pytest.raises(KeyboardInterrupt):
            compute_proposals(tiny, path, SLOW, workers=1)
        assert not path.exists()

        asked.clear()
        monkeypatch.setattr(compute, "propose", lambda file, setting: asked.append(file) or propose(file, setting))
        compute_proposals(tiny, path, SLOW, workers=1)
        assert len(asked) == len(tiny) - count  # none is done twice
        assert path.read_bytes() == (tmp_path / "whole").read_bytes()
        assert not path.with_name(path.name + ".partial").exists()


def test_one_worker_leaves_the_main_thread_to_ctrl_c(tiny, tmp_path, monkeypatch):
    threads = set()
    monkeypatch.setattr(compute, "propose", lambda *how: threads.add(threading.current_thread().name) or propose(*how))
    compute_proposals(tiny, tmp_path / "s", SLOW, workers=1)
    assert len(threads) == 1
    assert threading.main_thread().name not in threads


def test_finished_in_any_order_gives_the_same_bytes(tiny, tmp_path, monkeypatch):
    compute_proposals(tiny, tmp_path / "whole", SLOW, workers=1)

    def backwards(paths, setting, workers):
        yield from ((n, propose(paths[n], setting)) for n in reversed(range(len(paths))))

    monkeypatch.setattr(compute, "_beside", backwards)
    compute_proposals(tiny, tmp_path / "backwards", SLOW)
    assert (tmp_path / "backwards").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_journal_of_other_settings_is_not_taken_over(tiny, tmp_path, monkeypatch):
    other = replace(SLOW, overlap=0.5)
    compute_proposals(tiny, tmp_path / "whole", other, workers=1)
    results = iter([propose(image.path, SLOW) for image in tiny.images[:3]])
    monkeypatch.setattr(compute, "propose", lambda *_: next(results, None))  # fails on the fourth
    with pytest.raises(AttributeError):
        compute_proposals(tiny, tmp_path / "s", SLOW, workers=1)
    assert (tmp_path / "s.partial").exists()
    monkeypatch.setattr(compute, "propose", propose)
    compute_proposals(tiny, tmp_path / "s", other, workers=1)
    assert (tmp_path / "s").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_store_that_fits_is_used_and_another_refused(tiny, tmp_path, monkeypatch):
    compute_proposals(tiny, tmp_path / "s", SLOW, workers=1)
    before = (tmp_path / "s").read_bytes()
    monkeypatch.setattr(compute, "propose", None)  # not needed any more
    assert compute_proposals(tiny, tmp_path / "s", SLOW).ids == tiny.ids
    other = replace(SLOW, max_boxes=10)
    with pytest.raises(InputError, match="other settings"):
        compute_proposals(tiny, tmp_path / "s", other)
    assert (tmp_path / "s").read_bytes() == before
    monkeypatch.setattr(compute, "propose", propose)
    assert compute_proposals(tiny, tmp_path / "s", other, workers=1, overwrite=True).settings["max_boxes"] == 10


def test_a_picture_gone_meanwhile_is_named_and_the_rest_kept(tiny, tmp_path):
    gone = tiny[3].path.read_bytes()
    tiny[3].path.unlink()
    with pytest.raises(InputError, match=r"cannot read the picture .*3\.png: no such file"):
        compute_proposals(tiny, tmp_path / "s", SLOW, workers=1)
    with pytest.raises(InputError, match=r"cannot read the picture .*3\.png: no such file"):
        compute_proposals(tiny, tmp_path / "s", SLOW, workers=2)
    tiny[3].path.write_bytes(gone)
    assert len(compute_proposals(tiny, tmp_path / "s", SLOW, workers=1)) == 8


def test_a_place_that_cannot_be_written_is_found_out_first(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(compute, "propose", None)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot make the folder"):
        compute_proposals(tiny, tmp_path / "file" / "below" / "s", SLOW)
    with pytest.raises(InputError, match="found a folder"):
        compute_proposals(tiny, tmp_path, SLOW, overwrite=True)


# ---- killed, as a process of its own


class Run:
    """`tag2box proposals` in a session of its own, so that all its processes can be told."""

    def __init__(self, devkit, out):
        self.journal = out.with_name(out.name + ".partial")
        command = [sys.executable, "-m", "tag2box", "proposals", devkit, "--split", "trainval"]
        self.process = subprocess.Popen(
            [*map(str, command), "--workers", "2", "--preset", "thorough", "--out", str(out)],
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a suite in the background ignores it
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, size):
        """Until the journal holds so many bytes."""
        end = time.monotonic() + 60
        while not (self.journal.exists() and self.journal.stat().st_size >= size):
            assert time.monotonic() < end
            assert self.process.poll() is None, self.process.communicate()[1]
            time.sleep(0.002)

    def left(self):
        """The processes of the session that are there yet; those only waiting to be collected do not count."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            except (OSError, ValueError):
                continue  # ended meanwhile
            if int(session) == self.process.pid and state not in "ZX":
                found.append(stat.parent.name)
        return found

    def assert_nothing_lingers(self):
        end = time.monotonic() + 20
        while self.left():
            assert time.monotonic() < end, f"processes {self.left()} are still there"
            time.sleep(0.02)


HEAD = len("tag2box journal 1\n") + 64 + 1
MOMENTS = [
    pytest.param(1, marks=pytest.mark.slow),  # workers are starting
    pytest.param(HEAD + 1, marks=pytest.mark.slow),  # one picture is done, or half of it written
    20_000,
    pytest.param(60_000, marks=pytest.mark.slow),
]


@on_linux
@pytest.mark.parametrize("size", MOMENTS)
def test_killed_and_run_again_gives_the_same_bytes(demo_devkit, dataset, uninterrupted, tmp_path, size):
    run = Run(demo_devkit, tmp_path / "s")
    run.wait_for(size)
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.communicate()
    run.assert_nothing_lingers()
    assert not (tmp_path / "s").exists()
    assert run.journal.stat().st_size >= size
    compute_proposals(dataset, tmp_path / "s", SLOW, workers=1)
    assert (tmp_path / "s").read_bytes() == uninterrupted
    assert [file.name for file in tmp_path.iterdir()] == ["s"]


@on_linux
@pytest.mark.slow
def test_killed_again_and_again(demo_devkit, uninterrupted, tmp_path):
    out = tmp_path / "s"
    size = HEAD
    while size < 50_000:
        run = Run(demo_devkit, out)
        run.wait_for(size + 1)
        os.killpg(run.process.pid, signal.SIGKILL)
        run.process.communicate()
        size = run.journal.stat().st_size
    run = Run(demo_devkit, out)
    assert run.process.wait(120) == 0
    run.process.communicate()
    assert out.read_bytes() == uninterrupted
    run.assert_nothing_lingers()


@on_linux
@pytest.mark.parametrize("size", [1, pytest.param(20_000, marks=pytest.mark.slow)])
def test_ctrl_c_says_one_line_and_the_work_is_kept(demo_devkit, dataset, uninterrupted, tmp_path, size):
    """A terminal sends the signal to the workers too."""
    run = Run(demo_devkit, tmp_path / "s")
    run.wait_for(size)
    if size == 1:
        time.sleep(0.3)  # workers are starting
    os.killpg(run.process.pid, signal.SIGINT)
    out, err = run.process.communicate(timeout=60)
    assert (run.process.returncode, out) == (130, "")
    assert err == "tag2box: stopped; the same command goes on from here\n"
    run.assert_nothing_lingers()
    assert run.journal.exists()
    compute_proposals(dataset, tmp_path / "s", SLOW, workers=1)
    assert (tmp_path / "s").read_bytes() == uninterrupted
