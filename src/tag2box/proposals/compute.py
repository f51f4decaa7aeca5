"""Proposals for every image of a data set: several processes, resumable, the same bytes however often it was killed."""

import hashlib
import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Container, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from pathlib import Path

from tag2box.data.images import read_image
from tag2box.data.records import Dataset
from tag2box.files import make_folder, require_writable
from tag2box.progress import progress
from tag2box.proposals.extend import take_over
from tag2box.proposals.jit import COMPILED
from tag2box.proposals.journal import Journal
from tag2box.proposals.selective_search import Settings, selective_search
from tag2box.proposals.store import ProposalBoxes, ProposalStore, digest_images, open_store, write_store


def compute_proposals(
    dataset: Dataset,
    path: Path,
    settings: Settings,
    *,
    workers: int | None = None,
    overwrite: bool = False,
    ours: bool = False,
) -> ProposalStore:
    """The store at `path`, computed where it is not there yet.

    A store that is there and fits is used as it is. Where images have been added or resized, these alone are computed,
    and those that are gone are dropped; see `take_over` for what is refused. With `overwrite` all is computed anew. A
    run that was stopped, by whatever means, goes on where it was.
    """
    kept: dict[int, ProposalBoxes] = {}
    if path.exists() and not overwrite:
        old = ProposalStore(path)
        if old.made_with(settings.as_dict()) and old.serves(dataset):
            return old
        kept = take_over(old, dataset, settings.as_dict(), ours=ours)
    make_folder(path.parent)
    require_writable(path)
    if not COMPILED:
        print("numba is not installed: this takes some 200 times as long (pip install numba)", file=sys.stderr)
    fingerprint = _fingerprint(dataset, settings)
    journal = Journal(path.with_name(path.name + ".partial"), fingerprint)
    try:
        _fill(journal, dataset, settings, workers or os.cpu_count() or 1, kept)
        numbers = range(len(dataset))
        write_store(
            path,
            dataset.ids,
            [image.size for image in dataset],
            settings.as_dict(),
            [len(kept[number]) if number in kept else journal.count(number) for number in numbers],
            (kept[number] if number in kept else journal.read(number) for number in numbers),
        )
    except KeyboardInterrupt:
        journal.close()
        raise KeyboardInterrupt("stopped; the same command goes on from here") from None
    except BaseException:
        journal.close()
        raise
    journal.remove()
    return open_store(path, dataset, settings.as_dict())


def _fingerprint(dataset: Dataset, settings: Settings) -> str:
    images = digest_images(dataset.ids, [image.size for image in dataset])
    return hashlib.sha256(f"{images} {json.dumps(settings.as_dict())}".encode()).hexdigest()


def _fill(journal: Journal, dataset: Dataset, settings: Settings, workers: int, kept: Container[int]) -> None:
    """Compute what is neither kept nor in the journal."""
    todo = [number for number in range(len(dataset)) if number not in kept and number not in journal]
    done = len(dataset) - len(todo)
    with progress("proposals", total=len(dataset), done=done) as count_one:
        paths = [dataset[number].path for number in todo]
        with closing(_beside(paths, settings, min(workers, len(todo)))) as results:
            for index, boxes in results:
                journal.append(todo[index], boxes)
                count_one()


def propose(path: Path, settings: Settings) -> ProposalBoxes:
    """The proposals of one picture file."""
    return selective_search(read_image(path), settings)


def _beside(
    paths: Sequence[Path], settings: Settings, workers: int
) -> Generator[tuple[int, ProposalBoxes], None, None]:
    """(index, boxes) of every path, in order of finishing."""
    pool: Executor
    if workers <= 1:
        pool = ThreadPoolExecutor(1)  # Ctrl-C reaches the main thread, where it would break off compiled code
    else:
        # Spawned, not forked: a fork of a process with OpenCV's or PyTorch's threads may hang.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=start_worker)

    def submit(path: Path) -> "Future[ProposalBoxes]":
        with deaf_children():  # the pool starts its processes as tasks come
            return pool.submit(propose, path, settings)

    try:
        yield from _collect(submit, paths, ahead=4 * workers if workers > 1 else 1)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _collect(
    submit: Callable[[Path], "Future[ProposalBoxes]"], paths: Sequence[Path], ahead: int
) -> Iterator[tuple[int, ProposalBoxes]]:
    """Keep a few tasks ahead of the workers, not millions, and hand out results as they come."""
    running: dict[Future[ProposalBoxes], int] = {}
    for index, path in enumerate(paths):
        running[submit(path)] = index
        if len(running) >= ahead:
            yield from _finished(running)
    while running:
        yield from _finished(running)


def _finished(running: dict["Future[ProposalBoxes]", int]) -> Iterator[tuple[int, ProposalBoxes]]:
    for future in wait(running, return_when=FIRST_COMPLETED).done:
        yield running.pop(future), future.result()


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes started meanwhile do not hear Ctrl-C from their first instruction on; here it waits until the end."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows; there start_worker has to do
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_worker() -> None:
    """One thread each, deaf to Ctrl-C (the parent handles it), and gone when the parent is, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    import cv2

    cv2.setNumThreads(1)


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
