"""The detector that training leaves behind: a prediction net, its classes and its recipe, looking at pictures."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tag2box.config import Inference, Recipe
from tag2box.data.images import read_image
from tag2box.data.records import Dataset
from tag2box.detections import Detections
from tag2box.detector_file import build_prediction_net, read_detector, save_detector
from tag2box.errors import InputError, name_some, require_at_least_one, require_share
from tag2box.inference import (
    BatchScorer,
    Found,
    Seen,
    as_detections,
    as_many_as_fit,
    canvas,
    decode_boxes,
    look_together,
    on_canvas,
    resized,
    resized_size,
    scale_boxes,
    select_detections,
)
from tag2box.looks import keep_looks
from tag2box.nets import PredictionNet
from tag2box.pictures import Picture, as_pictures, is_one, proposals_of_each
from tag2box.pipeline import AHEAD, Pixels, count_workers, in_batches, run_ahead, size_of, worker_pool
from tag2box.progress import progress
from tag2box.proposals.selective_search import preset, selective_search
from tag2box.proposals.store import ProposalStore
from tag2box.remembered import Recall, favoured

__all__ = [
    "Detector",
    "build_prediction_net",
    "detect_dataset",
    "load_detector",
    "open_detector",
    "pick_device",
    "save_detector",
]
READERS, READERS_BESIDE_GPU = 2, 8
"""Threads that decode pictures; a GPU looks at them faster than two can."""


def load_detector(path: Path | str, device: str = "auto") -> "Detector":
    """The detector in a file that `save_detector` has written."""
    net, recipe, classes = read_detector(Path(path))
    return Detector(net=net, recipe=recipe, classes=classes, device=device)


def open_detector(run_or_file: Path | str, device: str = "auto") -> "Detector":
    """The detector of a run directory, the best it has, or of a single file."""
    path = Path(run_or_file)
    if not path.exists():
        raise InputError(f"expected a run directory or a detector's file, found nothing at {path}")
    if path.is_file():
        return load_detector(path, device)
    choices = [path / "weights" / name for name in ("best.safetensors", "last.safetensors")]
    for choice in choices:
        if choice.is_file():
            return load_detector(choice, device)
    raise InputError(f"{path}: expected a finished run, found no weights/best.safetensors or weights/last.safetensors")


def pick_device(name: str = "auto") -> torch.device:
    """`auto` is the GPU where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"device: expected auto, cpu or cuda, found '{name}'")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device: expected one that is there, found '{name}' and {torch.cuda.device_count()} GPUs")
    return device


