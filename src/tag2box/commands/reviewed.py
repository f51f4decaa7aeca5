"""`tag2box train --reviewed`: a person's decisions, from boxes.json or a review file, and the copy that a run keeps.

A review goes on while a run learns from what was decided so far, so the run has a copy to be resumed from.
"""

from contextlib import closing
from pathlib import Path

from tag2box.data import Dataset
from tag2box.errors import InputError, name_some
from tag2box.evaluation.tables import counted
from tag2box.known import Known, read_known, write_known

COPY = "known.json"
"""In the run directory: boxes.json as it was when the run began."""
_SQLITE = b"SQLite format 3\0"


def read_reviewed(path: Path, dataset: Dataset) -> Known:
    """The decisions in a boxes.json, or in the file of a review, on images of the data set."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_SQLITE))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    return _of_review(path, dataset) if start == _SQLITE else read_known(path, dataset)


def choose_reviewed(run: Path, reviewed: Path | None, dataset: Dataset, resume: bool) -> Known:
    """The decisions to learn from. A resumed run keeps its own, and what is asked may not contradict them."""
    asked = {} if reviewed is None else read_reviewed(reviewed, dataset)
    if reviewed is not None and not asked:
        raise InputError(f"{reviewed}: expected decisions on images of the data set, found none")
    if not resume:
        return asked
    own = read_known(run / COPY, dataset) if (run / COPY).is_file() else {}
    if reviewed is not None and asked != own:
        instead = "; without --reviewed it goes on with those" if own else ""
        raise InputError(f"expected the decisions that {run} was started with, found others in {reviewed}{instead}")
    return own


def keep_reviewed(run: Path, known: Known) -> None:
    """Leave a copy in the run directory."""
    if known:
        write_known(run / COPY, known)


def within(known: Known, dataset: Dataset) -> Known:
    """Those on the images that are learnt from; there has to be one where there were any."""
    own = {image.id: known[image.id] for image in dataset if known.get(image.id)}
    if known and not own:
        raise InputError(f"expected decisions on images to learn from, found none: they are on {name_some(known)}")
    return own


def describe(known: Known, dataset: Dataset, others: int = 0) -> str:
    """What is known, in a line. `dataset` has the tags as they were; `others` are images that are not learnt from."""
    tags = {image.id: image.tags for image in dataset}
    given = [(id, name, len(boxes)) for id, own in known.items() for name, boxes in own.items()]
    boxes = sum(number for *_, number in given)
    gone = sum(name in tags[id] for id, name, number in given if not number)
    new = sum(name not in tags[id] for id, name, number in given if number)
    parts = [f"{boxes:,} {'box' if boxes == 1 else 'boxes'} known"]
    parts += [f"{counted(gone, 'tag')} taken away"] if gone else []
    parts += [f"{counted(new, 'tag')} added"] if new else []
    parts += [f"decisions on {counted(others, 'image')} that are not learnt from left out"] if others else []
    return f"a person has decided on {counted(len(known), 'image')}: {', '.join(parts)}"


def _of_review(path: Path, dataset: Dataset) -> Known:
    from tag2box.review.cache import note_pictures
    from tag2box.review.database import Database
    from tag2box.review.decided import known_of
    from tag2box.review.store import Store

    with closing(Database(path)) as database:
        others = note_pictures(database, dataset.images)
        if others:
            raise InputError(
                f"{path}: expected decisions on these pictures, found some on others of the same name "
                f"({name_some(others, 3)})"
            )
        return known_of(Store(database), dataset.classes, dataset.images)
