"""What a fixed net saw of regions cut out of pictures (`CutHead`), kept on the disk: no command looks twice.

To look takes a CPU a third of a second a picture, and training, its resumption, labels, ranking and review all ask for
the same. So what is seen goes into a SQLite file beside the proposals, under a digest of all that it depends on: the
net, the picture's pixels and the regions. Nothing in it can be out of date, and it may be deleted at any time.
"""

import hashlib
import shutil
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tag2box.nets.region_eye import RegionEye
from tag2box.nets.roi_head import CutHead, RoIHead
from tag2box.proposals.store import OURS

FILE = "looks.sqlite"
RESERVE = 2 << 30
"""Bytes that the disk keeps free: a run's own files have to fit."""
PATIENCE_S = 10
"""How long to wait for another process that is writing."""


@dataclass(slots=True)
class KeptLooks:
    """What one net saw, in a file that others may share. Where it cannot be used, the net looks again."""

    path: Path
    eye: bytes
    """A digest of the net and of how it looks."""
    usable: bool = True

    def __call__(self, pictures: Tensor, boxes: Sequence[Tensor], look: Callable[[], Tensor]) -> Tensor:
        """What `look` gives, or gave when it was asked of these pictures [N, 3, H, W] and N times [R_i, 4]."""
        if not self.usable:
            return look()
        key = _digest(self.eye, pictures, *boxes)
        kept = self._read(key)
        if kept is None:
            kept = look()
            if self.usable:  # still
                self._write(key, kept)
        return kept

    def _read(self, key: bytes) -> Tensor | None:
        if not self.path.exists():
            return None
        try:
            with closing(self._opened()) as file:
                row = file.execute("SELECT shape, seen FROM looks WHERE key = ?", (key,)).fetchone()
            return None if row is None else _tensor(*row)
        except (sqlite3.Error, ValueError) as error:
            self._give_up(error)
            return None

    def _write(self, key: bytes, seen: Tensor) -> None:
        rows = seen.half().numpy().astype("<f2").tobytes()
        try:
            if shutil.disk_usage(self.path.parent).free < RESERVE:
                raise OSError("the disk is nearly full")
            with closing(self._opened()) as file, file:
                shape = " ".join(map(str, seen.shape))
                file.execute("INSERT OR IGNORE INTO looks VALUES (?, ?, ?)", (key, shape, rows))
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def _opened(self) -> sqlite3.Connection:
        """Anew each time, which takes a hundredth of a look at most: nets are copied, and threads look."""
        file = sqlite3.connect(self.path, timeout=PATIENCE_S)
        try:
            file.execute("CREATE TABLE IF NOT EXISTS looks (key BLOB PRIMARY KEY, shape TEXT, seen BLOB)")
        except BaseException:
            file.close()
            raise
        return file

    def _give_up(self, error: Exception) -> None:
        self.usable = False
        print(f"{self.path}: what is seen of regions is not kept ({error})", file=sys.stderr)


def keep_looks(head: RoIHead, folder: Path) -> None:
    """Let a head that looks at regions cut out keep what it sees in that folder; others have nothing to keep.

    The folder is that of the proposals. Where a user has put those elsewhere, nothing is put beside them.
    """
    if not isinstance(head, CutHead) or folder.name != OURS:
        return
    there = head.memory
    if not (isinstance(there, KeptLooks) and there.path == folder / FILE):
        head.memory = KeptLooks(folder / FILE, _digest_of(head.eye))


def _tensor(shape: str, seen: bytes) -> Tensor:
    """ValueError where the one does not fit the other."""
    numbers = np.frombuffer(seen, dtype="<f2").astype(np.float32)
    return torch.from_numpy(numbers.reshape([int(side) for side in shape.split()]))


def _digest_of(eye: RegionEye) -> bytes:
    how = f"{eye.size} {torch.__version__}".encode()
    return _digest(how, *(eye.state_dict()[name] for name in sorted(eye.state_dict())))


def _digest(first: bytes, *tensors: Tensor) -> bytes:
    digest = hashlib.blake2b(first, digest_size=16)
    for one in tensors:
        digest.update(str((one.dtype, *one.shape)).encode())
        digest.update(one.detach().cpu().contiguous().numpy().data)
    return digest.digest()
