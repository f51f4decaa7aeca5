import sqlite3
import subprocess
import sys
import threading

import pytest

from tag2box.errors import InputError
from tag2box.review.database import Database
from tag2box.review.store import Change, Outdated, Store

ALL = {"a", "b"}
BOX, OTHER = [1.0, 2.0, 30.0, 40.0], [5.0, 6.0, 7.0, 8.0]


def test_what_is_decided_is_there_after_reopening(database, store):
    store.decide("a", "cat", "accepted", [BOX, OTHER], 0)
    store.decide("a", "dög", "rejected", [], 0)
    store.decide("b", "cat", "open", [BOX], 0)
    database.close()
    again = Store(Database(database.path))
    assert again.known() == {"a": {"cat": [BOX, OTHER], "dög": []}}
    assert again.decisions("b")["cat"] == ("open", [BOX], 3)
    assert again.statuses() == {"a": {"cat": "accepted", "dög": "rejected"}, "b": {"cat": "open"}}


def test_undo_and_redo_all_the_way_and_after_reopening(database, store):
    first = store.decide("a", "cat", "open", [BOX], 0)
    second = store.decide("a", "cat", "accepted", [BOX], first.version)
    store.decide("b", "dog", "rejected", [], 0)
    database.close()
    store = Store(Database(database.path))
    for expected, known in ((Change("b", "dog"), {"a": {"cat": [BOX]}}), (Change("a", "cat"), {})):
        assert store.undo(ALL, store.version()) == expected
        assert store.known() == known
    assert store.decisions("a")["cat"][:2] == ("open", [BOX])
    assert store.decisions("a")["cat"].version > second.version
    assert store.undo(ALL, store.version()) == Change("a", "cat")
    assert store.decisions("a") == {}
    assert store.undo(ALL, store.version()) is None
    assert not store.can_undo(ALL)
    for expected in (Change("a", "cat"), Change("a", "cat"), Change("b", "dog")):
        assert store.can_redo(ALL)
        assert store.redo(ALL, store.version()) == expected
    assert store.redo(ALL, store.version()) is None
    assert store.known() == {"a": {"cat": [BOX]}, "b": {"dog": []}}


def test_after_a_new_change_there_is_nothing_to_redo(store):
    store.decide("a", "cat", "accepted", [BOX], 0)
    store.undo(ALL, store.version())
    store.decide("b", "cat", "accepted", [OTHER], 0)
    assert not store.can_redo(ALL)
    assert store.redo(ALL, store.version()) is None
    assert store.undo(ALL, store.version()) == Change("b", "cat")
    assert store.undo(ALL, store.version()) is None


def test_undo_keeps_to_the_images_of_the_data_set(store):
    store.decide("a", "cat", "accepted", [BOX], 0)
    store.decide("b", "cat", "accepted", [BOX], 0)
    assert store.undo({"a"}, store.version()) == Change("a", "cat")
    assert store.redo({"b"}, store.version()) is None
    assert store.redo({"a"}, store.version()) == Change("a", "cat")
    assert store.known().keys() == {"a", "b"}


def test_nobody_overwrites_what_they_have_not_seen(store):
    seen = store.decide("a", "cat", "accepted", [BOX], 0)
    for based_on in (0, seen.version + 1):
        with pytest.raises(Outdated):
            store.decide("a", "cat", "rejected", [], based_on)
    with pytest.raises(Outdated):
        store.undo(ALL, seen.version - 1)
    assert store.known() == {"a": {"cat": [BOX]}}
    assert store.version() == seen.version  # a refused change leaves no trace
    assert store.decide("a", "cat", "rejected", [], seen.version).version > seen.version


def test_two_servers_on_one_file(database, store):
    other = Store(Database(database.path))
    store.decide("a", "cat", "accepted", [BOX], 0)
    with pytest.raises(Outdated):
        other.decide("a", "cat", "rejected", [], 0)
    other.decide("b", "cat", "accepted", [OTHER], 0)
    assert store.known() == other.known() == {"a": {"cat": [BOX]}, "b": {"cat": [OTHER]}}


def test_many_threads_and_connections_lose_nothing(database):
    stores = [Store(database), Store(Database(database.path))]

    def work(number):
        for image in range(10):
            stores[number % 2].decide(f"{number}-{image}", "cat", "accepted", [BOX], 0)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores[0].known()) == 60
    assert stores[0].version() == 60


def test_a_crash_loses_nothing(tmp_path):
    """The process ends without a word right after the last decision, and in the middle of a change."""
    path = tmp_path / "review.sqlite"
    code = f"""
import os
from pathlib import Path
from tag2box.review.database import Database
from tag2box.review.store import Store
database = Database(Path({str(path)!r}))
store = Store(database)
for number in range(20):
    store.decide(str(number), "cat", "accepted", [[1, 2, 3, 4]], 0)
with database.write():
    database.change("DELETE FROM decisions")
    os._exit(1)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 1
    store = Store(Database(path))
    assert len(store.known()) == 20
    assert store.undo({"19"}, store.version()) == Change("19", "cat")


def test_times_of_decisions(store):
    draft = store.decide("a", "cat", "open", [BOX], 0)
    store.decide("a", "cat", "accepted", [BOX], draft.version)
    store.decide("b", "cat", "rejected", [], 0)
    times = store.decided_at(10)
    assert len(times) == 2
    assert times == sorted(times)
    assert store.decided_at(1) == times[1:]
    store.undo(ALL, store.version())
    assert store.decided_at(10) == times[:1]


def test_other_files_are_refused_and_left_alone(tmp_path):
    text, other = tmp_path / "notes.txt", tmp_path / "other.sqlite"
    text.write_text("no database" * 100)
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    before = {path: path.read_bytes() for path in (text, other)}
    for path, words in ((text, "not a database"), (other, "found another SQLite database")):
        with pytest.raises(InputError, match=words) as refused:
            Database(path)
        assert "\n" not in str(refused.value)
    assert {path: path.read_bytes() for path in (text, other)} == before
    assert sorted(tmp_path.iterdir()) == [text, other]
    with pytest.raises(InputError, match="unable to open"):
        Database(tmp_path / "nowhere" / "review.sqlite")


def test_a_file_of_a_later_version(database):
    database.close()
    connection = sqlite3.connect(database.path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(InputError, match="expected a review file of version 1, found 2"):
        Database(database.path)


def test_one_file_is_left_behind(database, store):
    store.decide("a", "cat", "accepted", [BOX], 0)
    assert len(list(database.path.parent.glob("review.sqlite*"))) > 1
    database.close()
    assert list(database.path.parent.glob("review.sqlite*")) == [database.path]
