"""Progress on standard error: a bar on a terminal, elsewhere a line a minute; nothing for what is over in a moment."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_S = 2.0
LINE_EVERY_S = 60.0
"""In a log, where no bar can be drawn."""


@contextmanager
def progress(what: str, total: int, done: int = 0, unit: str = "images") -> Iterator[Callable[[], None]]:
    """A bar over `total` images or other units, of which `done` were finished before; yields what counts one more.

    It shows how many of them a second in this run, which those finished before do not swell, and the time left.
    """
    if not sys.stderr.isatty():
        yield _in_a_log(what, total, done, unit)
        return
    from rich.console import Console  # here, since most calls need no bar
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = TextColumn("{task.fields[rate]:.1f} {task.fields[unit]}/s", style="progress.data.speed")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    task = bar.add_task(what, total=total, completed=done, rate=0.0, unit=unit)
    began, counted = time.monotonic(), 0

    def count_one() -> None:
        nonlocal counted
        counted += 1
        seconds = time.monotonic() - began
        bar.update(task, advance=1, rate=counted / max(seconds, 1e-9))
        if seconds > PATIENCE_S:
            bar.start()  # does nothing when already started

    try:
        yield count_one
    finally:
        bar.stop()


def _in_a_log(what: str, total: int, done: int, unit: str) -> Callable[[], None]:
    began = said = time.monotonic()
    first = os.environ.get("RANK", "0") == "0"  # of several processes one is enough

    def count_one() -> None:
        nonlocal done, said
        done += 1
        now = time.monotonic()
        if first and now - said >= LINE_EVERY_S:
            said = now
            print(f"{what}: {done:,} of {total:,} {unit}; {now - began:.0f} s", file=sys.stderr, flush=True)

    return count_one
