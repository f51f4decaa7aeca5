import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tag2box.errors import InputError
from tag2box.proposals.journal import Journal

FINGERPRINT = "abc123"
RECORDS = {7: 2, 0: 0, 3: 3, 70000: 1}  # boxes of each image, in order of finishing
MORE = 9


def boxes_of(number, count):
    return np.random.default_rng(number).integers(-(2**15), 2**15, (count, 4)).astype("<i2")


@pytest.fixture
def written(tmp_path):
    """A journal's bytes, and where each record ends."""
    path = tmp_path / "whole"
    journal = Journal(path, FINGERPRINT)
    ends = [path.stat().st_size]
    for number, count in RECORDS.items():
        journal.append(number, boxes_of(number, count))
        ends.append(path.stat().st_size)  # each is with the operating system as soon as append returns
    journal.close()
    return path.read_bytes(), ends


def assert_holds(journal, numbers):
    assert len(journal) == len(numbers)
    for number in RECORDS:
        assert (number in journal) == (number in numbers)
    for number in numbers:
        assert journal.count(number) == RECORDS[number]
        np.testing.assert_array_equal(journal.read(number), boxes_of(number, RECORDS[number]))


def assert_goes_on(path, numbers):
    """Reopened it holds exactly these; what is appended joins them, now and after another reopening."""
    journal = Journal(path, FINGERPRINT)
    assert_holds(journal, numbers)
    journal.append(MORE, boxes_of(MORE, 4))
    np.testing.assert_array_equal(journal.read(MORE), boxes_of(MORE, 4))
    journal.close()
    journal = Journal(path, FINGERPRINT)
    np.testing.assert_array_equal(journal.read(MORE), boxes_of(MORE, 4))
    assert len(journal) == len(numbers) + 1
    assert [number for number in RECORDS if number in journal] == numbers
    journal.close()


def test_cut_off_at_every_length(tmp_path, written):
    data, ends = written
    path = tmp_path / "cut"
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        assert_goes_on(path, list(RECORDS)[: sum(end <= length for end in ends[1:])])


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_single_byte_damaged(tmp_path, written, flip):
    data, ends = written
    path = tmp_path / "damaged"
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= flip
        path.write_bytes(damaged)
        whole = 0 if place < ends[0] else sum(end <= place for end in ends[1:])
        assert_goes_on(path, list(RECORDS)[:whole])


@given(st.binary(max_size=60), st.booleans())
@settings(max_examples=100, deadline=None)
def test_rubbish_behind_the_records_is_cut_off(tmp_path_factory, rubbish, zeros):
    path = tmp_path_factory.mktemp("journal") / "j"
    journal = Journal(path, FINGERPRINT)
    journal.append(7, boxes_of(7, 2))
    journal.close()
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(rubbish + bytes(30 if zeros else 0))  # a crash of the machine can leave zeros
    journal = Journal(path, FINGERPRINT)
    assert_holds(journal, [7])
    assert path.stat().st_size == size
    journal.close()


def test_the_last_record_of_an_image_counts(tmp_path):
    journal = Journal(tmp_path / "j", FINGERPRINT)
    journal.append(1, boxes_of(1, 2))
    journal.append(1, boxes_of(2, 3))
    assert (len(journal), journal.count(1)) == (1, 3)
    np.testing.assert_array_equal(journal.read(1), boxes_of(2, 3))


@pytest.mark.parametrize("other", ["abc124", "abc12", "abc1234", ""])
def test_another_fingerprint_starts_anew(tmp_path, written, other):
    path = tmp_path / "j"
    path.write_bytes(written[0])
    journal = Journal(path, other)
    assert len(journal) == 0
    journal.append(1, boxes_of(1, 1))
    journal.close()
    assert 1 in Journal(path, other)


def test_removed_when_done(tmp_path):
    journal = Journal(tmp_path / "j", FINGERPRINT)
    journal.remove()
    assert list(tmp_path.iterdir()) == []


def test_where_it_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match=r"cannot write .*--out"):
        Journal(tmp_path / "missing" / "j", FINGERPRINT)


@pytest.mark.skipif(os.name != "posix", reason="there are no such locks on Windows")
def test_a_second_run_is_refused_and_the_first_unharmed(tmp_path):
    path = tmp_path / "j"
    journal = Journal(path, FINGERPRINT)
    journal.append(7, boxes_of(7, 2))
    with pytest.raises(InputError, match="another run is writing"):
        Journal(path, "other")
    elsewhere = (
        f"from tag2box.proposals.journal import Journal; from pathlib import Path; Journal(Path({str(path)!r}), '')"
    )
    second = subprocess.run([sys.executable, "-c", elsewhere], capture_output=True, text=True)
    assert "another run is writing" in second.stderr
    assert_holds(journal, [7])
    journal.close()
    assert_goes_on(path, [7])
