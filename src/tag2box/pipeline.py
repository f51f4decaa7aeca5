"""How pictures travel to the net: read and searched by workers a little ahead of it, then shown to it in batches."""

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tag2box.data.images import read_image
from tag2box.errors import InputError
from tag2box.proposals.compute import deaf_children, start_worker
from tag2box.proposals.selective_search import Settings, selective_search
from tag2box.proposals.store import ProposalBoxes

Item = TypeVar("Item")
Result = TypeVar("Result")
Pixels = NDArray[np.uint8]
"""RGB [H, W, 3]."""

AHEAD = 4
"""So many pictures for each worker may be done or waiting: enough to keep it busy, few enough to hold in memory."""
WINDOW = 4
"""So many batches of pictures may wait until enough of one size have come."""
WORTH_A_PROCESS = 8
"""With fewer pictures for each, processes would be starting for longer than they work."""


def size_of(pixels: Pixels) -> tuple[int, int]:
    """Width and height of a picture."""
    return pixels.shape[1], pixels.shape[0]


def read_and_search(picture: Path | Pixels, settings: Settings | None) -> tuple[Pixels, ProposalBoxes | None]:
    """A picture and its proposals, where they are to be searched for."""
    pixels = read_image(picture) if isinstance(picture, Path) else picture
    return pixels, None if settings is None else selective_search(pixels, settings)


def count_workers(workers: int | None, items: int) -> int:
    """As many as asked for, by default one per core; no more than there are things to do."""
    if workers is not None and workers < 1:
        raise InputError(f"workers: expected 1 or more, found {workers}")
    return max(1, min(workers or os.cpu_count() or 1, items))


@contextmanager
def worker_pool(workers: int, *, processes: bool) -> Iterator[Executor]:
    """Processes, or threads, which share memory and start at once; what is still waiting at the end is dropped.

    Most of the search lets go of the interpreter lock, so that a few threads do; many cores need processes.
    """
    pool: Executor
    if processes:
        # Spawned, not forked: a fork of a process with OpenCV's or PyTorch's threads may hang.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=start_worker)
    else:
        pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def run_ahead(
    submit: Callable[[Item], "Future[Result]"], items: Iterable[Item], ahead: int
) -> Iterator[tuple[Item, "Future[Result]"]]:
    """The work on each item, in their order; `ahead` items are begun before the first result is asked for."""
    begun: deque[tuple[Item, Future[Result]]] = deque()
    for item in items:
        with deaf_children():  # a pool starts its processes as tasks come
            begun.append((item, submit(item)))
        if len(begun) >= ahead:
            yield begun.popleft()
    while begun:
        yield begun.popleft()


def in_batches(items: Iterable[Item], kind: Callable[[Item], Hashable], batch: int) -> Iterator[list[Item]]:
    """Items of one kind together, at most `batch`, in the order in which batches fill; within a kind, order is kept.

    >>> list(in_batches("aBcDE", str.isupper, batch=2))
    [['a', 'c'], ['B', 'D'], ['E']]
    """
    if batch < 1:
        raise InputError(f"batch: expected 1 or more, found {batch}")
    waiting: dict[Hashable, list[Item]] = {}
    for item in items:
        together = waiting.setdefault(kind(item), [])
        together.append(item)
        if len(together) == batch:
            yield waiting.pop(kind(item))
        elif sum(map(len, waiting.values())) >= WINDOW * batch:
            yield waiting.pop(next(iter(waiting)))  # whichever has waited longest
    yield from waiting.values()
