"""One training step of each of the three nets: views in, a loss and what to log out.

Each is a module whose `forward` is the whole step, so that a distributed wrapper sees one call.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from tag2box.config import Rounds, Warm
from tag2box.disco.direct_loss import direct_loss_surrogate, spread
from tag2box.disco.diversity import localisation_diversities
from tag2box.disco.offsets import FAST_RCNN, decode, encode
from tag2box.disco.prediction_loss import balanced_weights, prediction_loss, sample_weights
from tag2box.disco.sampling import PseudoTruth, constrained_argmax, pseudo_ground_truths
from tag2box.engine.forward import conditional_outputs, prediction_outputs, warm_outputs
from tag2box.engine.known import clamped, with_known
from tag2box.engine.views import View
from tag2box.mil import mil_losses
from tag2box.nets.conditional import ConditionalNet
from tag2box.nets.mil import MilNet
from tag2box.nets.prediction import Outputs, PredictionNet
from tag2box.overlap import pair_iou, touches

Logs = dict[str, Tensor]
FOREGROUND = 0.5
"""IoU with a pseudo-truth box from which a proposal is an object (METHOD §5)."""


class WarmStep(nn.Module):
    """WSDDN and refinement branches on the tags (METHOD §7)."""

    def __init__(self, net: MilNet, settings: Warm) -> None:
        super().__init__()
        self.net, self.settings = net, settings

    def forward(self, views: Sequence[View]) -> tuple[Tensor, Logs]:
        """The mean loss of the views."""
        settings, known = self.settings, [None if view.known is None else view.known.seeds for view in views]
        boxes, tags = [view.boxes for view in views], [view.tags for view in views]
        hints = [view.hints for view in views]
        outputs = warm_outputs(self.net, views)
        losses = mil_losses(outputs, boxes, tags, FAST_RCNN, votes=settings.votes, hints=hints, known=known)
        logs = {"loss_tags": losses.wsddn.mean()}
        if losses.refined:
            first, *others = losses.refined
            logs["loss_refined"] = torch.stack([settings.first_refinement * first, *others]).sum(dim=0).mean()
        if losses.regression is not None:
            logs["loss_boxes"] = losses.regression.mean()
        refinement = settings.refinement
        weights = {"loss_tags": 1.0, "loss_refined": refinement, "loss_boxes": refinement * settings.boxes}
        return torch.stack([weights[name] * value for name, value in logs.items()]).sum(), logs


class ConditionalStep(nn.Module):
    """The conditional net's share of DISC by direct loss minimisation (eq. 14, algorithm 1); the other net is fixed."""

    def __init__(self, net: ConditionalNet, settings: Rounds) -> None:
        super().__init__()
        self.net, self.settings = net, settings

    def forward(self, views: Sequence[View], noise: Tensor, predictions: Sequence[Outputs]) -> tuple[Tensor, Logs]:
        """The mean over the views. `predictions` are the prediction net's outputs for them, without gradient."""
        outputs = conditional_outputs(self.net, views, noise)
        pairs = [self._view(*one) for one in zip(views, outputs, predictions, strict=True)]
        direct, boxes = (torch.stack(values).mean() for values in zip(*pairs, strict=True))
        apart = torch.stack([spread(one.scores) for one in outputs]).mean()
        loss = direct + self.settings.loss_ratio * boxes
        return loss, {"loss_direct": direct, "loss_apart": boxes, "score_spread": apart}

    def _view(self, view: View, outputs: Outputs, prediction: Outputs) -> tuple[Tensor, Tensor]:
        settings, scores = self.settings, outputs.scores.float()  # [K, B, C + 1]
        possible = clamped(scores, view.known)
        samples = constrained_argmax(possible.detach(), view.tags)  # [K, B]
        probabilities = prediction.scores.float().softmax(-1)
        weights = sample_weights(samples)  # [B]
        direct = direct_loss_surrogate(
            possible,
            probabilities,
            samples,
            view.tags,
            epsilon=settings.epsilon * (spread(scores) if settings.epsilon_unit == "spread" else 1),
            gamma=settings.gamma,
            weights=weights,
        )
        chosen = of_samples(outputs.offsets.float(), samples)  # [K, B, 4]
        apart = localisation_diversities(probabilities, samples, prediction.offsets.float(), chosen, weights)
        # Offsets are pulled towards the prediction net's (METHOD §6) and not apart from each other: −γ DIV(c, c) of the
        # boxes has no lower bound, because DIV(p, c) counts them by p < 1 only, and it soon outweighs all the rest.
        return direct, apart.pc


