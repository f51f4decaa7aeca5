"""From what a net says of proposals to detections: pure functions on tensors, shared by evaluation and prediction."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torchvision.ops import batched_nms

from tag2box.config import Inference
from tag2box.detections import Detections
from tag2box.disco.offsets import FAST_RCNN, Weights, decode
from tag2box.landing import landing as landed
from tag2box.overlap import whole_objects

Item = TypeVar("Item")
Result = TypeVar("Result")
LANDED = 200
"""Of each class so many boxes, the best by score, are compared with each other to see on which most land."""
AMONG = 300
"""How many of the best detections, at least, are compared with each other for parts and wholes."""
CANDIDATES = 3000
"""Of a picture's boxes, over all classes, the best so many are thinned: that takes time with their number squared."""
CANVAS = 64
"""On a GPU the sides of a picture are padded to multiples of this: every new size makes cuDNN think for seconds."""
Seen = tuple[Tensor, Tensor]
"""What a net says of a picture's proposals: probabilities [B, C + 1], boxes [B, C + 1, 4] or [B, 4]."""
Scorer = Callable[[Tensor, Tensor], Seen]
"""A picture [3, h, w] and proposals [B, 4] in its pixels → what is seen."""
BatchScorer = Callable[[Tensor, Sequence[Tensor]], Sequence[Seen]]
"""The same for N pictures of one size: [N, 3, h, w] and N times [B_i, 4]."""


class Found(NamedTuple):
    """The detections of one image, best first."""

    boxes: Tensor
    """[D, 4]"""
    scores: Tensor
    """[D]"""
    labels: Tensor
    """Class, counted from 0 [D]."""


def resized_size(size: tuple[int, int], short: int, max_side: int) -> tuple[int, int]:
    """Width and height that `resized` gives a picture of this width and height.

    >>> resized_size((500, 375), short=600, max_side=700)
    (700, 525)
    """
    factor = min(short / min(size), max_side / max(size))
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))


def resized(image: Tensor, short: int, max_side: int) -> tuple[Tensor, float, float]:
    """A picture uint8 [3, H, W] with its short side `short` pixels long and no side longer than `max_side`.

    Returns it as float32 in 0–255 [3, h, w], on its device, and the factors by which x and y have grown.
    """
    height, width = image.shape[1:]
    w, h = resized_size((width, height), short, max_side)
    pixels = image.float()
    if (h, w) != (height, width):
        pixels = functional.interpolate(pixels[None], (h, w), mode="bilinear", antialias=True, align_corners=False)[0]
    return pixels, w / width, h / height


def canvas(size: tuple[int, int], device: torch.device) -> tuple[int, int]:
    """Width and height to which a picture of this width and height is padded there: a GPU's are multiples of `CANVAS`.

    >>> canvas((500, 375), torch.device("cuda")), canvas((500, 375), torch.device("cpu"))
    ((512, 384), (500, 375))
    """
    if device.type != "cuda":
        return size
    return size[0] + -size[0] % CANVAS, size[1] + -size[1] % CANVAS


def on_canvas(pixels: Tensor) -> Tensor:
    """A picture [3, h, w] with zeros to the right and below, as its device would have it."""
    height, width = pixels.shape[1:]
    across, down = canvas((width, height), pixels.device)
    if (across, down) == (width, height):
        return pixels  # padding by nothing would copy
    return functional.pad(pixels, (0, across - width, 0, down - height))


def scale_boxes(boxes: Tensor, scale_x: float, scale_y: float) -> Tensor:
    """Boxes [..., 4] in a picture that has grown by these factors."""
    return boxes * boxes.new_tensor((scale_x, scale_y, scale_x, scale_y))


def flip_boxes(boxes: Tensor, width: float) -> Tensor:
    """Boxes [..., 4] in the mirror image of a picture `width` pixels wide. Twice gives the boxes back."""
    x0, y0, x1, y1 = boxes.unbind(-1)
    return torch.stack([width - x1, y0, width - x0, y1], dim=-1)


def decode_boxes(offsets: Tensor, proposals: Tensor, weights: Weights = FAST_RCNN) -> Tensor:
    """Each label's box: offsets [B, C + 1, 4] and proposals [B, 4] → [B, C + 1, 4] in float32."""
    return decode(offsets.float(), proposals.float()[:, None], weights)


