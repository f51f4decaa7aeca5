"""What a run says of itself as it goes: a row per stage, and a few pictures with both nets' boxes."""

import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from tag2box.boxes import Box, as_box
from tag2box.config import Recipe
from tag2box.data.records import TaggedImage
from tag2box.engine.measure import sample_view
from tag2box.engine.views import Album, with_rows
from tag2box.inference import select_detections
from tag2box.nets.conditional import ConditionalNet
from tag2box.nets.prediction import PredictionNet

Row = dict[str, Any]
SHOWN = 10
"""Pictures that are followed over the rounds."""
LEAST = 0.3
"""What a box of the prediction net must score to be drawn there: low, so that the first rounds have some too."""


@dataclass(frozen=True, slots=True)
class Followed:
    """One picture after one stage, in its own pixels: the paper's figure 2."""

    image: TaggedImage
    stage: str
    prediction: list[tuple[str, float, Box]]
    samples: list[list[tuple[str, Box]]]


class Report(Protocol):
    """Where the record goes."""

    def results(self, rows: list[Row]) -> None:
        """All stages so far."""

    def samples(self, followed: list[Followed]) -> None:
        """The pictures of the stage just finished."""


@dataclass
class Record:
    """Rows of the stages, and the means of what was logged since the last."""

    rows: list[Row] = field(default_factory=list)
    best: float = float("-inf")
    _sums: dict[str, Tensor] = field(default_factory=dict)
    _steps: dict[str, int] = field(default_factory=dict)
    _images: int = 0
    _stepping: float = 0.0
    _waiting: float = 0.0
    _seconds: float = 0.0
    _began: float = field(default_factory=time.monotonic)

    def log(self, logs: Mapping[str, Tensor], images: int, seconds: float = 0.0, waited: float = 0.0) -> None:
        """Count a step and its seconds, `waited` of them for data. Sums stay on the device, where adding waits not."""
        for name, value in logs.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value
            self._steps[name] = self._steps.get(name, 0) + 1
        self._images += images
        self._stepping += seconds
        self._waiting += waited

    def add(self, row: Row, device: torch.device) -> Row:
        """Complete a stage's row with what was logged since the last, and its seconds; two stages may share a phase."""
        seconds = self._seconds + time.monotonic() - self._began
        means = {name: float(total) / self._steps[name] for name, total in self._sums.items()}
        speed = {"images_per_second": self._images / seconds} if self._images else {}
        if self._stepping:
            speed["data_wait"] = self._waiting / self._stepping
        row = {**row, "seconds": seconds, **means, **speed, "peak_memory_mb": peak_memory_mb(device)}
        self.rows = [other for other in self.rows if other["stage"] != row["stage"]] + [row]
        self._sums, self._steps, self._images, self._seconds = {}, {}, 0, 0.0
        self._stepping = self._waiting = 0.0
        self._began = time.monotonic()
        return row

    def is_best(self, row: Row) -> bool:
        """Whether no earlier round was better: by mAP on held-out pictures, else CorLoc; with neither, the last is."""
        score = next((row[name] for name in ("map", "corloc") if row.get(name) == row.get(name, float("nan"))), None)
        if score is None or score >= self.best:
            self.best = self.best if score is None else score
            return True
        return False

    def state(self) -> dict[str, Any]:
        """For the checkpoint."""
        sums = {name: float(value) for name, value in self._sums.items()}
        seconds = self._seconds + time.monotonic() - self._began
        return {
            "rows": self.rows,
            "best": self.best,
            "sums": sums,
            "steps": self._steps,
            "images": self._images,
            "stepping": self._stepping,
            "waiting": self._waiting,
            "seconds": seconds,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """From the checkpoint."""
        self.rows, self.best = state["rows"], state["best"]
        self._sums = {name: torch.tensor(value) for name, value in state["sums"].items()}
        self._steps, self._images, self._seconds = state["steps"], state["images"], state["seconds"]
        self._stepping, self._waiting = state["stepping"], state["waiting"]
        self._began = time.monotonic()


def peak_memory_mb(device: torch.device) -> float:
    """The most that was in use so far: on a GPU what tensors took, else the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


@torch.no_grad()
def follow(
    stage: str, conditional: ConditionalNet, prediction: PredictionNet, album: Album, recipe: Recipe
) -> list[Followed]:
    """Both nets on a few pictures spread over the album, the same in every round and under the same noise."""
    can = fit_to_follow(album)
    chosen = can[:: max(1, len(can) // SHOWN)][:SHOWN]
    return [_follow_one(index, stage, conditional, prediction, album, recipe) for index in chosen]


def fit_to_follow(album: Album) -> list[int]:
    """The pictures that are tagged, and have a proposal for each tag: no sample can be drawn of others."""
    most = album.data.max_proposals
    return [n for n, one in enumerate(album.dataset) if 0 < len(one.tags) <= min(len(album.store[one.id]), most)]


def _follow_one(
    index: int, stage: str, conditional: ConditionalNet, prediction: PredictionNet, album: Album, recipe: Recipe
) -> Followed:
    view, classes = album.view(index, recipe.inference.scales[0]), album.dataset.classes
    most = album.number_found(index) + recipe.data.max_proposals  # of others the conditional net has never drawn
    view = with_rows(view, torch.arange(min(most, len(view.boxes))))
    image = album.dataset[index]
    scale = view.boxes.new_tensor([image.size[0] / view.size[0], image.size[1] / view.size[1]] * 2)
    sampled = sample_view(conditional, prediction, view, recipe, recipe.seed, -1, index)
    first = album.number_found(index)  # a detector would not have these
    found = select_detections(
        sampled.probabilities[first:],
        sampled.boxes[first:] * scale,
        replace(recipe.inference, min_score=LEAST, max_detections=10),
        size=image.size,
    )
    return Followed(
        image,
        stage,
        [(classes[c], s, as_box(b)) for b, s, c in zip(*(part.tolist() for part in found), strict=True)],
        [
            [(classes[c - 1], as_box(b)) for b, c in zip((truth * scale).tolist(), labels.tolist(), strict=True)]
            for truth, labels in sampled.truths
        ],
    )
