"""What a net that has learnt from hints finds in the pictures it learnt from: hints for the one that learns after it.

A detector evens out what its seeds got wrong: on VOC its boxes in its own training pictures are right more often than
the seeds that it learnt from. But a net that goes on keeps what it has got used to. So the next one starts anew.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tag2box.config import Recipe
from tag2box.engine.hints import SHARPNESS
from tag2box.engine.measure import Scorer, see, together
from tag2box.engine.views import Album
from tag2box.inference import as_many_as_fit
from tag2box.landing import best_landing
from tag2box.overlap import pair_iou
from tag2box.progress import progress

LEAST = 2.0
"""A box that is moved until fewer pixels of it are left, in width or height, is taken where it was before."""


class Findings(NamedTuple):
    """Of N pictures, on the CPU."""

    boxes: list[Tensor]
    """One for each tag, in the picture's own pixels [F_i, 4]; none where it has no proposals."""
    places: list[Tensor]
    """How much speaks for those, then for its first proposals, being all of an object of each class [F_i + R_i, C]."""


@torch.no_grad()
def find_again(
    scorer: Scorer, album: Album, recipe: Recipe, autocast: Callable[[], AbstractContextManager[Any]]
) -> Findings:
    """The boxes on which a net lands for each tag (`landing`), and as hints: those, and what overlaps them.

    `teacher.regions` says of how many proposals; the album has no found ones yet. autocast: under which it looks, as
    `Fabric.autocast`.
    """
    found: dict[int, tuple[Tensor, Tensor]] = {}
    most = recipe.teacher.regions
    with progress("finding", len(album), unit="images") as count_one:
        for indices in together(album, range(len(album)), recipe):
            with autocast():
                seen = as_many_as_fit(lambda some: see(scorer, album, some, recipe, most), indices)
            for index, (probabilities, boxes) in zip(indices, seen, strict=True):
                proposals = album.proposals(index)[:most]
                tags = album.tags[index].nonzero().flatten()
                found[index] = _of_one(probabilities[:, 1:], boxes[:, 1:], proposals, tags, album.dataset[index].size)
                count_one()
    inside, places = zip(*(found[index] for index in range(len(album))), strict=True)
    return Findings(list(inside), list(places))


def _of_one(
    probabilities: Tensor, boxes: Tensor, proposals: Tensor, tags: Tensor, size: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """[R, C], [R, C, 4] and proposals [R, 4] of a picture, its tags' numbers [T] → found boxes, places."""
    count, classes = probabilities.shape
    tags = tags if count else tags[:0]
    places = torch.full((len(tags) + count, classes), -1.0)
    if not len(tags):
        return torch.zeros(0, 4), places.half()
    width, height = size
    edges = boxes.new_tensor([width, height, width, height])
    columns = tags.to(boxes.device)
    inside = boxes[:, columns].transpose(0, 1).float().clamp(min=0).minimum(edges)  # [T, R, 4]
    nothing = (inside[..., 2:] - inside[..., :2] < LEAST).any(dim=-1, keepdim=True)
    inside = torch.where(nothing, proposals.float(), inside)
    best, sure = best_landing(probabilities[:, columns].T, inside)
    overlaps = pair_iou(torch.cat([best, proposals.float()]), best)  # [T + R, T]
    # `with_sureness` takes a power of the best place, and it is probabilities that it is to compare.
    values = overlaps * sure.float().clamp(min=1e-6) ** (1 / SHARPNESS)
    own = torch.eye(len(tags), device=values.device, dtype=torch.bool)
    values[: len(tags)] = values[: len(tags)].where(own, -1.0)  # a box is found for one class
    places[:, tags] = values.cpu()
    return best.cpu(), places.half()
