"""A reviewer's decisions, kept as they are made, with the history that undo walks along.

A change names the version of the decision that it is based on: two tabs, or two servers on one file, cannot overwrite
what they have not seen.
"""

import json
import time
from collections.abc import Collection
from typing import Any, Literal, NamedTuple

from tag2box.review.database import Database

Box = list[float]
Status = Literal["open", "accepted", "rejected"]
_ROW = "SELECT number, image, class, before, after FROM history WHERE"
_NEXT = {
    "done": f"{_ROW} state = 'done' AND number < ? ORDER BY number DESC LIMIT 1",
    "undone": f"{_ROW} state = 'undone' AND number > ? ORDER BY number LIMIT 1",
}


class Outdated(Exception):  # noqa: N818, since it is another tab's success
    """A change is based on a version that is no longer the last."""


class Decision(NamedTuple):
    """What a person has said of a class in a picture."""

    status: Status
    """Open: boxes have been moved or drawn, and nobody has said yet that these are all, and right."""
    boxes: list[Box]
    version: int
    """Of its last change; every change in the file has a higher one than those before."""


class Change(NamedTuple):
    """Which decision an undo or redo was about."""

    image: str
    name: str


class Store:
    """Decisions by image and class."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def decisions(self, image: str) -> dict[str, Decision]:
        """Of one picture, by class."""
        rows = self._database.read("SELECT class, status, boxes, version FROM decisions WHERE image = ?", image)
        return {name: Decision(status, json.loads(boxes), version) for name, status, boxes, version in rows}

    def statuses(self) -> dict[str, dict[str, Status]]:
        """Of all pictures, by image and class."""
        found: dict[str, dict[str, Status]] = {}
        for image, name, status in self._database.read("SELECT image, class, status FROM decisions"):
            found.setdefault(image, {})[name] = status
        return found

    def known(self) -> dict[str, dict[str, list[Box]]]:
        """All that is decided, as boxes.json has it: an empty list says that a class is not there."""
        found: dict[str, dict[str, list[Box]]] = {}
        rows = self._database.read("SELECT image, class, status, boxes FROM decisions WHERE status != 'open'")
        for image, name, status, boxes in rows:
            found.setdefault(image, {})[name] = json.loads(boxes) if status == "accepted" else []
        return found

    def decide(self, image: str, name: str, status: Status, boxes: list[Box], based_on: int) -> Decision:
        """Set a decision; `Outdated` where the one before is not of the version that it is based on, 0 for none."""
        with self._database.write():
            before = self.decisions(image).get(name)
            if based_on != (0 if before is None else before.version):
                raise Outdated
            after = Decision(status, boxes, self._next_version())
            self._database.change("UPDATE history SET state = 'dropped' WHERE state = 'undone'")
            self._database.change(
                "INSERT INTO history (at, image, class, before, after, state) VALUES (?, ?, ?, ?, ?, 'done')",
                *(time.time(), image, name, _packed(before), _packed(after)),
            )
            self._put(image, name, after)
        return after

    def undo(self, images: Collection[str], based_on: int) -> Change | None:
        """Take back the last change to one of these images; None where there is none.

        `Outdated` where the file is not at that version: somebody has changed something that was not seen yet.
        """
        return self._step("done", "undone", images, based_on)

    def redo(self, images: Collection[str], based_on: int) -> Change | None:
        """Make the change again that was taken back last; after a new one there is none."""
        return self._step("undone", "done", images, based_on)

    def can_undo(self, images: Collection[str]) -> bool:
        """Whether there is a change to take back."""
        return self._nearest("done", images) is not None

    def can_redo(self, images: Collection[str]) -> bool:
        """Whether there is one to make again."""
        return self._nearest("undone", images) is not None

    def version(self) -> int:
        """Of the whole file."""
        ((number,),) = self._database.read("SELECT version FROM counter")
        return int(number)

    def decided_at(self, most: int) -> list[float]:
        """When the last so many decisions were made, in seconds, in order."""
        rows = self._database.read(
            "SELECT at FROM history WHERE state = 'done' AND json_extract(after, '$[0]') != 'open'"
            " ORDER BY number DESC LIMIT ?",
            most,
        )
        return [at for (at,) in reversed(rows)]

    def _step(self, state: str, becomes: str, images: Collection[str], based_on: int) -> Change | None:
        with self._database.write():
            if self.version() != based_on:
                raise Outdated
            nearest = self._nearest(state, images)
            if nearest is None:
                return None
            number, image, name, before, after = nearest
            self._put(image, name, _unpacked(before if becomes == "undone" else after, self._next_version()))
            self._database.change("UPDATE history SET state = ? WHERE number = ?", becomes, number)
        return Change(image, name)

    def _nearest(self, state: str, images: Collection[str]) -> Any:
        """The last change that is done, or the first that is undone; of these images, as a file may hold others too."""
        number = 1 << 62 if state == "done" else 0
        while rows := self._database.read(_NEXT[state], number):
            number, image = rows[0][:2]
            if image in images:
                return rows[0]
        return None

    def _put(self, image: str, name: str, decision: Decision | None) -> None:
        if decision is None:
            self._database.change("DELETE FROM decisions WHERE image = ? AND class = ?", image, name)
            return
        row = (image, name, decision.status, json.dumps(decision.boxes), decision.version)
        self._database.change("INSERT OR REPLACE INTO decisions VALUES (?, ?, ?, ?, ?)", *row)

    def _next_version(self) -> int:
        self._database.change("UPDATE counter SET version = version + 1")
        return self.version()


def _packed(decision: Decision | None) -> str | None:
    return None if decision is None else json.dumps([decision.status, decision.boxes])


def _unpacked(packed: str | None, version: int) -> Decision | None:
    if packed is None:
        return None
    status, boxes = json.loads(packed)
    return Decision(status, boxes, version)
