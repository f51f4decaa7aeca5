"""Finished images of an unfinished run, one record each, appended as they come; a killed run goes on from here.

A record is complete or it is not counted: what a kill left behind after the last whole record is cut off on reopening.
The order of records is that of finishing, which differs from run to run; readers take them by image number.
"""

import os
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tag2box.errors import InputError
from tag2box.proposals.store import ProposalBoxes

_RECORD = struct.Struct("<III")  # image number, count of boxes, checksum over both and the boxes
_MAGIC = b"tag2box journal 1\n"


class Journal:
    """Boxes by image number, on disk. `fingerprint` says which images and settings; any other journal is restarted."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path = path
        self._places: dict[int, tuple[int, int]] = {}
        self._file = _open(path)
        head = _MAGIC + fingerprint.encode() + b"\n"
        if self._file.read(len(head)) == head:
            self._recover()
        else:
            self._file.seek(0)
            self._file.truncate()
            self._file.write(head)
            self._file.flush()

    def __contains__(self, number: int) -> bool:
        return number in self._places

    def __len__(self) -> int:
        return len(self._places)

    def count(self, number: int) -> int:
        """How many boxes were recorded for the image."""
        return self._places[number][1]

    def append(self, number: int, boxes: ProposalBoxes) -> None:
        """Record an image's boxes. On return they are with the operating system: a kill from then on loses nothing."""
        self._file.seek(0, os.SEEK_END)
        place = self._file.tell() + _RECORD.size
        data = boxes.tobytes()
        self._file.write(_RECORD.pack(number, len(boxes), _checksum(number, len(boxes), data)) + data)
        self._file.flush()
        self._places[number] = (place, len(boxes))

    def read(self, number: int) -> ProposalBoxes:
        """The boxes recorded for an image."""
        place, count = self._places[number]
        self._file.seek(place)
        return np.frombuffer(self._file.read(count * 8), dtype="<i2").reshape(count, 4)

    def close(self) -> None:
        """Let go of the file, which stays."""
        self._file.close()

    def remove(self) -> None:
        """Close and delete, when all it held is elsewhere."""
        self.close()
        self.path.unlink()

    def _recover(self) -> None:
        """Index the whole records and cut off what follows them."""
        good, end = self._file.tell(), self.path.stat().st_size
        while len(head := self._file.read(_RECORD.size)) == _RECORD.size:
            number, count, checksum = _RECORD.unpack(head)
            if count * 8 > end - self._file.tell():  # cut off, or a count not to be believed
                break
            data = self._file.read(count * 8)
            if _checksum(number, count, data) != checksum:
                break
            self._places[number] = (good + _RECORD.size, count)
            good = self._file.tell()
        self._file.truncate(good)


def _checksum(number: int, count: int, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(struct.pack("<II", number, count)))


def _open(path: Path) -> BinaryIO:
    """Open for reading and appending, made when missing, and held by one process at a time."""
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose a place with --out") from None
    _lock(file, path)
    return file


def _lock(file: BinaryIO, path: Path) -> None:
    """Two runs writing one journal would spoil it: the second is refused. The lock ends with the process."""
    try:
        import fcntl
    except ImportError:  # Windows has no advisory locks of this kind
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise InputError(f"another run is writing {path}: wait for it, or choose another file with --out") from None
