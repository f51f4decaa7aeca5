"""What each step is shown: this process's share of the plan's pictures, those of the next steps decoded meanwhile."""

import time

from tag2box.config import Recipe
from tag2box.engine.loader import AHEAD
from tag2box.engine.plan import Phase, Showing, generator_for, showings
from tag2box.engine.views import Album, View


class Feed:
    """The views of a run's steps, and how long the last one had to wait for them."""

    def __init__(self, album: Album, recipe: Recipe, *, process: int, processes: int) -> None:
        self.album, self.recipe = album, recipe
        self.waited = 0.0
        self._process, self._processes = process, processes
        self._ahead = -(-AHEAD * processes // recipe.optimiser.images)  # in steps

    def begin(self, number: int, phase: Phase, step: int) -> None:
        """Let the first pictures be decoded with which a phase, the plan's `number`-th, begins or goes on."""
        self.album.forget()
        for coming in range(step, min(step + self._ahead, phase.steps)):
            self.album.expect(self._showings(number, coming))

    def views(self, number: int, phase: Phase, step: int) -> list[View]:
        """A step's views. Lessons and tags are learnt from pixels: crops are in no cache."""
        began = time.perf_counter()
        if step + self._ahead < phase.steps:  # the plan knows what it will show without having got there
            self.album.expect(self._showings(number, step + self._ahead))
        fresh = phase.kind in ("lessons", "tags")
        chosen = self._showings(number, step)
        # Its own stream, as the noise has; a teacher's lessons are about proposals in their order.
        draw = None if phase.kind == "lessons" else generator_for(self.recipe.seed, number, step, self._process, 2)
        seeded = phase.kind == "warm"  # in the rounds an object may turn out to be elsewhere
        views = [
            self.album.view(one.index, one.scale, one.mirrored, fresh=fresh, draw=draw, seeded=seeded) for one in chosen
        ]
        self.waited = time.perf_counter() - began
        return views

    def _showings(self, number: int, step: int) -> list[Showing]:
        return showings(self.recipe, len(self.album), number, step)[self._process :: self._processes]