def average_views(views: Sequence[Seen]) -> Seen:
    """What several views (scales, flips) say of the same proposals: the mean of probabilities and of boxes.

    Each view is probabilities [B, C + 1] and boxes [B, C + 1, 4] (or [B, 4]) in pixels of the original picture.
    """
    probabilities, boxes = zip(*views, strict=True)
    return torch.stack(probabilities).mean(dim=0), torch.stack(boxes).mean(dim=0)


def look(scorer: Scorer, image: Tensor, proposals: Tensor, *, scales: Sequence[int], flip: bool, max_side: int) -> Seen:
    """A scorer's average over the views of a picture: uint8 [3, H, W], [B, 4] → [B, C + 1] and boxes in its pixels."""

    def score(pixels: Tensor, boxes: Sequence[Tensor]) -> list[Seen]:
        return [scorer(pixels[0], boxes[0])]

    return look_together(score, [image], [proposals], scales=scales, flip=flip, max_side=max_side)[0]


def look_together(
    scorer: BatchScorer,
    images: Sequence[Tensor],
    proposals: Sequence[Tensor],
    *,
    scales: Sequence[int],
    flip: bool,
    max_side: int,
) -> list[Seen]:
    """The same for pictures that all come to one canvas at every scale (`resized_size`, `canvas`).

    Others would have to be padded further, and convolutions see that: results would depend on a picture's company.
    """
    views: list[list[Seen]] = [[] for _ in images]
    for short in scales:
        shown = [resized(image, short, max_side) for image in images]
        boxes = [scale_boxes(rows.float(), x, y) for rows, (_, x, y) in zip(proposals, shown, strict=True)]
        seen = [scorer(torch.stack([on_canvas(one) for one, _, _ in shown]), boxes)]  # [N, 3, h, w]
        if flip:
            widths = [one.shape[2] for one, _, _ in shown]
            pixels = torch.stack([on_canvas(one.flip(2)) for one, _, _ in shown])
            mirrored = scorer(pixels, [flip_boxes(rows, width) for rows, width in zip(boxes, widths, strict=True)])
            seen.append([(said, flip_boxes(rows, w)) for (said, rows), w in zip(mirrored, widths, strict=True)])
        for one in seen:
            for own, (_, x, y), (probabilities, rows) in zip(views, shown, one, strict=True):
                own.append((probabilities.float(), scale_boxes(rows.float(), 1 / x, 1 / y)))
    return [average_views(own) for own in views]


def as_many_as_fit(look_at: Callable[[Sequence[Item]], list[Result]], some: Sequence[Item]) -> list[Result]:
    """What is seen of some together or, where memory is too small for that, of one after the other."""
    try:
        return look_at(some)
    except torch.OutOfMemoryError:
        if len(some) == 1:
            raise
    return [result for one in some for result in look_at([one])]  # outside, where what filled the memory is gone


