"""What the samples of the conditional net agree on: boxes, each with its share of the samples."""

import torch
from torch import Tensor
from torchvision.ops import batched_nms, box_iou

from tag2box.inference import Found
from tag2box.pair import Study

SAME = 0.5
"""IoU from which two samples mean the same thing."""
NMS = 0.3
"""Boxes of a class that overlap a better one by this IoU are dropped."""


def agreed(study: Study) -> Found:
    """The boxes of all samples, thinned, the best first.

    A box's score is the share of samples that have one of its class on the same place, times the probability that the
    prediction net gives that class there. Every sample has a box of each tagged class, so that the result has one too.
    """
    boxes, classes, sample = _pooled(study)  # [T, 4], [T], [T]
    if not len(boxes):
        return Found(boxes, boxes.new_zeros(0), classes)
    alike = (box_iou(boxes, boxes) >= SAME) & (classes[:, None] == classes)  # [T, T]
    share = torch.stack([alike[:, sample == k].any(1) for k in range(len(study.truths))]).float().mean(0)  # [T]
    nearest = box_iou(boxes, study.proposals).argmax(1)  # a regressed box is no proposal
    scores = share * study.probabilities[nearest, classes]
    order = scores.argsort(descending=True, stable=True)
    boxes, classes, scores = boxes[order], classes[order], scores[order]
    kept = batched_nms(boxes.double(), scores.double(), classes, NMS).sort().values
    return Found(boxes[kept], scores[kept], classes[kept] - 1)


def _pooled(study: Study) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes, classes 1…C and number of the sample of all that the samples hold."""
    boxes = torch.cat([study.proposals.new_zeros(0, 4), *(boxes for boxes, _ in study.truths)])
    classes = torch.cat([torch.zeros(0, dtype=torch.long), *(classes for _, classes in study.truths)])
    sample = torch.cat([torch.full_like(classes, k) for k, (_, classes) in enumerate(study.truths)])
    return boxes, classes, sample