class PredictionStep(nn.Module):
    """The prediction net's share of DISC (eq. 13, mended) on pseudo ground truth, the conditional net fixed."""

    def __init__(self, net: PredictionNet, settings: Rounds) -> None:
        super().__init__()
        self.net, self.settings = net, settings

    def forward(self, views: Sequence[View], truths: Sequence[list["Boxed"]]) -> tuple[Tensor, Logs]:
        """The mean over the views; `truths` holds for each the pseudo ground truth of every sample."""
        outputs = prediction_outputs(self.net, views)
        pairs = [self._view(*one) for one in zip(views, outputs, truths, strict=True)]
        labels, boxes = (torch.stack(values).mean() for values in zip(*pairs, strict=True))
        return labels + self.settings.loss_ratio * boxes, {"loss_labels": labels, "loss_boxes": boxes}

    def _view(self, view: View, outputs: Outputs, truths: list["Boxed"]) -> tuple[Tensor, Tensor]:
        labels, counts, wanted = assign(view.boxes, truths)  # [K, B], [K, B], [K, B, 4]
        weights = balanced_weights(labels)  # [K, B]
        probabilities = outputs.scores.float().softmax(-1)
        settings = self.settings
        brier = prediction_loss(
            probabilities,
            labels,
            gamma=settings.gamma,
            weights=weights,
            self_diversity=settings.self_diversity,
            tags=view.tags,
            touched=counts,
        )
        found = of_samples(outputs.offsets.float().expand(len(labels), -1, -1, -1), labels)  # [K, B, 4]
        apart = functional.smooth_l1_loss(found, wanted, reduction="none").sum(-1)  # [K, B]
        apart = apart.where(labels > 0, 0)  # elsewhere it may be infinite: a box regressed to nothing has no logarithm
        return brier, (apart * weights).sum(-1).mean()


Boxed = tuple[Tensor, Tensor]
"""The boxes [T, 4] and classes 1…C [T] of a sample's pseudo ground truth."""


def pseudo_truths(view: View, outputs: Outputs, settings: Rounds) -> tuple[Tensor, list[Boxed]]:
    """Samples [K, B] of the conditional net (eq. 2–4) and the pseudo ground truth that each leaves after thinning.

    Of classes that a person has decided on it is that person's boxes.
    """
    return all_pseudo_truths([view], [outputs], settings)[0]


def all_pseudo_truths(
    views: Sequence[View], outputs: Sequence[Outputs], settings: Rounds
) -> list[tuple[Tensor, list[Boxed]]]:
    """The same for several views, thinned together: on a GPU each thinning waits for all that is queued there."""
    drawn = [_draw(*one, settings) for one in zip(views, outputs, strict=True)]
    count, most = len(drawn[0].taught), max(len(view.boxes) for view in views)
    labels, probabilities, boxes = (
        torch.cat([functional.pad(part, (*(0,) * (2 * (part.dim() - 2)), 0, most - part.shape[1])) for part in parts])
        for parts in zip(*((one.taught, one.probabilities, one.boxes) for one in drawn), strict=True)
    )  # [N K, B, …]; what fills up views with fewer proposals is background
    tags = torch.stack([view.tags for view in views]).repeat_interleave(count, dim=0)
    picks: list[PseudoTruth] = pseudo_ground_truths(
        labels, probabilities, boxes, tags, settings.threshold, settings.nms, settings.parts
    )
    found = []
    for number, (view, own) in enumerate(zip(views, drawn, strict=True)):
        chosen = own.boxes if settings.regressed else view.boxes.expand_as(own.boxes)
        mine = picks[number * count : (number + 1) * count]
        truths = [(chosen[k, pick.indices], pick.classes) for k, pick in enumerate(mine)]
        found.append((own.samples, [with_known(truth, view.known) for truth in truths]))
    return found


