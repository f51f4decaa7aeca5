"""What the pictures of a class have in common, cell by cell, and which regions it fills.

Of all cells of the maps of a class's pictures, the direction in which they differ most separates what these pictures
share from what each has for itself (Wei et al., Unsupervised object discovery and co-localization by deep descriptor
transforming, 2019). No tag but the class's own is needed for it, and nothing is learnt by steps. It sees where things
end otherwise than vectors of regions do, and so the two know more together (benchmarks/LOG.md).
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def common_in(
    maps: Sequence[Tensor], boxes: Sequence[Tensor], sizes: Sequence[tuple[int, int]], tags: Tensor
) -> list[Tensor]:
    """How well each region covers what its picture shares with the others of a class: N times [R_i, C], 0…1.

    maps: of each picture [D, h, w]; boxes: N times [R_i, 4] in pictures of these widths and heights; tags: bool [N, C].
    It is the cosine of a region, as a mask, with the map of what is shared; 0 for classes that are no tag.
    """
    found = [torch.zeros(len(own), tags.shape[1]) for own in boxes]
    for label, of_class in enumerate(tags.T):
        places = of_class.nonzero().flatten().tolist()
        if not places:
            continue
        mean, direction = principal([maps[place] for place in places])
        shares = [_share(maps[place], mean, direction) for place in places]
        sign = 1.0 if sum(map(_in_the_middle, shares)) >= 0 else -1.0
        for place, share in zip(places, shares, strict=True):
            found[place][:, label] = covering((sign * share).clamp(min=0), boxes[place], sizes[place])
    return found


def principal(maps: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The mean of all cells of maps [D, h_i, w_i] and the direction in which they differ most: [D], [D]."""
    count = sum(one[0].numel() for one in maps)
    mean = sum((one.float().sum(dim=(1, 2)) for one in maps), start=torch.zeros(len(maps[0]))) / count
    spread = torch.zeros(len(mean), len(mean))
    for one in maps:  # one by one: all cells of a common class would not fit
        cells = one.float().flatten(1) - mean[:, None]
        spread += cells @ cells.T / count
    return mean, torch.linalg.eigh(spread).eigenvectors[:, -1]


def _share(cells: Tensor, mean: Tensor, direction: Tensor) -> Tensor:
    """How far each cell lies in a direction: [D, h, w] → [h, w]."""
    return torch.einsum("dhw,d->hw", cells.float() - mean[:, None, None], direction)


def _in_the_middle(share: Tensor) -> float:
    """By how much a map is higher in its middle: objects are there, and which way a direction points is arbitrary."""
    down, across = share.shape[0] // 4, share.shape[1] // 4
    middle = share[down : share.shape[0] - down, across : share.shape[1] - across]
    return float(middle.mean() - share.mean())


def covering(share: Tensor, boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """The cosine of regions, as masks, with a map ≥ 0 of their picture: [h, w], [R, 4] → [R]."""
    (height, width), (x0, y0, x1, y1) = share.shape, boxes.float().unbind(1)
    across = _overlaps(x0 * width / size[0], x1 * width / size[0], width)  # [R, w]
    down = _overlaps(y0 * height / size[1], y1 * height / size[1], height)  # [R, h]
    inside = torch.einsum("rh,hw,rw->r", down, share, across)
    area = down.sum(dim=1) * across.sum(dim=1)
    return inside / (area * share.square().sum()).clamp(min=1e-12).sqrt()


def _overlaps(start: Tensor, end: Tensor, cells: int) -> Tensor:
    """How much of each cell in a row lies between two points: [R], [R] → [R, cells]."""
    left = torch.arange(cells)
    return (torch.minimum(end[:, None], left + 1) - torch.maximum(start[:, None], left)).clamp(min=0)
