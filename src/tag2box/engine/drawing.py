"""Which proposals a step is shown where all would be too many.

A head of convolutions costs as much for each proposal as all fully connected layers do for hundreds, and most proposals
teach nothing. Where seeds are known beforehand, a few are drawn as in a mini-batch of Fast R-CNN.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from tag2box.overlap import pair_iou, touches

ON_SEED, APART = 1 / 4, 3 / 16
"""Of the proposals drawn around seeds, at most so much matches one, and so much touches none where enough others do."""
MATCH = 0.5
"""IoU from which a proposal matches a seed, as in a refinement branch."""


class Around(NamedTuple):
    """How a picture's proposals lie to its seeds, by their numbers, on the CPU."""

    seeds: Tensor
    """[S], each once."""
    matches: Tensor
    """That match a seed and are none."""
    near: Tensor
    """That touch one and do not match it (`overlap.touches`)."""
    apart: Tensor
    """All others."""


def first_and_others(count: int, number: int, generator: torch.Generator) -> Tensor:
    """Numbers of `number` of `count` proposals, the first half of them and others at random, in order.

    Proposals stand in order of promise: the first would be missed.
    """
    first = number - number // 2
    others = first + torch.randperm(count - first, generator=generator)[: number - first]
    return torch.cat([torch.arange(first), others.sort().values])


def around_seeds(boxes: Tensor, places: Tensor) -> Around:
    """Where proposals lie: [B, 4], and for each tag what speaks for the first of them [R, T], R ≤ B.

    Of each tag the one that most speaks for is its seed.
    """
    best = places.argmax(dim=0).tolist() if len(places) else []
    seeds = torch.tensor(sorted(set(best)), dtype=torch.long)
    if not len(seeds):
        return Around(seeds, seeds, seeds, torch.arange(len(boxes)))
    overlap, nearest = pair_iou(boxes, boxes[seeds]).max(dim=1)
    matches, near = overlap >= MATCH, touches(boxes, boxes[seeds][nearest], overlap)
    others = torch.ones(len(boxes), dtype=torch.bool).index_fill(0, seeds, False)
    kinds = (matches & others, near & ~matches, ~near & ~matches)
    return Around(seeds, *(kind.nonzero().flatten() for kind in kinds))


def drawn_around(around: Around, number: int, generator: torch.Generator) -> Tensor:
    """Numbers of `number` proposals, fewer where there are fewer, in order; all seeds are among them."""
    on_seed = max(round(ON_SEED * number) - len(around.seeds), 0)
    matches = _some(around.matches, on_seed, generator)
    left = number - len(around.seeds) - len(matches)
    near = _some(around.near, left - min(round(APART * number), len(around.apart)), generator)
    apart = _some(around.apart, left - len(near), generator)
    return torch.cat([around.seeds, matches, near, apart]).sort().values


def _some(rows: Tensor, number: int, generator: torch.Generator) -> Tensor:
    return rows[torch.randperm(len(rows), generator=generator)[: max(number, 0)]]
