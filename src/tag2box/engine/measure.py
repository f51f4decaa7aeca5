"""What is said of a stage: detections on training and held-out pictures, and the diversities of the two nets."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from tag2box.config import Recipe
from tag2box.detections import Detections
from tag2box.disco.diversity import diversities
from tag2box.disco.offsets import FAST_RCNN, decode
from tag2box.engine.forward import conditional_outputs, noise_for, prediction_outputs, warm_outputs
from tag2box.engine.plan import generator_for
from tag2box.engine.steps import Boxed, pseudo_truths
from tag2box.engine.views import Album, View, with_rows
from tag2box.inference import (
    Found,
    Seen,
    as_detections,
    as_many_as_fit,
    average_views,
    canvas,
    flip_boxes,
    resized_size,
    select_detections,
)
from tag2box.mil import refined_scores, wsddn_scores
from tag2box.nets.conditional import ConditionalNet
from tag2box.nets.mil import MilNet, MilOutputs
from tag2box.nets.prediction import Outputs, PredictionNet
from tag2box.progress import progress

Scorer = Callable[[Sequence[View]], list[tuple[Tensor, Tensor]]]
"""Views' probabilities [B, C + 1] and boxes [B, C + 1, 4]."""
TOGETHER = 8
"""Pictures that a GPU looks at together, all on canvases of one size."""


def wsddn_scorer(net: MilNet) -> Scorer:
    """WSDDN's own scores, on the proposals as they are."""

    def score(view: View, outputs: MilOutputs) -> tuple[Tensor, Tensor]:
        scores = wsddn_scores(outputs.class_logits, outputs.proposal_logits)
        nothing = scores.new_zeros(len(scores), 1)
        return torch.cat([nothing, scores], 1), view.boxes[:, None].expand(-1, scores.shape[1] + 1, -1)

    return lambda views: list(map(score, views, _warm_outputs(net, views)))


def _warm_outputs(net: MilNet, views: Sequence[View]) -> list[MilOutputs]:
    return warm_outputs(net, views).split([len(view.boxes) for view in views])


def refined_scorer(net: MilNet) -> Scorer:
    """The mean of the refinement branches, with their box regression where they have one."""

    def score(view: View, outputs: MilOutputs) -> tuple[Tensor, Tensor]:
        probabilities = refined_scores(outputs)
        if outputs.offsets is None:
            return probabilities, view.boxes[:, None].expand(-1, probabilities.shape[1], -1)
        return probabilities, decode(outputs.offsets.float(), view.boxes[:, None], FAST_RCNN)

    return lambda views: list(map(score, views, _warm_outputs(net, views)))


def prediction_scorer(net: PredictionNet) -> Scorer:
    """The prediction net: the detector."""

    def score(view: View, outputs: Outputs) -> tuple[Tensor, Tensor]:
        boxes = decode(outputs.offsets.float(), view.boxes[:, None], FAST_RCNN)
        return outputs.scores.float().softmax(-1), boxes

    return lambda views: list(map(score, views, prediction_outputs(net, views)))


