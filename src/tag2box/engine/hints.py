"""Where are the tagged objects, by what a teacher saw of each region cut out of the picture?

The regions' vectors are fixed, so small nets on them learn the tags in seconds: which class is a region, from whole
pictures; and, as in WSDDN, which region is a class. None of them finds objects well by its highest score, which is
that of a part here and of a group there. But the box that explains all their scores together (`explaining`) is right
more often than anything that learns from pixels in the same time, and the warm start's seeds come from there.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from tag2box.engine.common import common_in
from tag2box.engine.plan import generator_for, seed_for
from tag2box.engine.teacher import Looks
from tag2box.explaining import agreed, explained
from tag2box.mil import Hints, mil_losses, wsddn_scores
from tag2box.nets.mil import MilHead, MilOutputs
from tag2box.overlap import likeness
from tag2box.progress import progress

WIDTH, BRANCHES, TOGETHER, RATE, WARMUP, DECAY = 1024, 3, 16, 5e-4, 100, 1e-2
"""Of the net on regions: its layer, its refinement branches, pictures in a step, rate, its steps of warm-up, decay."""
SHARPNESS = 8
"""Power of the correlation by which pictures count: weighted so 58 per cent of VOC's best boxes are right, else 49."""
WHOLES, WHOLES_RATE, WHOLES_DECAY, SHOWN = 256, 2e-3, 0.5, 96
"""Of the classifier on whole pictures: crops in a step, rate and decay; times that each picture is shown."""


class Scale(nn.Module):
    """Vectors with every component's mean and spread over whole pictures taken out."""

    mean: Tensor
    std: Tensor

    def __init__(self, wholes: Tensor) -> None:
        super().__init__()
        flat = wholes.float().flatten(0, -2)
        self.register_buffer("mean", flat.mean(dim=0))
        self.register_buffer("std", flat.std(dim=0) + 1e-3)

    def forward(self, vectors: Tensor) -> Tensor:
        """[..., dim] → [..., dim]."""
        return (vectors.float() - self.mean) / self.std