class Detector:
    """Finds objects in pictures."""

    def __init__(self, *, net: PredictionNet, recipe: Recipe, classes: Sequence[str], device: str = "auto") -> None:
        self.device = pick_device(device)
        self.net = net.to(self.device).eval()
        self.recipe, self.classes = recipe, tuple(classes)

    def __repr__(self) -> str:
        return f"Detector({self.recipe.backbone.name}: {name_some(self.classes)}; on {self.device})"

    def look_at_most(self, proposals: int | None) -> None:
        """Let the first so many proposals of a picture count; None: as many as the recipe says.

        It has learnt from so many, and may find more among others; where it proposes itself there are no others.
        """
        require_at_least_one("max-proposals", proposals)
        if proposals is None:
            return
        if self.proposes:
            raise InputError("max-proposals: expected a detector that is given proposals, found one that proposes")
        self.recipe = replace(self.recipe, inference=replace(self.recipe.inference, max_proposals=proposals))

    def predict(
        self,
        images: Picture | Iterable[Picture],
        *,
        proposals: NDArray[Any] | Sequence[NDArray[Any]] | None = None,
        score: float = 0.5,
        max_detections: int | None = None,
        tta: bool = False,
        batch: int = 1,
        workers: int | None = None,
    ) -> Detections:
        """The objects in one or many pictures: paths, PIL images, RGB arrays [H, W, 3] or tensors [3, H, W].

        Numbers are uint8, or floats in 0–1; grey and RGBA will do.
        proposals: boxes [B, 4] for each picture where they are known; else the net proposes them, or, where it has not
        learnt to, they are searched for.
        score: the least that a detection must have; max_detections: of a picture, by default the recipe's.
        tta: look at every scale of training and at the mirror image too, and average; slower, better.
        batch: so many pictures of one size go through the net together; it changes speed and memory, not results.
        workers: threads that read pictures and search them, ahead of the net; by default one per core.
        The ids of the result are the stems of files' names; "0", "1", … for what has none.
        """
        require_share("score", score)
        require_at_least_one("max_detections", max_detections)
        require_at_least_one("batch", batch)
        pictures = as_pictures(images)
        given = proposals_of_each(proposals, is_one(images), len(pictures))
        most = self.recipe.inference.max_detections if max_detections is None else max_detections
        settings = replace(self.settings(tta=tta), min_score=score, max_detections=most)
        search = preset(self.recipe.data.proposals)

        def ready(place: int) -> tuple[int, Pixels, NDArray[Any] | None]:
            pixels, boxes = pictures[place].read(), given[place]
            return place, pixels, selective_search(pixels, search) if boxes is None and not self.proposes else boxes

        found: dict[int, Found] = {}
        number = count_workers(workers, len(pictures))
        with worker_pool(number, processes=False) as pool:  # spawned ones would run an unguarded script anew
            begun = run_ahead(lambda place: pool.submit(ready, place), range(len(pictures)), AHEAD * number)
            stream = (future.result() for _, future in begun)
            for together in in_batches(stream, lambda one: self.seen_at(size_of(one[1]), settings), batch):
                places, pixels, boxes = zip(*together, strict=True)
                found.update(zip(places, self.detect_together(pixels, boxes, settings), strict=True))
        ids = [picture.id for picture in pictures]
        return as_detections(self.classes, ids, [found[place] for place in range(len(ids))])

    @property
    def proposes(self) -> bool:
        """Whether the net says itself where objects could be, so that nobody has to search for it."""
        return self.net.proposer is not None

    def settings(self, *, tta: bool = False) -> Inference:
        """How detections are made; with `tta` at every scale of training, and mirrored."""
        own = self.recipe.inference
        return replace(own, scales=self.recipe.data.scales, flip=True) if tta else own

    def seen_at(self, size: tuple[int, int], settings: Inference) -> tuple[tuple[int, int], ...]:
        """The canvases on which the net will see a picture of that size; where they are equal, several at once."""
        shown = (resized_size(size, short, self.recipe.data.max_side) for short in settings.scales)
        return tuple(canvas(one, self.device) for one in shown)

    def detect(
        self,
        pixels: Pixels,
        proposals: NDArray[Any] | None,
        settings: Inference,
        *,
        best_of_each: bool = False,
        places: Tensor | None = None,
    ) -> Found:
        """The objects in one picture [H, W, 3] among proposals [B, 4], the first so many of them as the recipe says.

        None: among those that the net proposes itself (`proposes`).
        """
        return self.detect_together([pixels], [proposals], settings, best_of_each=best_of_each, places=[places])[0]

    @torch.no_grad()
    def detect_together(
        self,
        pictures: Sequence[Pixels],
        proposals: Sequence[NDArray[Any] | None],
        settings: Inference,
        *,
        best_of_each: bool = False,
        places: Sequence[Tensor | None] = (),
    ) -> list[Found]:
        """The same for several pictures that are all seen on one canvas (`seen_at`), with proposals of all or of none.

        places: what else speaks for their proposals, N times [B, C] or None (`remembered`).
        """
        images = [torch.from_numpy(pixels).to(self.device).permute(2, 0, 1) for pixels in pictures]  # [3, H, W] each
        maps, boxes = None, [self._boxes(rows) for rows in proposals if rows is not None]
        if images and not boxes:
            maps, boxes = self._proposed(images, settings)
        some = [place for place, rows in enumerate(boxes) if len(rows)]
        nothing = Found(torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.long))
        found = [nothing] * len(images)
        if not some:
            return found
        seen = look_together(
            self._scorer(None if maps is None else maps[some]),
            [images[place] for place in some],
            [boxes[place] for place in some],
            scales=settings.scales,
            flip=settings.flip,
            max_side=self.recipe.data.max_side,
        )
        for place, (probabilities, moved) in zip(some, seen, strict=True):
            known = places[place] if places else None
            found[place] = select_detections(
                favoured(probabilities, known, self.recipe.rounds.promise),
                moved,
                settings,
                size=size_of(pictures[place]),
                best_of_each=best_of_each,
            )
        return found

    def _boxes(self, proposals: NDArray[Any]) -> Tensor:
        """The first so many proposals as the recipe says: float [B, 4]."""
        rows = np.asarray(proposals[: self.recipe.looked_at], dtype=np.float32).reshape(-1, 4)
        return torch.from_numpy(rows).to(self.device)

    @torch.no_grad()
    def propose(self, pixels: Pixels) -> NDArray[np.float32]:
        """Where objects could be in a picture [H, W, 3], by one that `proposes`: boxes [B, 4], the best first."""
        image = torch.from_numpy(pixels).to(self.device).permute(2, 0, 1)
        _, (boxes,) = self._proposed([image], self.recipe.inference)
        found: NDArray[np.float32] = boxes.cpu().numpy()
        return found

    def _proposed(self, images: Sequence[Tensor], settings: Inference) -> tuple[Tensor, list[Tensor]]:
        """The map of pictures [3, H, W] that are seen on one canvas, at the first scale, and what is proposed of each.

        [N, C', h, w], and N times float [B, 4] in their own pixels, no more than the net has learnt with.
        """
        assert self.net.proposer is not None
        shown = [resized(image, settings.scales[0], self.recipe.data.max_side) for image in images]
        maps = self.features(torch.stack([on_canvas(one) for one, _, _ in shown]))
        boxes = self.net.proposer(maps, [(one.shape[2], one.shape[1]) for one, _, _ in shown])
        most = self.recipe.data.max_proposals
        return maps, [scale_boxes(rows[:most], 1 / x, 1 / y) for rows, (_, x, y) in zip(boxes, shown, strict=True)]

    @torch.no_grad()
    def features(self, pixels: Tensor) -> Tensor:
        """The trunk's map of pictures [N, 3, h, w], RGB in 0–255 → [N, C', h', w']."""
        with self._mixed():
            return self.net.trunk.features(pixels)

    def _mixed(self) -> torch.autocast:
        mixed = self.recipe.precision == "bf16-mixed" and self.device.type == "cuda"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=mixed)

    def _scorer(self, first: Tensor | None) -> BatchScorer:
        """Probabilities [B, C + 1] and boxes [B, C + 1, 4] of pictures [N, 3, h, w] with N times [B, 4].

        first: the map of those it is asked of first, where it is there already.
        """
        there = [] if first is None else [first]

        def score(pixels: Tensor, boxes: Sequence[Tensor]) -> list[Seen]:
            maps = there.pop() if there else self.features(pixels)
            with self._mixed():
                outputs = self.net.from_features(maps, boxes)
            counts = [len(rows) for rows in boxes]
            each = zip(*(torch.split(part, counts) for part in outputs), boxes, strict=True)
            return [(scores.float().softmax(-1), decode_boxes(offsets, rows)) for scores, offsets, rows in each]

        return score


