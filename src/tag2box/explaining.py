"""Which box explains best how all proposals of a picture score?

If an object fills a box, then what covers it well scores high, what covers a part of it or much else beside it scores
less, and what lies elsewhere scores low. So each box predicts how scores fall off around it, and the box is chosen
whose prediction goes best with the scores that were found. A single score says too little for that: that of a face is
as high as that of the whole cat. All of them together say where the cat ends.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

FLATNESS = 1 / 3
"""Power of the scores: the few highest ones would else be all that is explained (benchmarks/LOG.md)."""


def agreed(cues: Sequence[Tensor]) -> Tensor:
    """One score from several that are at least 0, each relative to its highest, flattened and added: [..., B, C]."""
    tiny = torch.finfo(torch.float32).tiny
    return torch.stack(
        [(cue.float() / cue.float().amax(dim=-2, keepdim=True).clamp(min=tiny)) ** FLATNESS for cue in cues]
    ).sum(dim=0)


def explained(scores: Tensor, alike: Tensor) -> Tensor:
    """Correlation over a picture's proposals of each class's scores with how well they cover each box.

    [..., B, C], [..., B, B] of `overlap.likeness` → [..., B, C] in −1…1. Where all scores are the same nothing is to be
    explained, and it is 0.
    """
    with torch.autocast(scores.device.type, enabled=False):  # rounded to half precision, near boxes would be alike
        scores, alike = scores.float(), alike.float()
        scores = scores - scores.mean(dim=-2, keepdim=True)
        alike = alike - alike.mean(dim=-2, keepdim=True)  # over the first of the two: the proposals
        together = alike.transpose(-1, -2) @ scores / max(scores.shape[-2], 1)  # [..., B, C]
        spread = (alike**2).mean(dim=-2)[..., None] * (scores**2).mean(dim=-2)[..., None, :]
        return together / spread.clamp(min=1e-12).sqrt()
