"""A store whose data set has changed since: what of it still holds, so that only the rest is computed."""

import sys
from collections.abc import Mapping
from typing import Any

from tag2box.data.records import Dataset
from tag2box.proposals.store import ProposalBoxes, ProposalStore, require_images, require_settings


def take_over(
    old: ProposalStore, dataset: Dataset, settings: Mapping[str, Any], *, ours: bool
) -> dict[int, ProposalBoxes]:
    """The boxes of images that are there in the same size, by image number; a line on standard error counts them.

    A store of other images altogether is refused: they would be lost. So is one of other settings, unless it is `ours`,
    named after the settings: then these were others in an earlier version, and nothing is taken over.
    """
    if not old.can_grow(dataset):
        require_settings(old, settings)
        require_images(old, dataset)
    if not ours:
        require_settings(old, settings)
    if not old.made_with(settings):
        print(f"{old.path} was made with other settings: all is computed anew", file=sys.stderr)
        return {}
    kept = {number: old[image.id] for number, image in enumerate(dataset) if not old.lacks(image)}
    print(f"{old.path}: {_changes(old, dataset, len(kept))}", file=sys.stderr)
    return kept


def _changes(old: ProposalStore, dataset: Dataset, kept: int) -> str:
    known = sum(image.id in old for image in dataset)
    rest = {"new": len(dataset) - known, "of another size": known - kept, "gone": len(old) - known}
    words = [f"{count:,} {'is' if count == 1 else 'are'} {what}" for what, count in rest.items() if count]
    return ", ".join([f"{kept:,} {'picture was' if kept == 1 else 'pictures were'} there", *words])
