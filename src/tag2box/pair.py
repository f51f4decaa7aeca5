"""Both nets of a finished run on a tagged picture: what the detector finds, what its teacher would have it find.

The prediction net does not know the tags, the conditional net does, and under different noise it gives different
answers. Where the two disagree, or the answers among themselves, nobody should be sure.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tag2box.config import Recipe
from tag2box.data.images import read_image
from tag2box.data.records import TaggedImage
from tag2box.detector import Detector, open_detector
from tag2box.detector_file import read_teacher
from tag2box.engine.measure import sample_view
from tag2box.engine.steps import Boxed
from tag2box.engine.views import featured, show
from tag2box.errors import InputError
from tag2box.looks import keep_looks
from tag2box.mil import Hints
from tag2box.nets.conditional import ConditionalNet
from tag2box.nets.roi_head import CutHead
from tag2box.proposals.store import ProposalStore
from tag2box.remembered import Recall, favoured, recall_of


@dataclass(frozen=True, slots=True)
class Study:
    """One tagged picture as both nets see it; boxes in its own pixels, on the CPU."""

    proposals: Tensor
    """[B, 4]"""
    probabilities: Tensor
    """Of the prediction net [B, C + 1]; column 0 is the background."""
    boxes: Tensor
    """Regressed by the prediction net, for each label [B, C + 1, 4]."""
    samples: Tensor
    """Of the conditional net, a label for each proposal [K, B]."""
    truths: list[Boxed]
    """What is left of each sample after threshold and suppression: boxes [T, 4] and classes 1…C [T]."""
    favoured: Tensor | None = None
    """The probabilities with what the run remembers of the picture, where it learnt from it (`remembered`)."""

    @property
    def choice(self) -> Tensor:
        """By what the best box of each class is chosen [B, C + 1]."""
        return self.probabilities if self.favoured is None else self.favoured


@dataclass(frozen=True)
class Pair:
    """The detector of a run and the net that taught it."""

    detector: Detector
    conditional: ConditionalNet
    recall: Recall = field(default=lambda id, proposals: None)
    """What the run remembers of a picture (`remembered`)."""

    @property
    def recipe(self) -> Recipe:
        """Of the run."""
        return self.detector.recipe

    @property
    def classes(self) -> tuple[str, ...]:
        """In the order of columns 1…C."""
        return self.detector.classes

    def study_image(
        self, image: TaggedImage, store: ProposalStore, read: Callable[[], NDArray[np.uint8]] | None = None
    ) -> Study | None:
        """Both nets on a picture of a data set; None where it has fewer proposals than tags, or none.

        read: how to get its pixels, if not from its file now.
        """
        proposals = store[image.id][: self.recipe.data.max_proposals]
        if len(proposals) < max(1, len(image.tags)):
            return None
        if self.recipe.data.keep_looks:
            keep_looks(self.conditional.head, store.path.parent)
        tags = np.array([name in image.tags for name in self.classes])
        return self.study(read_image(image.path) if read is None else read(), proposals, tags, id=image.id)

    @torch.no_grad()
    def study(
        self, pixels: NDArray[np.uint8], proposals: NDArray[Any], tags: NDArray[np.bool_], seed: int = 0, id: str = ""
    ) -> Study:
        """Both nets on a picture [H, W, 3] with proposals [B, 4] and tags [C]; the noise is drawn from the seed.

        id: of the picture, under which the run may remember it.
        """
        device = self.detector.device
        places = self.recall(id, proposals[: self.recipe.data.max_proposals])
        recipe = self.recipe if places is not None else self.recipe.without_hints()
        rows = np.asarray(proposals[: recipe.data.max_proposals], dtype=np.float32).reshape(-1, 4)
        if len(rows) < max(1, int(tags.sum())):
            raise InputError(f"expected a proposal for each of {int(tags.sum())} tags, found {len(rows)}")
        view = show(
            torch.from_numpy(pixels).to(device).permute(2, 0, 1),
            torch.from_numpy(rows).to(device),
            torch.from_numpy(tags),
            scale=recipe.inference.scales[0],
            max_side=recipe.data.max_side,
            cell=self.detector.net.head.cell,
        )
        if isinstance(self.conditional.head, CutHead):  # both nets look through the same eye: once will do
            view = featured(view, self.conditional.trunk, self.conditional.head)
        if places is not None:
            places = places.to(device)
            view = replace(view, hints=Hints(places, torch.ones(places.shape[1], device=device)))
        mixed = recipe.precision == "bf16-mixed" and device.type == "cuda"
        with torch.autocast(device.type, torch.bfloat16, enabled=mixed):
            sampled = sample_view(self.conditional, self.detector.net, view, recipe, seed)
        height, width = pixels.shape[:2]
        back = torch.tensor([width / view.size[0], height / view.size[1]] * 2)
        return Study(
            proposals=torch.from_numpy(rows),
            probabilities=sampled.probabilities.cpu(),
            boxes=sampled.boxes.float().cpu() * back,
            samples=sampled.samples.cpu(),
            truths=[(truth.float().cpu() * back, labels.cpu()) for truth, labels in sampled.truths],
            favoured=None if places is None else favoured(sampled.probabilities, places, recipe.rounds.promise).cpu(),
        )


def open_pair(run: Path | str, device: str = "auto") -> Pair:
    """Both nets of a run directory, those of its best round."""
    detector = open_detector(run, device)
    teacher = Path(run) / "weights" / "conditional.safetensors"
    if not teacher.is_file():
        why = "a detector's file alone" if Path(run).is_file() else "a run without rounds, or of an older version"
        raise InputError(f"{run}: expected a run directory with weights/conditional.safetensors, found {why}")
    conditional, _, classes = read_teacher(teacher)
    if classes != detector.classes:
        raise InputError(f"{teacher}: expected the classes of the detector beside it, found others")
    return Pair(detector, conditional.to(detector.device).eval(), recall_of(Path(run)))
