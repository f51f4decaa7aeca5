"""What is said of a stage: detections on training and held-out pictures, and the diversities of the two nets."""

from collections.abc import Callable, Iterator
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
from tag2box.engine.views import Album, View
from tag2box.inference import Found, as_detections, average_views, flip_boxes, select_detections
from tag2box.mil import MilNet, refined_scores, wsddn_scores
from tag2box.nets.conditional import ConditionalNet
from tag2box.nets.prediction import PredictionNet

Scorer = Callable[[View], tuple[Tensor, Tensor]]
"""A view's probabilities [B, C + 1] and boxes [B, C + 1, 4]."""


def wsddn_scorer(net: MilNet) -> Scorer:
    """WSDDN's own scores, on the proposals as they are."""

    def score(view: View) -> tuple[Tensor, Tensor]:
        (outputs,) = warm_outputs(net, [view])
        scores = wsddn_scores(outputs.class_logits, outputs.proposal_logits)
        nothing = scores.new_zeros(len(scores), 1)
        return torch.cat([nothing, scores], 1), view.boxes[:, None].expand(-1, scores.shape[1] + 1, -1)

    return score


def refined_scorer(net: MilNet) -> Scorer:
    """The mean of the refinement branches, with their box regression where they have one."""

    def score(view: View) -> tuple[Tensor, Tensor]:
        (outputs,) = warm_outputs(net, [view])
        probabilities = refined_scores(outputs)
        if outputs.offsets is None:
            return probabilities, view.boxes[:, None].expand(-1, probabilities.shape[1], -1)
        return probabilities, decode(outputs.offsets.float(), view.boxes[:, None], FAST_RCNN)

    return score


def prediction_scorer(net: PredictionNet) -> Scorer:
    """The prediction net: the detector."""

    def score(view: View) -> tuple[Tensor, Tensor]:
        (outputs,) = prediction_outputs(net, [view])
        boxes = decode(outputs.offsets.float(), view.boxes[:, None], FAST_RCNN)
        return outputs.scores.float().softmax(-1), boxes

    return score


@torch.no_grad()
def detect(scorer: Scorer, album: Album, recipe: Recipe, *, tagged_only: bool, min_score: float) -> Detections:
    """Detections on all pictures. `tagged_only` keeps to each picture's tags and its best box of each, for CorLoc."""
    found = (_detect_one(scorer, album, index, recipe, tagged_only, min_score) for index in range(len(album)))
    return as_detections(album.dataset.classes, album.dataset.ids, found)


def _detect_one(scorer: Scorer, album: Album, index: int, recipe: Recipe, tagged_only: bool, min_score: float) -> Found:
    probabilities, boxes = average_views(list(_scored_views(scorer, album, index, recipe)))
    if tagged_only:
        absent = ~torch.cat([torch.ones(1, dtype=torch.bool), album.tags[index]])
        probabilities = probabilities.masked_fill(absent.to(probabilities.device), -1.0)
    return select_detections(
        probabilities,
        boxes,
        size=album.dataset[index].size,
        nms=recipe.inference.nms,
        min_score=min_score,
        max_detections=recipe.inference.max_detections,
        best_of_each=tagged_only,
    )


def _scored_views(scorer: Scorer, album: Album, index: int, recipe: Recipe) -> Iterator[tuple[Tensor, Tensor]]:
    """Probabilities, and boxes in the picture's own pixels, of every scale and side."""
    width, height = album.dataset[index].size
    for scale in recipe.inference.scales:
        for mirrored in (False, True) if recipe.inference.flip else (False,):
            view = album.view(index, scale, mirrored)
            probabilities, boxes = scorer(view)
            if mirrored:
                boxes = flip_boxes(boxes, view.size[0])
            yield probabilities, boxes * boxes.new_tensor([width / view.size[0], height / view.size[1]] * 2)


class Sampled(NamedTuple):
    """Of one view: the samples [K, B], what survives of each, and the prediction net's probabilities [B, C + 1]."""

    samples: Tensor
    truths: list[Boxed]
    probabilities: Tensor


@torch.no_grad()
def sample_view(
    conditional: ConditionalNet, prediction: PredictionNet, view: View, recipe: Recipe, *seed: int
) -> Sampled:
    """Both nets on one view, the noise drawn for that place in the run."""
    noise = noise_for([view], recipe.rounds.samples if recipe.rounds.noise else 0, generator_for(*seed))
    (outputs,) = conditional_outputs(conditional, [view], noise)
    samples, truths = pseudo_truths(view, outputs, recipe.rounds)
    (predicted,) = prediction_outputs(prediction, [view])
    return Sampled(samples, truths, predicted.scores.float().softmax(-1))


@torch.no_grad()
def measure_diversities(
    conditional: ConditionalNet, prediction: PredictionNet, album: Album, recipe: Recipe, most: int = 300
) -> dict[str, float]:
    """DIV(p, c), DIV(c, c), DIV(p, p) and DISC (eq. 8–12), mean over pictures; the same ones and noise each time.

    The estimate has no bias whatever K is, and four times as many samples as in training halve what it strays by. One
    sample stays one, a net of one answer.
    """
    chosen = range(0, len(album), -(-len(album) // most))
    number = recipe.rounds.samples
    recipe = replace(recipe, rounds=replace(recipe.rounds, samples=4 * number if number > 1 else 1))
    rows = []
    for index in chosen:
        view = album.view(index, recipe.inference.scales[0])
        sampled = sample_view(conditional, prediction, view, recipe, recipe.seed, -1, index)
        rows.append(torch.stack(diversities(sampled.probabilities, sampled.samples)))
    pc, cc, pp = torch.stack(rows).mean(0).tolist()
    gamma = recipe.rounds.gamma
    return {"div_pc": pc, "div_cc": cc, "div_pp": pp, "disc": pc - gamma * cc - (1 - gamma) * pp}
