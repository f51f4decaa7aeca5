"""What is said and kept of a stage when it is over: scores, diversities, samples, and the weights themselves."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tag2box.config import Recipe
from tag2box.detections import Detections
from tag2box.detector_file import save_detector
from tag2box.engine.measure import (
    Scorer,
    detect,
    measure_diversities,
    prediction_scorer,
    refined_scorer,
    wsddn_scorer,
)
from tag2box.engine.record import Record, Report, fit_to_follow, follow
from tag2box.engine.views import Album
from tag2box.nets.conditional import ConditionalNet
from tag2box.nets.mil import MilNet, prediction_from_mil
from tag2box.nets.prediction import PredictionNet

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Evaluate = Callable[[str, Detections, Detections | None], dict[str, float]]
"""Scores a stage's detections on training and held-out pictures, where somebody knows the boxes: map, corloc."""


MOST_LEARNT_FROM = 1000
"""Of more training pictures so many give a stage's CorLoc. `tag2box evaluate` takes all, tagged or not."""


@dataclass
class Stages:
    """Where a run's stages are scored, told and kept; by the first process alone."""

    recipe: Recipe
    fabric: "Fabric"
    album: Album
    val_album: Album | None
    record: Record
    weights: Path
    evaluate: Evaluate | None
    report: Report | None
    known_images: int = 0
    """Training pictures that a person has decided on: CorLoc is then not from tags alone, and the row says so."""

    def lessons(self) -> None:
        """The teacher is done: there is nothing yet that finds a box."""
        self._say("lessons", None, min_score=0.0)

    def tags(self) -> None:
        """The tags are learnt: nor is there now."""
        self._say("tags", None, min_score=0.0)

    def warm(self, net: MilNet, anew: int = 0) -> None:
        """The warm start is over, and was learnt so often before; where nothing follows it is the detector."""
        if not anew:
            self._say("wsddn", wsddn_scorer(net), min_score=0.0)
        stage = f"anew-{anew}" if anew else "refined"
        self._say(stage, refined_scorer(net), min_score=self.recipe.inference.min_score)
        if anew == self.recipe.warm.again and not self.recipe.rounds.number:  # what rounds would have started from
            made = prediction_from_mil(net).to(self.fabric.device).eval()
            row = self._say("round-0", prediction_scorer(made), min_score=self.recipe.inference.min_score)
            self._keep(row, made, None)

    def round(self, number: int, conditional: ConditionalNet, prediction: PredictionNet) -> None:
        """A round is over."""
        most = 300 if self.recipe.data.cache else 100  # without kept features a look takes long
        extra = measure_diversities(conditional, prediction, self.album, self.recipe, most)
        scorer = prediction_scorer(prediction)
        row = self._say(f"round-{number}", scorer, min_score=self.recipe.inference.min_score, **extra)
        self._keep(row, prediction, conditional)
        if self.fabric.is_global_zero and self.report is not None:
            self.report.samples(follow(row["stage"], conditional, prediction, *self._followed()))

    def _followed(self) -> tuple[Album, Recipe]:
        """Held-out pictures, which nobody learns from and which show more; where none will do, the others."""
        if self.val_album is not None and fit_to_follow(self.val_album):
            return self.val_album, self.recipe.without_hints()
        return self.album, self.recipe

    def _say(self, stage: str, scorer: Scorer | None, *, min_score: float, **extra: float) -> dict[str, Any]:
        if not self.fabric.is_global_zero:
            return {"stage": stage}
        row: dict[str, Any] = {"stage": stage, **extra}
        if self.known_images:
            row["known_images"] = self.known_images
        if self.evaluate is not None and scorer is not None:
            with self.fabric.autocast():
                own = detect(
                    scorer, self.album, self.recipe, tagged_only=True, min_score=min_score, most=MOST_LEARNT_FROM
                )
                other = None  # not "nothing found": no pictures to look at
                if self.val_album is not None:
                    other = detect(scorer, self.val_album, self.recipe, tagged_only=False, min_score=min_score)
            row |= self.evaluate(stage, own, other)
        row = self.record.add(row, self.fabric.device)
        if self.report is not None:
            self.report.results(self.record.rows)
        return row

    def _keep(self, row: dict[str, Any], net: PredictionNet, teacher: ConditionalNet | None) -> None:
        """The detector of this stage and, where it is the best so far, that one and the net that taught it."""
        if not self.fabric.is_global_zero:
            return
        classes = self.album.dataset.classes
        save_detector(self.weights / "last.safetensors", net, self.recipe, classes)
        if self.record.is_best(row):
            if teacher is not None:
                save_detector(self.weights / "conditional.safetensors", teacher, self.recipe, classes)
            save_detector(self.weights / "best.safetensors", net, self.recipe, classes)
