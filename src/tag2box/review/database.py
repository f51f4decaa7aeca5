"""The review file: one SQLite database, on the disk after every change, shared by threads and processes."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tag2box.errors import InputError

APPLICATION, SCHEMA_VERSION = 0x74326272, 1
PATIENCE_S = 10
"""How long a change waits for another process that is writing."""

_SCHEMA = """
CREATE TABLE decisions (
    image TEXT, class TEXT, status TEXT NOT NULL, boxes TEXT NOT NULL, version INTEGER NOT NULL,
    PRIMARY KEY (image, class)
) WITHOUT ROWID;
CREATE TABLE history (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, image TEXT NOT NULL, class TEXT NOT NULL,
    before TEXT, after TEXT NOT NULL, state TEXT NOT NULL
);
CREATE INDEX history_by_state ON history (state, number);
CREATE TABLE counter (version INTEGER NOT NULL);
INSERT INTO counter VALUES (0);
CREATE TABLE pictures (image TEXT PRIMARY KEY, fingerprint TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE looks (image TEXT PRIMARY KEY, made_from TEXT NOT NULL, look TEXT NOT NULL) WITHOUT ROWID;
"""


class Database:
    """An open review file; made where there is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        try:
            self._connection = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.Error as error:
            raise InputError(f"cannot use {path} as a review file: {error}") from None

    def _prepare(self) -> None:
        if not self._is_ours():
            with self.write():
                if not self._is_ours():  # still: another process may have been faster
                    for statement in _SCHEMA.split(";"):
                        self._connection.execute(statement)
                    self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
                    self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        # Readers and a writer do not wait for each other, and what is committed has reached the disk.
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")

    def _is_ours(self) -> bool:
        """Whether it is a review file; False where it is empty yet."""
        (application,), (version,), (tables,) = (
            self._connection.execute(asked).fetchone()
            for asked in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        if application == APPLICATION and version == SCHEMA_VERSION:
            return True
        if application == APPLICATION:
            raise InputError(f"{self.path}: expected a review file of version {SCHEMA_VERSION}, found {version}")
        if tables or application or version:
            raise InputError(f"{self.path}: expected a review file, found another SQLite database")
        return False

    def read(self, asked: str, *values: Any) -> list[Any]:
        """All rows of a question."""
        with self._lock:
            return self._connection.execute(asked, values).fetchall()

    def change(self, statement: str, *values: Any) -> None:
        """Within `write` only."""
        self._connection.execute(statement, values)

    @contextmanager
    def write(self) -> Iterator[None]:
        """All of the changes inside or none of them, and nobody else's in between."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Leave one file behind, without SQLite's helpers beside it."""
        with self._lock:
            self._connection.close()
