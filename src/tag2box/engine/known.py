"""Boxes that a person has given, as training takes them: the conditional net's sampling is clamped to what they say.

They are an input of their own (`tag2box.known`), never a data set's boxes. Of a class that somebody has decided on in a
picture all boxes are known: proposals near one of them are of that class and no other proposal is. What is left to the
net are the other classes, and every tagged class still labels at least one proposal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from tag2box.boxes import Box, iou
from tag2box.data.records import Dataset, TaggedImage
from tag2box.known import Known
from tag2box.mil import KnownSeeds

NEAR = 0.5
"""IoU with a known box from which a proposal is of its class."""


class Decided(NamedTuple):
    """What is known of a picture, tags that are not there aside."""

    boxes: Tensor
    """In the view's pixels [M, 4]."""
    labels: Tensor
    """1…C [M]."""
    seeds: KnownSeeds
    """The same in terms of proposals, which holds in every view: scaling and mirroring leave overlaps as they are."""

    def to(self, device: torch.device) -> "Decided":
        """On that device, but for what the host reads."""
        labels, proposals, allowed, undecided = self.seeds
        seeds = KnownSeeds(labels.to(device), proposals.to(device), allowed.to(device), undecided)
        return Decided(self.boxes.to(device), self.labels.to(device), seeds)


def decide(
    given: Mapping[str, Sequence[Box]], proposals: NDArray[Any], tags: NDArray[np.bool_], classes: Sequence[str]
) -> Decided | None:
    """What is known of a picture with proposals [B, 4] in its own pixels and tags [C], which agree with what is given.

    None where nothing is left to say: a class that is not there is not tagged either.
    """
    pairs = [(label, box) for label, name in enumerate(classes, 1) for box in given.get(name, ())]
    if not pairs:
        return None
    labels = np.array([label for label, _ in pairs])  # [M]
    boxes = np.array([box for _, box in pairs], dtype=np.float64)  # [M, 4]
    overlap = iou(boxes, proposals.astype(np.float64))  # [M, B]
    undecided = tags.copy()
    undecided[labels - 1] = False
    owners, rows, nearest = owned(overlap, labels, int(undecided.sum()))
    sound = overlap[rows, nearest] > 0  # a box that no proposal touches teaches nothing about proposals
    rows, nearest = rows[sound], nearest[sound]
    seeds = KnownSeeds(
        torch.from_numpy(labels[rows]),
        torch.from_numpy(nearest),
        torch.from_numpy(allowed_labels(owners, labels, len(classes))),
        torch.from_numpy(undecided),
    )
    return Decided(torch.from_numpy(boxes).float(), torch.from_numpy(labels), seeds)


def owned(
    overlap: NDArray[np.float64], labels: NDArray[np.int64], others: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Which proposals are of a known class: overlaps [M, B] of known boxes with labels 1…C [M] → labels [B], 0: free.

    A proposal is of the class whose box it overlaps most, from `NEAR` on. And each box has a proposal of its own, the
    one that overlaps it most as far as boxes do not collide, however little that is. At least one proposal stays with
    each known class and as many as there are `others`, tagged classes that are not known, stay free: where proposals
    are that few those that overlap least are let go.

    Also the boxes [S] that have kept a proposal of their own, and which [S].
    """
    held, most = overlap.max(axis=0), labels[overlap.argmax(axis=0)]  # [B]
    owners = np.where(held >= NEAR, most, 0)
    known, first = np.unique(labels, return_index=True)
    rows = np.concatenate([first, np.setdiff1d(np.arange(len(labels)), first)])[: len(held)]  # of each class one fits
    another_s = (owners != 0) & (owners != labels[rows, None]) & (overlap[rows] < NEAR)  # [S, B]
    _, nearest = linear_sum_assignment(overlap[rows] - another_s, maximize=True)
    own = overlap[rows, nearest]  # [S]
    owners[nearest], held[nearest] = labels[rows], own
    for label in known:
        mine = np.flatnonzero(labels[rows] == label)
        held[nearest[mine[own[mine].argmax()]]] = np.inf
    taken = np.flatnonzero(owners)
    short = max(others - (len(owners) - len(taken)), 0)
    owners[taken[np.argsort(held[taken], kind="stable")[:short]]] = 0
    kept = owners[nearest] == labels[rows]
    return owners, rows[kept], nearest[kept]


def allowed_labels(owners: NDArray[np.int64], labels: NDArray[np.int64], classes: int) -> NDArray[np.bool_]:
    """Which labels each proposal may have: its owner's alone, and where it is free any but the known [B, C + 1]."""
    allowed = np.ones((len(owners), classes + 1), dtype=bool)
    allowed[:, labels] = False
    taken = np.flatnonzero(owners)
    allowed[taken] = False
    allowed[taken, owners[taken]] = True
    return allowed


def clamped(scores: Tensor, known: Decided | None) -> Tensor:
    """Scores [..., B, C + 1] with −∞ for the labels that what is known rules out: `constrained_argmax` does the rest.

    Whatever is maximised over the labellings that remain, the sample or a loss-augmented one, is maximised exactly.
    """
    return scores if known is None else scores.masked_fill(~known.seeds.allowed, -torch.inf)


def with_known(truth: tuple[Tensor, Tensor], known: Decided | None) -> tuple[Tensor, Tensor]:
    """Pseudo ground truth, boxes [T, 4] and classes [T], with the person's boxes in place of the picks of a class."""
    if known is None:
        return truth
    boxes, classes = truth
    others = ~torch.isin(classes, known.labels)
    return torch.cat([boxes[others], known.boxes.to(boxes)]), torch.cat([classes[others], known.labels])


def retagged(dataset: Dataset, known: Known) -> Dataset:
    """The tags that a person's decisions leave: an empty list takes one away, boxes of a class bring it in."""

    def tags(image: TaggedImage) -> tuple[str, ...]:
        given = known[image.id]
        return tuple(name for name in dataset.classes if given.get(name, name in image.tags))

    images = [replace(image, tags=tags(image)) if image.id in known else image for image in dataset]
    return replace(dataset, images=tuple(images))


def fingerprint_of_known(known: Known) -> str:
    """Tells decisions from others, in whichever order they come; nothing where there are none."""
    if not known:
        return ""
    content = [(id, [(name, _plain(own[name])) for name in sorted(own)]) for id, own in sorted(known.items())]
    return blake2b(repr(content).encode(), digest_size=8).hexdigest()


def _plain(boxes: Sequence[Box]) -> list[list[float]]:
    return [[float(side) for side in box] for box in boxes]