def select_detections(
    probabilities: Tensor,
    boxes: Tensor,
    settings: Inference,
    *,
    size: tuple[int, int],
    best_of_each: bool = False,
) -> Found:
    """The detections of one image of `size` (width, height).

    probabilities: [B, C + 1], column 0 the background; boxes: [B, C + 1, 4], or [B, 4] for all labels the same.
    Boxes are cut at the image's edge, those left without area or below `min_score` dropped, the rest thinned by
    non-maximum suppression within each class. Best first; of equal scores the earlier proposal, then the lower class.
    Of `settings`, `parts`: see `whole_objects`; 0: parts stay. `landing`: of boxes that overlap the one stays that most
    speaks for (`tag2box.landing`), not the one of highest score.
    best_of_each: the best box of every class, parts aside, stays whatever its score and rank: CorLoc asks for it.
    """
    landing, min_score = settings.landing, settings.min_score
    scores, boxes = _candidates(probabilities, boxes, size)  # [B, C], [B, C, 4]
    ranks = _landed(scores, boxes) if landing else scores
    # By landing a box may go for a less likely one: whether it does must not depend on how many of those are wanted.
    wanted = (ranks.isfinite() & (scores >= 0)) if landing else scores >= min_score
    best = _best_of_columns(ranks) & (scores >= 0) & best_of_each
    rows, labels = (wanted | best).nonzero(as_tuple=True)  # in order of proposals, then of classes
    order = ranks[rows, labels].argsort(descending=True, stable=True)
    order = order if best_of_each or landing else order[:CANDIDATES]
    rows, labels = rows[order], labels[order]
    # In float64, since batched_nms may move each class by a multiple of the image's size and so lose digits.
    kept = batched_nms(boxes[rows, labels].double(), ranks[rows, labels].double(), labels, settings.nms).sort().values
    rows, labels = rows[kept], labels[kept]
    if landing:
        enough = (scores[rows, labels] >= min_score) | best[rows, labels]
        rows, labels = rows[enough], labels[enough]
        order = scores[rows, labels].argsort(descending=True, stable=True)
        rows, labels = rows[order], labels[order]
    if settings.parts:
        first = torch.arange(len(rows), device=rows.device) < max(settings.max_detections, AMONG)
        whole = first.clone()
        own = boxes[rows, labels][first], scores[rows, labels][first], labels[first]
        whole[first] = whole_objects(*own, settings.parts)
        whole |= ~first & best[rows, labels]  # a class that begins past those compared
        rows, labels = rows[whole], labels[whole]
    chosen = torch.arange(len(rows), device=rows.device) < settings.max_detections
    if best_of_each:
        chosen |= _first_of_each(labels)
    rows, labels = rows[chosen], labels[chosen]
    return Found(boxes[rows, labels], scores[rows, labels], labels)


def _candidates(probabilities: Tensor, boxes: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Classes' scores [B, C], −1 where the box is empty or not finite, and their boxes inside the image [B, C, 4]."""
    scores = probabilities[:, 1:].float()
    boxes = boxes[:, 1:] if boxes.dim() == 3 else boxes[:, None].expand(-1, scores.shape[1], -1)
    limits = boxes.new_tensor((*size, *size)).float()
    inside = boxes.float().clamp(min=0).minimum(limits)
    sound = (inside[..., 2:] > inside[..., :2]).all(dim=-1) & scores.isfinite() & (scores >= 0)
    return scores.where(sound, -1.0), inside


def _first_of_each(labels: Tensor) -> Tensor:
    """Where each label occurs for the first time: [D] → bool [D]."""
    places = torch.arange(len(labels), device=labels.device)
    earliest = torch.full((int(labels.max()) + 1 if len(labels) else 0,), len(labels), device=labels.device)
    return earliest.scatter_reduce(0, labels, places, "amin")[labels] == places


def _best_of_columns(ranks: Tensor) -> Tensor:
    """Where the highest of each column stands, the first of equals: [B, C] → bool [B, C]."""
    best = torch.zeros_like(ranks, dtype=torch.bool)
    if len(ranks):
        best.scatter_(0, ranks.argmax(dim=0, keepdim=True), value=True)
    return best


def _landed(scores: Tensor, boxes: Tensor) -> Tensor:
    """What speaks for the boxes of classes [B, C, 4], −∞ for all but the first `LANDED` of each by score [B, C]."""
    most, rows = scores.topk(min(LANDED, len(scores)), dim=0)  # [M, C]
    there = boxes.gather(0, rows[..., None].expand(-1, -1, 4))
    values = landed(most.T, there.transpose(0, 1)).T.masked_fill(most < 0, -torch.inf)
    return torch.full_like(scores, -torch.inf).scatter(0, rows, values)


def as_detections(classes: Sequence[str], ids: Sequence[str], found: Iterable[Found]) -> Detections:
    """The result type for what was found in each of the images, in their order."""
    each = [[part.detach().cpu().numpy() for part in one] for one in found]
    if len(each) != len(ids):
        raise ValueError(f"expected what was found in {len(ids)} images, found it of {len(each)}")
    boxes = np.concatenate([np.zeros((0, 4)), *(one[0] for one in each)]).astype(np.float64)
    scores = np.concatenate([np.zeros(0), *(one[1] for one in each)]).astype(np.float64)
    labels = np.concatenate([np.zeros(0), *(one[2] for one in each)]).astype(np.int64)
    images = np.repeat(np.arange(len(ids)), [len(one[1]) for one in each]).astype(np.int64)
    return Detections(tuple(classes), tuple(ids), images, labels, scores, boxes)