class RegionNet(nn.Module):
    """WSDDN and refinement branches on a teacher's vectors."""

    def __init__(self, scale: Scale, dim: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(scale, nn.Dropout(), nn.Linear(dim, WIDTH), nn.ReLU(), nn.Dropout())
        self.mil = MilHead(dim=WIDTH, classes=classes, branches=BRANCHES)

    def forward(self, vectors: Tensor) -> MilOutputs:
        """[R, dim] → MilOutputs."""
        outputs: MilOutputs = self.mil(self.body(vectors))
        return outputs


def find_places(
    looks: Looks,
    boxes: Sequence[Tensor],
    tags: Tensor,
    *,
    epochs: float,
    seed: int,
    device: torch.device,
    sizes: Sequence[tuple[int, int]] = (),
    common: float = 0.0,
) -> list[Tensor]:
    """How much speaks for each of a picture's regions being all of an object of each class: N times [R_i, C], −1…1.

    boxes: of the regions looked at, N times [R_i, 4]; tags: bool [N, C], all that is learnt from. common: weight of
    what pictures of a class have in common on each of their maps, in which case `sizes` are pictures' width and height.
    """
    torch.manual_seed(seed_for(seed, -5))
    scale = Scale(looks.wholes).to(device)
    wholes = _learn_wholes(scale, looks.wholes.to(device), tags.to(device), seed)
    net = RegionNet(scale, looks.wholes.shape[-1], tags.shape[1]).to(device)
    _learn_regions(net, looks.proposals, boxes, tags, epochs, seed)
    with torch.no_grad():
        seen = zip(looks.proposals, boxes, strict=True)
        places = [_places(net, wholes, vectors.to(device), own.to(device)).half() for vectors, own in seen]
    places = [one.cpu() for one in places]  # not one by one: a GPU would wait for each
    return _with_common(places, looks.maps, boxes, sizes, tags, common) if common else places


def _with_common(
    places: Sequence[Tensor],
    maps: Sequence[Sequence[Tensor]],
    boxes: Sequence[Tensor],
    sizes: Sequence[tuple[int, int]],
    tags: Tensor,
    weight: float,
) -> list[Tensor]:
    """The mean of what speaks for regions, in which each map's say has that weight and the vectors' has 1."""
    levels = [common_in(level, [own.cpu() for own in boxes], sizes, tags) for level in zip(*maps, strict=True)]
    each = zip(places, *levels, strict=True)
    return [((own.float() + weight * sum(more)) / (1 + weight * len(more))).half() for own, *more in each]


def _places(net: RegionNet, wholes: nn.Module, vectors: Tensor, boxes: Tensor) -> Tensor:
    """Of one picture: what its regions [R, dim] say, and the boxes that explain it [R, C]."""
    if not len(vectors):
        return vectors.new_zeros(0, net.mil.classification.out_features)
    outputs = net(vectors)
    classes = outputs.class_logits.float().softmax(dim=-1)
    cues = [wholes(vectors).sigmoid(), classes, wsddn_scores(outputs.class_logits, outputs.proposal_logits)]
    return explained(agreed(cues), likeness(boxes.float()))


def _learn_wholes(scale: Scale, wholes: Tensor, tags: Tensor, seed: int) -> nn.Module:
    """A linear classifier of whole pictures and large crops [N, V, dim], each with all tags of its picture."""
    number, views, dim = wholes.shape
    net = nn.Sequential(scale, nn.Linear(dim, tags.shape[1])).to(wholes.device)
    steps = math.ceil(SHOWN * number / WHOLES)
    optimiser = torch.optim.AdamW(net.parameters(), WHOLES_RATE, weight_decay=WHOLES_DECAY)
    generator = generator_for(seed, -6)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = WHOLES_RATE * (1 - step / steps)
        which = torch.randint(number, (WHOLES,), generator=generator).to(wholes.device)
        crop = torch.randint(views, (WHOLES,), generator=generator).to(wholes.device)
        loss = functional.binary_cross_entropy_with_logits(net(wholes[which, crop]), tags[which].float())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return net.eval()


def _learn_regions(
    net: RegionNet, vectors: Sequence[Tensor], boxes: Sequence[Tensor], tags: Tensor, epochs: float, seed: int
) -> None:
    """The net learns tags from the regions of pictures, its branches from votes."""
    device, batches = net.mil.classification.weight.device, list(_batches(len(vectors), epochs, seed))
    optimiser = torch.optim.AdamW(net.parameters(), RATE, weight_decay=DECAY)
    net.train()
    with progress("hints", len(batches), unit="steps") as count_one:
        for step, chosen in enumerate(batches):
            optimiser.param_groups[0]["lr"] = _rate(step, len(batches))
            seen = torch.cat([vectors[index].to(device, non_blocking=True) for index in chosen])
            own = [boxes[index].to(device, non_blocking=True).float() for index in chosen]
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                outputs = net(seen)
            losses = mil_losses(outputs, own, [tags[index] for index in chosen], votes=True)
            loss = (losses.wsddn + losses.refined[0] + torch.stack(losses.refined).sum(dim=0)).mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            optimiser.step()
            count_one()
    net.eval()


def _rate(step: int, steps: int) -> float:
    """Up, then down by a cosine. No more than a quarter goes up: 80 pictures have 40 steps, and with a hundred to go up
    they learnt next to nothing (35.8 per cent of 800 seeds were right, and 39.9 are now).

    >>> [round(_rate(step, 8) / RATE, 2) for step in range(8)]
    [0.5, 0.96, 0.85, 0.69, 0.5, 0.31, 0.15, 0.04]
    """
    warmup = max(1, min(WARMUP, steps // 4))
    return RATE * min(1.0, (step + 1) / warmup) * 0.5 * (1 + math.cos(math.pi * step / steps))


def _batches(number: int, epochs: float, seed: int) -> Iterator[list[int]]:
    """Which pictures each step learns from."""
    generator = generator_for(seed, -7)
    for _ in range(max(1, round(epochs * number / TOGETHER))):
        yield torch.randint(number, (TOGETHER,), generator=generator).tolist()


def with_sureness(places: Sequence[Tensor], tags: Tensor) -> list[Hints]:
    """Each picture's hints with how sure they are: N times [R_i, C], bool [N, C].

    The better the best box explains the scores, the more often it is right. Classes differ in that as a whole, and none
    is to count less for it: so a power of the correlation, 1 in the mean over the pictures with the tag.
    """
    best = torch.stack([own.float().amax(dim=0) if len(own) else own.new_zeros(own.shape[1]).float() for own in places])
    sure = best.clamp(min=0) ** SHARPNESS * tags  # [N, C]
    mean = sure.sum(dim=0) / tags.sum(dim=0).clamp(min=1)
    return list(map(Hints, places, sure / mean.clamp(min=torch.finfo(torch.float32).tiny)))