class _Drawn(NamedTuple):
    """What K samples of a view say before they are thinned."""

    samples: Tensor
    """[K, B]"""
    taught: Tensor
    """The same, but for what `rounds.promise` changes [K, B]."""
    probabilities: Tensor
    """[K, B, C + 1]"""
    boxes: Tensor
    """Moved as their labels have it [K, B, 4]."""


def _draw(view: View, outputs: Outputs, settings: Rounds) -> _Drawn:
    scores = outputs.scores.float()
    samples = constrained_argmax(clamped(scores, view.known), view.tags)  # [K, B]
    taught = samples
    if settings.promise:
        scores = with_promise(scores, settings.promise, view.hints.places if view.hints else None)
        taught = constrained_argmax(clamped(scores, view.known), view.tags)
    boxes = decode(of_samples(outputs.offsets.float(), taught), view.boxes, FAST_RCNN)
    return _Drawn(samples, taught, scores.softmax(-1), boxes)


def with_promise(scores: Tensor, weight: float, places: Tensor | None = None) -> Tensor:
    """Scores [..., B, C + 1] of proposals in stored order, those of objects raised before the tenth, lowered after it.

    Proposals come in the order of how often selective search found them, and of their size: whole objects before
    their parts. A part that tells the class is all that a net needs to learn the tags, so nothing else speaks for the
    whole. No box that somebody drew is behind it. It weighs on what is taught, not on the distribution itself.

    Where there are hints, `places` [B, C], they say more than the order: each class's proposals are lowered by how much
    less speaks for them than for its best.
    """
    if places is None:
        ranks = torch.arange(scores.shape[-2], device=scores.device, dtype=scores.dtype)
        bonus = weight * (math.log(10) - (1 + ranks).log())[:, None]  # [B, 1]
    else:
        bonus = weight * (places - places.amax(dim=0, keepdim=True)) if len(places) else places  # [B, C]
    return torch.cat([scores[..., :1], scores[..., 1:] + bonus], dim=-1)


def assign(proposals: Tensor, truths: Sequence[Boxed]) -> tuple[Tensor, Tensor, Tensor]:
    """Labels [K, B], which proposals count [K, B] and wanted offsets [K, B, 4], as Fast R-CNN has them from true boxes.

    truths: those of each of K samples; all have some, or in a picture without a tag none.
    """
    boxes = pad_sequence([boxes for boxes, _ in truths], batch_first=True)  # [K, T, 4]
    classes = pad_sequence([classes for _, classes in truths], batch_first=True)  # [K, T]; 0 fills up
    if not boxes.shape[1]:  # all of it is background
        none = torch.zeros(len(truths), len(proposals), dtype=torch.long, device=proposals.device)
        return none, none == 0, torch.zeros_like(proposals).expand(len(truths), -1, -1)
    overlap, nearest = pair_iou(proposals[None], boxes).masked_fill(classes[:, None] == 0, -1).max(dim=2)  # [K, B]
    labels = classes.gather(1, nearest) * (overlap >= FOREGROUND)
    own = boxes.gather(1, nearest[..., None].expand(-1, -1, 4))  # [K, B, 4]
    return labels, touches(proposals, own, overlap), encode(own, proposals, FAST_RCNN)


def of_samples(offsets: Tensor, samples: Tensor) -> Tensor:
    """The offsets of each proposal's label: [K, B, C + 1, 4] and [K, B] → [K, B, 4]."""
    return offsets.gather(2, samples[..., None, None].expand(-1, -1, 1, 4)).squeeze(2)
