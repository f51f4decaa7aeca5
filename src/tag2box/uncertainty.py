"""How unsure the two nets are of a tagged picture and of each of its tags: where a human look pays most.

Two doubts add up. The nets may differ: the dissimilarity DISC of eq. 8, 0–1 part, with the weights of training. And the
conditional net may not know: the self-diversity DIV(c, c) of its samples. The prediction net's own confidence is the
usual measure, to compare with.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from tag2box.disco.diversity import diversities
from tag2box.disco.prediction_loss import sample_weights
from tag2box.pair import Study


class Uncertainty(NamedTuple):
    """Of a picture, or of one class in it."""

    dissimilarity: float
    """DISC between the nets. An estimate from K samples: it may be a little below 0."""
    self_diversity: float
    """DIV(c, c): the share of pairs of samples that differ, 0 to 1."""
    confidence: float
    """The score of the prediction net's best box of the class; of a picture, that of its least sure tag."""

    @property
    def total(self) -> float:
        """What pictures are ordered by."""
        return self.dissimilarity + self.self_diversity


def image_uncertainty(study: Study, confidence: float, gamma: float = 0.5) -> Uncertainty:
    """Over all labels."""
    return _measure(study.probabilities, study.samples, gamma, confidence)


def class_uncertainty(study: Study, label: int, confidence: float, gamma: float = 0.5) -> Uncertainty:
    """Of one class, 1…C: the same measures for the question whether a proposal is of it or not."""
    own = study.probabilities[:, label]
    return _measure(torch.stack([1 - own, own], dim=-1), (study.samples == label).long(), gamma, confidence)


def _measure(probabilities: Tensor, samples: Tensor, gamma: float, confidence: float) -> Uncertainty:
    found = diversities(probabilities, samples, sample_weights(samples))  # the weights of training
    return Uncertainty(float(found.dissimilarity(gamma)), float(found.cc), confidence)