@torch.no_grad()
def detect(
    scorer: Scorer, album: Album, recipe: Recipe, *, tagged_only: bool, min_score: float, most: int | None = None
) -> Detections:
    """Detections on all pictures, or on `most` of them, spread over the data set.

    `tagged_only` keeps to each picture's tags and its best box of each, for CorLoc.
    """
    chosen = range(0, len(album), -(-len(album) // most)) if most else range(len(album))
    found: dict[int, Found] = {}
    with progress("scoring", len(chosen)) as count_one:
        for indices in together(album, chosen, recipe):
            each = as_many_as_fit(lambda some: see(scorer, album, some, recipe), indices)
            for index, seen in zip(indices, each, strict=True):
                found[index] = _select(*seen, album, index, recipe, tagged_only, min_score)
                count_one()
    ids = [album.dataset[index].id for index in chosen]
    return as_detections(album.dataset.classes, ids, [found[index] for index in chosen])


def together(album: Album, chosen: Iterable[int], recipe: Recipe) -> Iterator[list[int]]:
    """Numbers of pictures to look at at once: on a GPU some that come to the same canvas, elsewhere one."""
    if album.device.type != "cuda":
        yield from ([index] for index in chosen)
        return
    sizes: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for index in chosen:
        shown = [resized_size(album.dataset[index].size, s, recipe.data.max_side) for s in recipe.inference.scales]
        sizes.setdefault(tuple(canvas(one, album.device) for one in shown), []).append(index)
    for alike in sizes.values():
        yield from (alike[i : i + TOGETHER] for i in range(0, len(alike), TOGETHER))


def see(scorer: Scorer, album: Album, indices: Sequence[int], recipe: Recipe, most: int | None = None) -> list[Seen]:
    """Probabilities, and boxes in the pictures' own pixels, averaged over every scale and side.

    Of the stored proposals alone, the first `most` of them, as a detector has them: not of boxes found before.
    """
    seen: list[list[Seen]] = [[] for _ in indices]
    for scale in recipe.inference.scales:
        for mirrored in (False, True) if recipe.inference.flip else (False,):
            views = [_stored(album, album.view(index, scale, mirrored), most) for index in indices]
            for own, view, (probabilities, boxes) in zip(seen, views, scorer(views), strict=True):
                boxes = flip_boxes(boxes, view.size[0]) if mirrored else boxes
                width, height = album.dataset[view.index].size
                grown = boxes.new_tensor([width / view.size[0], height / view.size[1]] * 2)
                own.append((probabilities, boxes * grown))
    return [average_views(own) for own in seen]


def _stored(album: Album, view: View, most: int | None) -> View:
    """The view with its stored proposals alone, the first `most` of them: what nobody asks about is not looked at."""
    first, last = album.number_found(view.index), len(view.boxes)
    last = last if most is None else min(first + most, last)
    return view if (first, last) == (0, len(view.boxes)) else with_rows(view, torch.arange(first, last))


def _select(
    probabilities: Tensor,
    boxes: Tensor,
    album: Album,
    index: int,
    recipe: Recipe,
    tagged_only: bool,
    min_score: float,
) -> Found:
    if tagged_only:
        absent = ~torch.cat([torch.ones(1, dtype=torch.bool), album.tags[index]])
        probabilities = probabilities.masked_fill(absent.to(probabilities.device), -1.0)
    return select_detections(
        probabilities,
        boxes,
        replace(recipe.inference, min_score=min_score),
        size=album.dataset[index].size,
        best_of_each=tagged_only,
    )


class Sampled(NamedTuple):
    """What both nets say of one view."""

    samples: Tensor
    """Of the conditional net [K, B]."""
    truths: list[Boxed]
    """What survives of each."""
    probabilities: Tensor
    """Of the prediction net [B, C + 1]."""
    boxes: Tensor
    """And where it moves them [B, C + 1, 4]."""


@torch.no_grad()
def sample_view(
    conditional: ConditionalNet, prediction: PredictionNet, view: View, recipe: Recipe, *seed: int
) -> Sampled:
    """Both nets on one view, the noise drawn for that place in the run."""
    noise = noise_for([view], recipe.rounds.samples if recipe.rounds.noise else 0, generator_for(*seed))
    (outputs,) = conditional_outputs(conditional, [view], noise)
    samples, truths = pseudo_truths(view, outputs, recipe.rounds)
    (seen,) = prediction_scorer(prediction)([view])
    return Sampled(samples, truths, *seen)


@torch.no_grad()
def measure_diversities(
    conditional: ConditionalNet, prediction: PredictionNet, album: Album, recipe: Recipe, most: int = 300
) -> dict[str, float]:
    """DIV(p, c), DIV(c, c), DIV(p, p) and DISC (eq. 8–12), mean over pictures; the same ones and noise each time.

    The estimate has no bias whatever K is, and four times as many samples as in training halve what it strays by. One
    sample stays one, a net of one answer. Proposals are drawn as in training (`data.drawn_proposals`).
    """
    chosen = range(0, len(album), -(-len(album) // most))
    number = recipe.rounds.samples
    recipe = replace(recipe, rounds=replace(recipe.rounds, samples=4 * number if number > 1 else 1))
    rows = []
    with progress("diversities", len(chosen)) as count_one:
        for index in chosen:
            view = album.view(index, recipe.inference.scales[0], draw=generator_for(recipe.seed, -3, index))
            sampled = sample_view(conditional, prediction, view, recipe, recipe.seed, -1, index)
            rows.append(torch.stack(diversities(sampled.probabilities, sampled.samples)))
            count_one()
    pc, cc, pp = torch.stack(rows).mean(0).tolist()
    gamma = recipe.rounds.gamma
    return {"div_pc": pc, "div_cc": cc, "div_pp": pp, "disc": pc - gamma * cc - (1 - gamma) * pp}