def detect_dataset(
    detector: Detector,
    dataset: Dataset,
    store: ProposalStore | None,
    *,
    tta: bool = False,
    best_of_each: bool = False,
    recall: Recall | None = None,
    batch: int | None = None,
) -> Detections:
    """Detections in every image of a data set, as many and as low as the recipe has them for evaluation.

    store: their proposals; None where the detector proposes.
    best_of_each: the best box of every class whatever its score, for CorLoc. recall: what else is known of the images.
    batch: so many of one size go through the net together; by default eight on a GPU, which spends more time on being
    told what to do than on one picture, and else one; where its memory is too small for so many, they go one by one.
    """
    settings, found = detector.settings(tta=tta), dict[int, Found]()
    if store is not None and detector.recipe.data.keep_looks:
        keep_looks(detector.net.head, store.path.parent)

    def look_at(some: Sequence[tuple[int, Pixels]]) -> list[tuple[int, Found]]:
        numbers, pixels = zip(*some, strict=True)
        ids = [dataset[place].id for place in numbers]
        boxes = [None if store is None else store[id][: detector.recipe.looked_at] for id in ids]
        known = zip(ids, boxes, strict=True)
        places = [None if recall is None or rows is None else recall(id, rows) for id, rows in known]
        seen = detector.detect_together(pixels, boxes, settings, best_of_each=best_of_each, places=places)
        return list(zip(numbers, seen, strict=True))

    on_gpu = detector.device.type == "cuda"
    batch, readers = batch or (8 if on_gpu else 1), READERS_BESIDE_GPU if on_gpu else READERS
    order = sorted(range(len(dataset)), key=lambda place: detector.seen_at(dataset[place].size, settings))
    with progress("detecting", len(dataset)) as count_one, worker_pool(readers, processes=False) as pool:
        begun = run_ahead(lambda place: pool.submit(read_image, dataset[place].path), order, AHEAD * readers)
        stream = ((place, pixels.result()) for place, pixels in begun)
        for together in in_batches(stream, lambda one: detector.seen_at(size_of(one[1]), settings), batch):
            for place, seen in as_many_as_fit(look_at, together):
                found[place] = seen
                count_one()
    return as_detections(detector.classes, dataset.ids, [found[place] for place in range(len(dataset))])
