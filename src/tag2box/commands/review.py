"""`tag2box review`: a page on which a person accepts, corrects or rejects what the nets have found."""

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from rich.console import Console

from tag2box.commands.label import SCORES
from tag2box.commands.parts import Part, Source, Where, require_known_classes, require_tagged, tagged
from tag2box.commands.reviewed import COPY
from tag2box.data import Dataset, TaggedImage, open_dataset
from tag2box.errors import InputError, name_some, require_choice, require_packages
from tag2box.evaluation.tables import counted
from tag2box.files import make_folder, require_writable
from tag2box.known import Known, read_known, write_known
from tag2box.review.cache import LookCache, file_mark, note_pictures
from tag2box.review.database import Database
from tag2box.review.decided import known_of
from tag2box.review.following import next_steps
from tag2box.review.store import Store

if TYPE_CHECKING:
    from tag2box.pair import Pair
    from tag2box.review.desk import Desk
    from tag2box.review.look import Look

HOST = "127.0.0.1"
FILE = "review.sqlite"
LOOKS = 6
"""Raised when what is kept of a look changes."""


def export_decisions(
    run: Path, data: Path, out: Path, *, db: Path | None = None, split: str | None = None, images: Path | None = None
) -> None:
    """Write what has been decided so far as boxes.json."""
    path = run / FILE if db is None else db
    if not path.is_file():
        raise InputError(f"expected decisions of a review, found no file {path}")
    dataset = open_dataset(data, split, images=images, check=False, skip_bad_images=True)
    with closing(Database(path)) as database:
        _require_same_pictures(database, dataset)
        known = known_of(Store(database), dataset.classes, dataset.images)
        others = len(Store(database).known()) - len(known)
    if not known:
        raise InputError(f"{path}: expected decisions on images of {data}, found none")
    make_folder(out.parent)
    write_known(out, known)
    console = Console(highlight=False)
    decided = counted(sum(map(len, known.values())), "decision")
    left_out = f"; {counted(others, 'other image')} in {path} left out" if others else ""
    console.print(f"{decided} on {counted(len(known), 'image')}: {out}{left_out}", soft_wrap=True, markup=False)


def review(
    run: Path,
    data: Path,
    *,
    db: Path | None = None,
    split: str | None = None,
    most: int | None = None,
    by: str = "doubt",
    only: Sequence[str] = (),
    port: int = 0,
    browser: bool = True,
    device: str = "auto",
    **where: Unpack[Where],
) -> None:
    """Serve the page until Ctrl-C. Port 0: any that is free.

    by: what pictures are ordered by. only: show pictures with one of these tags, ordered by these.
    """
    require_packages("fastapi", "uvicorn", extra="review")
    if most is not None and most < 1:
        raise InputError(f"expected --most 1 or more, found {most}")
    from tag2box.pair import open_pair
    from tag2box.ranking import BY

    require_choice("--by", by, BY)
    pair = open_pair(run, device)
    source = Source(data=data, preset=pair.recipe.data.proposals, **where)
    listed = source.listed(split)
    require_known_classes(listed, pair.classes, run)
    require_tagged(listed, only)
    path = run / FILE if db is None else db
    new = not path.exists()
    require_writable(path)
    with closing(_listen(port)) as listener:
        part = source.open(split)
        require_tagged(part.dataset, only)  # those may be the ones that were broken
        learnt = _learnt(run, part.dataset) if new else {}
        part = part.subset([bool(image.tags) for image in part.dataset])  # elsewhere there is nothing to decide
        with closing(Database(path)) as database:
            _require_same_pictures(database, part.dataset)
            _begin_with(Store(database), learnt)
            place = {"split": split, "images": source.images, "proposals": source.proposals}
            following = next_steps(run, data, path, place | {"skip-bad-images": source.skip_bad_images})
            desk = _make_desk(database, pair, part, run, by=by, only=only, most=most, following=following)
            _serve(desk, listener, browser, path)


def _learnt(run: Path, dataset: Dataset) -> Known:
    """The decisions that a run has learnt from, where they are on these images."""
    try:
        return read_known(run / COPY, dataset) if (run / COPY).is_file() else {}
    except InputError as error:  # on others, of another split or data set; or the file is broken
        Console(highlight=False, markup=False).print(f"left out what the run has learnt from: {error}", soft_wrap=True)
        return {}


def _begin_with(store: Store, learnt: Known) -> None:
    """A new review of a run that has learnt from decisions goes on from these: a file has all of them in the end."""
    for image, entry in learnt.items():
        for name, boxes in entry.items():
            store.decide(image, name, "accepted" if boxes else "rejected", [list(box) for box in boxes], based_on=0)
    if learnt:
        decided = counted(sum(map(len, learnt.values())), "decision")
        Console(highlight=False).print(f"it begins with what the run has learnt from: {decided}", soft_wrap=True)


def _require_same_pictures(database: Database, dataset: Dataset) -> None:
    """Two data sets may call different pictures by the same name."""
    others = note_pictures(database, dataset.images)
    if others:
        raise InputError(
            f"{database.path}: expected decisions on these pictures, found some on others of the same name "
            f"({name_some(others, 3)}); keep these in another file with --db"
        )


def _make_desk(
    database: Database, pair: "Pair", part: Part, run: Path, *, by: str, only: Sequence[str], **how: Any
) -> "Desk":
    from tag2box.review.desk import Desk
    from tag2box.review.looker import Looker

    weights = [run / "weights" / f"{name}.safetensors" for name in ("best", "last", "conditional")]
    marks = [file_mark(path) for path in (*weights, part.store.path) if path.is_file()]
    cache = LookCache(database, [LOOKS, marks, SCORES])
    looker = Looker(tagged(part, only).dataset.images, cache, _look_with(pair, part), by=by, only=only)
    return Desk(part.dataset, Store(database), looker, title=run.resolve().name, **how)


def _look_with(pair: "Pair", part: Part) -> "Callable[[TaggedImage], Look]":
    from tag2box.review.look import NOTHING, look_at

    def look(image: TaggedImage) -> "Look":
        study = pair.study_image(image, part.store)
        return NOTHING if study is None else look_at(pair, study, image, SCORES)

    return look


def _listen(port: int) -> socket.socket:
    """A socket on this machine alone."""
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else "not between 0 and 65535"
        raise InputError(f"expected a free --port, found {port}: {reason}") from None
    return listener


def _serve(desk: "Desk", listener: socket.socket, browser: bool, path: Path) -> None:
    import uvicorn

    from tag2box.review.server import make_app

    token = secrets.token_urlsafe(24)
    address = f"http://{HOST}:{listener.getsockname()[1]}/{token}/"
    settings = uvicorn.Config(
        make_app(desk, token), log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=2
    )
    console = Console(highlight=False)
    console.print(f"review of {counted(len(desk.images), 'image')}: {address}", soft_wrap=True, markup=False)
    console.print(
        f"decisions are kept in {path} as they are made; Ctrl-C ends the review", soft_wrap=True, markup=False
    )
    desk.looker.start()
    if browser:  # in a thread: some browsers keep whoever opens them waiting
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        uvicorn.Server(settings).run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # the way to end it
    finally:
        desk.looker.stop()
    state = desk.state()
    console.print(f"{len(state['done'])} of {counted(state['total'], 'image')} reviewed", soft_wrap=True)
    for step in desk.following if desk.known() else ():
        console.print(f"next, to {step.why}: {step.command}", soft_wrap=True, markup=False)
