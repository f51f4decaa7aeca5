"""A part of a data set with all that goes with it: pictures and tags, proposals, and the boxes where there are any."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from tag2box.commands.proposals import store_path
from tag2box.data import Dataset, open_dataset, open_ground_truth
from tag2box.data.ground_truth import GroundTruth
from tag2box.data.splits import in_validation, require_fraction
from tag2box.errors import InputError, did_you_mean, name_some
from tag2box.proposals.compute import compute_proposals
from tag2box.proposals.selective_search import Settings
from tag2box.proposals.selective_search import preset as find_preset
from tag2box.proposals.store import ProposalStore, open_store


@dataclass(frozen=True, slots=True)
class Part:
    """Images in a fixed order, proposals for at least these, and their boxes, which are for evaluation only."""

    dataset: Dataset
    store: ProposalStore
    truth: GroundTruth | None

    def subset(self, keep: Sequence[bool]) -> "Part":
        """The images where `keep` is true."""
        dataset = self.dataset.subset(keep)
        truth = None if self.truth is None else self.truth.subset(dataset.ids)
        return replace(self, dataset=dataset, truth=truth)


class Where(TypedDict, total=False):
    """What a command that opens a data set hands on to `Source`."""

    images: Path | None
    proposals: Path | None
    workers: int | None
    skip_bad_images: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where parts come from."""

    data: Path
    images: Path | None = None
    """Where a COCO file's pictures are, if not beside it."""
    preset: str = "fast"
    """Of the proposals, which are computed where they are not there yet."""
    proposals: Path | None = None
    """A file with proposals to be used instead."""
    workers: int | None = None
    skip_bad_images: bool = False

    def listed(self, split: str | None) -> Dataset:
        """Pictures and tags alone, by headers and in silence: to find mistakes before the proposals take their time."""
        return open_dataset(
            self.data,
            split,
            images=self.images,
            check=False,
            skip_bad_images=self.skip_bad_images,
            warn=lambda _: None,
        )

    def open(self, split: str | None) -> Part:
        """The part of that name; None: the one to train on."""
        settings = find_preset(self.preset)
        dataset, truth = self.pictures(split)
        if self.proposals is not None:
            store = open_store(self.proposals, dataset)
        else:
            path = store_path(self.data, dataset.split, self.preset)
            _require_no_race(path, dataset, settings, self.data)
            store = compute_proposals(dataset, path, settings, workers=self.workers, ours=True)
        return Part(dataset, store, truth)

    def pictures(self, split: str | None) -> tuple[Dataset, GroundTruth | None]:
        """The same without proposals, for those who need none."""
        dataset = open_dataset(self.data, split, images=self.images, skip_bad_images=self.skip_bad_images)
        truth = open_ground_truth(self.data, split, images=self.images)
        return dataset, None if truth is None else truth.subset(dataset.ids)


def held_out(part: Part, fraction: float, seed: int = 0) -> tuple[Part, Part]:
    """What to train on and what a split by that fraction holds out (see `in_validation`)."""
    out = which_held_out(part.dataset, fraction, seed)
    return part.subset([not one for one in out]), part.subset(out)


def which_held_out(dataset: Dataset, fraction: float, seed: int = 0) -> list[bool]:
    """Which of the images a split by that fraction holds out; some have to be, and not all."""
    require_fraction(fraction)
    out = [in_validation(image.id, fraction, seed) for image in dataset]
    if all(out) or not any(out):
        where = "training" if all(out) else "validation"
        raise InputError(f"expected images for {where}, found none: {fraction} of {len(out)} leaves it empty")
    return out


def require_same_classes(ours: Sequence[str], theirs: Sequence[str], *, of: str, and_of: str) -> None:
    """Refuse two lists of classes of which one has what the other has not; their order may differ."""
    more, less = [c for c in ours if c not in theirs], [c for c in theirs if c not in ours]
    if more or less:
        sides = [f"only in {where}: {name_some(names)}" for where, names in ((of, more), (and_of, less)) if names]
        raise InputError(f"expected the same classes in {of} and {and_of}, found {'; '.join(sides)}")


def require_known_classes(dataset: Dataset, classes: Sequence[str], run: Path) -> None:
    """A run may know more than the data set has, not less."""
    for name in dataset.classes:
        if name not in classes:
            raise InputError(f"expected tags that {run} has learnt, found '{name}'{did_you_mean(name, classes)}")


def require_tagged(dataset: Dataset, only: Sequence[str]) -> None:
    """Refuse to keep to classes that no picture has."""
    tags = {tag for image in dataset for tag in image.tags}
    found = [name for name in dataset.classes if name in tags]
    for name in only:
        if name not in found:
            raise InputError(f"expected --only a class that pictures have, found '{name}'{did_you_mean(name, found)}")


def tagged(part: Part, only: Sequence[str]) -> Part:
    """The images with one of these tags; without any named, all of them."""
    return part.subset([not only or not set(only).isdisjoint(image.tags) for image in part.dataset])


def _require_no_race(path: Path, dataset: Dataset, settings: Settings, data: Path) -> None:
    """Several processes would all begin to compute the same proposals."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return
    if not path.exists():
        first = f"tag2box proposals {data} --split {dataset.split}"
        raise InputError(f"expected proposals in {path}, found none; make them first: {first}")
    open_store(path, dataset, settings.as_dict())
