"""All that the page asks and says, without HTTP: pictures by number, decisions, progress."""

from collections.abc import Sequence
from typing import Any

from tag2box.data.records import Dataset, TaggedImage
from tag2box.errors import InputError
from tag2box.known import Known
from tag2box.report.colours import colours_of, ink_on
from tag2box.review.decided import known_of
from tag2box.review.following import Step
from tag2box.review.look import in_turn
from tag2box.review.looker import Looker
from tag2box.review.queue import line_up, seconds_left
from tag2box.review.store import Box, Change, Status, Store

MOST_BOXES = 1000
PACE = 60
"""Decisions from which the pace is taken."""


class Desk:
    """A review: the images with a tag, what the nets say of them, and what a person has decided.

    looker: of the images that are shown, all of the data set's or some. following: what to do with what is decided.
    """

    def __init__(
        self,
        dataset: Dataset,
        store: Store,
        looker: Looker,
        *,
        title: str,
        most: int | None = None,
        following: Sequence[Step] = (),
    ) -> None:
        self.classes, self.images, self._all = dataset.classes, looker.images, dataset.images
        self.store, self.looker, self.title, self.most, self.following = store, looker, title, most, following
        self._numbers = {image.id: number for number, image in enumerate(self.images)}
        self._colours = colours_of(dataset.classes)

    def about(self) -> dict[str, Any]:
        """What does not change: the classes and their colours, what pictures are ordered by, what comes afterwards."""
        colours = [(name, self._colours[name]) for name in self.classes]
        return {
            "title": self.title,
            "by": self.looker.by,
            "following": [step._asdict() for step in self.following],
            "classes": [{"name": name, "colour": colour, "ink": ink_on(colour)} for name, colour in colours],
        }

    def state(self) -> dict[str, Any]:
        """Which pictures are to be seen in which order, which of them are done, and how far all is."""
        statuses = self.store.statuses()
        ready = self.looker.uncertainties
        begun = {self._numbers[id] for id in statuses if id in self._numbers}
        uncertainties = {n: ready.get(self.images[n].id) for n in begun}
        uncertainties |= {self._numbers[id]: value for id, value in ready.items()}
        order = line_up(uncertainties, begun, self.most)
        left = [self._undecided(self.images[n], statuses.get(self.images[n].id, {})) for n in order]
        total = self._total(len(begun))
        waiting = sum(len(image.tags) for image in self.images) / len(self.images) * (total - len(order))
        return {
            "order": order,
            "done": [n for n, tags in zip(order, left, strict=True) if not tags],
            "total": total,
            "decided": sum(status != "open" for n in begun for status in statuses[self.images[n].id].values()),
            "seconds_left": seconds_left(self.store.decided_at(PACE), sum(map(len, left)) + round(waiting)),
            "ready": len(ready),
            "images": len(self.images),
            "trouble": self.looker.trouble,
            "version": self.store.version(),
            "can_undo": self.store.can_undo(self._numbers),
            "can_redo": self.store.can_redo(self._numbers),
        }

    def _total(self, begun: int) -> int:
        return len(self.images) if self.most is None else min(len(self.images), max(self.most, begun))

    def _undecided(self, image: TaggedImage, statuses: dict[str, Status]) -> list[str]:
        return [tag for tag in image.tags if statuses.get(tag, "open") == "open"]

    def image(self, number: int) -> dict[str, Any]:
        """A picture: its tags and the classes decided on besides, with what the nets and what a person said.

        The classes come in the order in which they are to be decided: a picture is shown first because of one of them.
        """
        image = self.images[number]
        look, decisions = self.looker.ask(image), self.store.decisions(image.id)
        names = [name for name in self.classes if name in image.tags or name in decisions]
        doubts = look["doubts"]

        def of_class(name: str) -> dict[str, Any]:
            decision = decisions.get(name)
            return {
                "number": self.classes.index(name),
                "tagged": name in image.tags,
                "look": look["classes"].get(name),
                "doubts": doubts.get(name),
                "decision": None if decision is None else decision._asdict(),
            }

        return {
            "number": number,
            "name": image.id,
            "size": image.size,
            "classes": [of_class(name) for name in in_turn(names, doubts, self.looker.by, self.looker.only)],
        }

    def decide(self, number: int, label: int, status: Status, boxes: Sequence[Sequence[float]], based_on: int) -> None:
        """Keep a decision on a class in a picture."""
        image = self.images[number]
        if status == "accepted" and not boxes:
            raise InputError("expected a box to accept, found none; a class that is not there is rejected")
        if len(boxes) > MOST_BOXES:
            raise InputError(f"expected at most {MOST_BOXES} boxes, found {len(boxes)}")
        kept = [] if status == "rejected" else [_inside(box, image.size) for box in boxes]
        self.store.decide(image.id, self.classes[label], status, kept, based_on)

    def undo(self, based_on: int) -> dict[str, int] | None:
        """Take back the last change; where it was."""
        return self._where(self.store.undo(self._numbers, based_on))

    def redo(self, based_on: int) -> dict[str, int] | None:
        """Make the change again that was taken back last; where it was."""
        return self._where(self.store.redo(self._numbers, based_on))

    def _where(self, change: Change | None) -> dict[str, int] | None:
        if change is None:
            return None
        label = self.classes.index(change.name) if change.name in self.classes else 0
        return {"image": self._numbers[change.image], "class": label}

    def known(self) -> Known:
        """What has been decided on images of the data set, in their order, whether they are shown or not."""
        return known_of(self.store, self.classes, self._all)


def _inside(box: Sequence[float], size: tuple[int, int]) -> Box:
    """A box to a tenth of a pixel; it has to be within the picture."""
    x0, y0, x1, y1 = (round(side, 1) for side in box)
    if not (0 <= x0 < x1 <= size[0] and 0 <= y0 < y1 <= size[1]):
        raise InputError(f"expected a box within the picture's {size[0]} × {size[1]} pixels, found {list(box)}")
    return [x0, y0, x1, y1]
