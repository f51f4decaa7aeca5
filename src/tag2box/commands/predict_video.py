"""Videos in and out, by OpenCV: some of the frames as pictures, and the annotated ones as a video again."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tag2box.errors import InputError
from tag2box.files import atomic_path, make_folder

_SUFFIXES = frozenset(
    {".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".wmv", ".flv", ".ogv", ".mts", ".m2ts", ".3gp"}
)
_CODEC = "mp4v"  # OpenCV's packages have its encoder everywhere; H.264's they may not carry
_USUAL_RATE = 25.0


class Video(NamedTuple):
    """What a video says of itself; the number of frames is a guess in some formats."""

    rate: float
    """Frames a second."""
    frames: int


class Every(NamedTuple):
    """Which frames: the first, and then one of so many, or one in so many seconds."""

    number: float
    seconds: bool

    def step(self, rate: float) -> int:
        """The distance in frames between two that are looked at."""
        return max(1, round(self.number * rate if self.seconds else self.number))


def parse_every(words: str) -> Every:
    """`10` is every tenth frame, `0.5s` a frame each half second.

    >>> parse_every("10").step(rate=25), parse_every("0.5s").step(rate=30)
    (10, 15)
    """
    seconds = words.endswith("s")
    try:
        number = float(words.removesuffix("s")) if seconds else int(words)
    except ValueError:
        number = 0
    if not (0 < number < math.inf):
        raise InputError(f"every: expected a number of frames (10) or seconds (0.5s), found '{words}'")
    return Every(number, seconds)


def is_video_name(name: str) -> bool:
    """Whether the extension is a video's."""
    return os.path.splitext(name)[1].lower() in _SUFFIXES  # noqa: PTH122 - asked of many names


def probe_video(path: Path) -> Video | str:
    """A video's frame rate and length, or what is wrong with it."""
    import cv2

    capture = _open(path)
    try:
        if not capture.isOpened():
            return "not a video that OpenCV can open"
        if not capture.grab():
            return "a video without frames"
        rate, frames = capture.get(cv2.CAP_PROP_FPS), capture.get(cv2.CAP_PROP_FRAME_COUNT)
    finally:
        capture.release()
    rate = rate if 0 < rate < 1000 else _USUAL_RATE
    return Video(rate, max(1, int(frames)) if 0 < frames < 1e9 else 1)


def read_frames(path: Path, step: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Every `step`-th frame from the first on, by number from 0: RGB [H, W, 3]."""
    import cv2

    capture, number = _open(path), 0
    try:
        while capture.grab():
            if number % step == 0:
                whole, frame = capture.retrieve()
                if whole:
                    yield number, np.ascontiguousarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB), dtype=np.uint8)
            number += 1
    finally:
        capture.release()


@contextmanager
def write_video(path: Path, rate: float) -> Iterator[Callable[[int, Image.Image], None]]:
    """Yields what takes frame after frame, with its number; the video appears under its name when all are in.

    Where OpenCV cannot encode, frames become pictures in a folder of the video's name without its extension.
    """
    make_folder(path.parent)
    with atomic_path(path) as temporary:
        writer: Any = None

        def add(number: int, picture: Image.Image) -> None:
            nonlocal writer
            writer = writer or _new_writer(temporary, rate, picture.size)
            if writer.isOpened():
                writer.write(np.ascontiguousarray(np.asarray(picture)[..., ::-1]))
            else:
                make_folder(path.with_suffix(""))
                with atomic_path(path.with_suffix("") / f"{number:06d}.jpg") as one:
                    picture.save(one, quality=92)

        try:
            yield add
        finally:
            if writer is not None:
                writer.release()
    if not path.stat().st_size:  # nothing was encoded
        path.unlink()


def _open(path: Path) -> Any:
    return _quiet_cv2().VideoCapture(str(path))


def _new_writer(path: Path, rate: float, size: tuple[int, int]) -> Any:
    cv2 = _quiet_cv2()
    return cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*_CODEC), max(1.0, rate), size)


def _quiet_cv2() -> Any:
    """OpenCV; what it and FFmpeg would print about a file that is broken we say ourselves."""
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")  # read once, when the first video is opened
    import cv2

    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    return cv2
