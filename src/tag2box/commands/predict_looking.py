"""A detector at work on a stream of pictures: others search them ahead of the net, which sees several together."""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tag2box.config import Inference
from tag2box.detections import Detections
from tag2box.detector import Detector
from tag2box.errors import InputError
from tag2box.inference import Found, as_detections
from tag2box.pipeline import Pixels, in_batches, read_and_search, run_ahead, size_of
from tag2box.proposals.selective_search import preset
from tag2box.proposals.store import ProposalBoxes


class Shot(NamedTuple):
    """A picture to look at: a file, or a frame of a video."""

    id: str
    picture: Path | Pixels
    place: int = 0
    """Which file, or the number of the frame."""


class _Ready(NamedTuple):
    shot: Shot
    pixels: Pixels
    proposals: ProposalBoxes | None


Keep = Callable[[Shot, Pixels, Found], None]


@dataclass(kw_only=True)
class Looking:
    """What was found so far, and how long it took."""

    detector: Detector
    settings: Inference
    batch: int
    pool: Executor
    ahead: int
    """Pictures that may be read and searched before the net asks for them."""
    skip: bool
    """Go on without pictures that turn out to be broken."""
    count_one: Callable[[], None]
    ids: list[str] = field(default_factory=list)
    """Of the pictures that could be read."""
    found: dict[str, Found] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: {"net": 0.0, "drawing": 0.0})

    def look(self, shots: Iterable[Shot], keep: Keep) -> None:
        """Look at all of them and hand each to `keep`; those of one size in their order."""
        ready = self._searched(shots)
        for together in in_batches(ready, self._seen_at, self.batch):
            with self._timed("net"):
                pixels, proposals = [one.pixels for one in together], [one.proposals for one in together]
                found = self.detector.detect_together(pixels, proposals, self.settings)
            for one, own in zip(together, found, strict=True):
                self.found[one.shot.id] = own
                with self._timed("drawing"):
                    keep(one.shot, one.pixels, own)
                self.count_one()

    def detections(self) -> Detections:
        """All that was found, in the order of the shots."""
        return as_detections(self.detector.classes, self.ids, [self.found[id] for id in self.ids])

    def _seen_at(self, one: _Ready) -> Hashable:
        return self.detector.seen_at(size_of(one.pixels), self.settings)

    def _searched(self, shots: Iterable[Shot]) -> Iterator[_Ready]:
        search = None if self.detector.proposes else preset(self.detector.recipe.data.proposals)

        def submit(shot: Shot) -> "Future[tuple[Pixels, ProposalBoxes | None]]":
            return self.pool.submit(read_and_search, shot.picture, search)

        for shot, future in run_ahead(submit, shots, self.ahead):
            try:
                pixels, proposals = future.result()
            except InputError as error:  # it was whole when all were checked
                if not self.skip:
                    raise
                self.bad.append(str(error))
                continue
            self.ids.append(shot.id)
            yield _Ready(shot, pixels, proposals)

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[part] += time.monotonic() - began
