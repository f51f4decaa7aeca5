"""The detector that training leaves behind: a prediction net, its classes and its recipe, looking at pictures."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from tag2box.errors import InputError, name_some
from tag2box.inference import Found, as_detections, decode_boxes, look, select_detections
from tag2box.nets import PredictionNet
from tag2box.pictures import Picture, as_pictures, is_one
from tag2box.progress import progress
from tag2box.proposals.selective_search import preset, selective_search
from tag2box.proposals.store import ProposalStore

__all__ = [
    "Detector",
    "build_prediction_net",
    "detect_dataset",
    "load_detector",
    "open_detector",
    "pick_device",
    "save_detector",
]
READ_AHEAD = 8


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

    def predict(
        self,
        images: Picture | Iterable[Picture],
        *,
        proposals: NDArray[Any] | Sequence[NDArray[Any]] | None = None,
        score: float = 0.3,
        max_detections: int | None = None,
        tta: bool = False,
    ) -> Detections:
        """The objects in one or many pictures: paths, PIL images, arrays [H, W, 3] or tensors [3, H, W] of uint8 RGB.

        proposals: boxes [B, 4] for each picture where they are known; else they are searched for.
        score: the least that a detection must have; max_detections: of a picture, by default the recipe's.
        tta: look at every scale of training and at the mirror image too, and average; slower, better.
        The ids of the result are the stems of files' names; "0", "1", … for what has none.
        """
        pictures = as_pictures(images)
        given = _for_each(proposals, is_one(images), len(pictures))
        most = self.recipe.inference.max_detections if max_detections is None else max_detections
        settings = replace(self.settings(tta=tta), min_score=score, max_detections=most)
        search = preset(self.recipe.data.proposals)

        def detect_all() -> Iterator[Found]:
            for picture, boxes in zip(pictures, given, strict=True):
                pixels = picture.read()
                yield self.detect(pixels, selective_search(pixels, search) if boxes is None else boxes, settings)

        return as_detections(self.classes, [picture.id for picture in pictures], detect_all())

    def settings(self, *, tta: bool = False) -> Inference:
        """How detections are made; with `tta` at every scale of training, and mirrored."""
        own = self.recipe.inference
        return replace(own, scales=self.recipe.data.scales, flip=True) if tta else own

    @torch.no_grad()
    def detect(
        self, pixels: NDArray[np.uint8], proposals: NDArray[Any], settings: Inference, *, best_of_each: bool = False
    ) -> Found:
        """The objects in one picture [H, W, 3] among proposals [B, 4], the first so many of them as the recipe says."""
        height, width = pixels.shape[:2]
        image = torch.from_numpy(pixels).to(self.device).permute(2, 0, 1)  # [3, H, W]
        rows = np.asarray(proposals[: self.recipe.data.max_proposals], dtype=np.float32).reshape(-1, 4)
        boxes = torch.from_numpy(rows).to(self.device)
        if not len(boxes):
            return Found(boxes, boxes.new_zeros(0), torch.zeros(0, dtype=torch.long))
        seen = look(
            self._score,
            image,
            boxes,
            scales=settings.scales,
            flip=settings.flip,
            max_side=self.recipe.data.max_side,
        )
        return select_detections(
            *seen,
            size=(width, height),
            nms=settings.nms,
            min_score=settings.min_score,
            max_detections=settings.max_detections,
            best_of_each=best_of_each,
        )

    def _score(self, pixels: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """[3, h, w] and [B, 4] → probabilities [B, C + 1] and boxes [B, C + 1, 4]."""
        mixed = self.recipe.precision == "bf16-mixed" and self.device.type == "cuda"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=mixed):
            outputs = self.net(pixels[None], [boxes])
        return outputs.scores.float().softmax(-1), decode_boxes(outputs.offsets, boxes)


def _for_each(proposals: Any, one: bool, count: int) -> Sequence[NDArray[Any] | None]:
    if proposals is None:
        return [None] * count
    each = [proposals] if one and getattr(proposals, "ndim", 3) == 2 else list(proposals)
    if len(each) != count:
        raise InputError(f"expected proposals for each of {count} pictures, found them for {len(each)}")
    for boxes in each:
        if np.ndim(boxes) != 2 or np.shape(boxes)[1] != 4:
            raise InputError(f"proposals: expected boxes [B, 4], found shape {list(np.shape(boxes))}")
    return each


def detect_dataset(
    detector: Detector, dataset: Dataset, store: ProposalStore, *, tta: bool = False, best_of_each: bool = False
) -> Detections:
    """Detections in every image of a data set, as many and as low as the recipe has them for evaluation.

    best_of_each: the best box of every class whatever its score, for CorLoc.
    """
    settings, found = detector.settings(tta=tta), []
    with progress("detecting", len(dataset)) as count_one:
        for image, pixels in zip(dataset, _read_ahead([image.path for image in dataset]), strict=True):
            found.append(detector.detect(pixels, store[image.id], settings, best_of_each=best_of_each))
            count_one()
    return as_detections(detector.classes, dataset.ids, found)


def _read_ahead(paths: Sequence[Path]) -> Iterator[NDArray[np.uint8]]:
    """Pictures in order, a few decoded ahead of the net."""
    with ThreadPoolExecutor(2) as pool:
        ahead = [pool.submit(read_image, path) for path in paths[:READ_AHEAD]]
        for place in range(len(paths)):
            if place + READ_AHEAD < len(paths):
                ahead.append(pool.submit(read_image, paths[place + READ_AHEAD]))
            yield ahead.pop(0).result()
