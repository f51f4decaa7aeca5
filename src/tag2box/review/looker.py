"""Looks at the pictures one after the other in the background, while somebody reviews those that are done."""

import sys
import threading
from collections.abc import Callable, Sequence

from tag2box.data.records import TaggedImage
from tag2box.errors import InputError
from tag2box.review.cache import LookCache
from tag2box.review.look import NOTHING, Look, uncertainty


class Looker:
    """A thread that asks the nets about every picture that is not in the cache.

    by: the score that tells how uncertain they are; only: of which classes, if any are named.
    """

    def __init__(
        self,
        images: Sequence[TaggedImage],
        cache: LookCache,
        look: Callable[[TaggedImage], Look],
        *,
        by: str = "doubt",
        only: Sequence[str] = (),
    ) -> None:
        self.images, self.cache, self._look, self.by, self.only = images, cache, look, by, only
        self.uncertainties = {id: uncertainty(doubts, by, only) for id, doubts in cache.doubts(images).items()}
        """Of the images that are ready, by id."""
        self.trouble: str | None = None
        """Why it has stopped before the end, in one line."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="looker", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the picture that is being looked at."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def ask(self, image: TaggedImage) -> Look:
        """What is known of an image: nothing where it is not ready."""
        return self.cache.get(image) or NOTHING

    def _run(self) -> None:
        try:
            for image in self.images:
                if self._stop.is_set():
                    return
                if image.id not in self.uncertainties:
                    doubt = uncertainty(self._seen(image)["doubts"], self.by, self.only)
                    self.uncertainties = {**self.uncertainties, image.id: doubt}
        except Exception as error:  # the page goes on without, and says so: decisions are worth more than hints
            self.trouble = f"{type(error).__name__}: {' '.join(str(error).split())}"
            print(f"the nets look at no more pictures: {self.trouble}", file=sys.stderr)

    def _seen(self, image: TaggedImage) -> Look:
        known = self.cache.get(image)  # of another server on the same file
        if known is not None:
            return known
        try:
            look = self._look(image)
        except InputError as error:  # a picture that has gone since the start, say; perhaps it comes back
            print(error, file=sys.stderr)
            return NOTHING
        self.cache.put(image, look)
        return look
