"""A detector learns to propose: a region proposal network on its own map, from boxes that it found itself.

Trunk and head stay as they are. Selective search has then done its work: what is learnt needs pictures alone.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from tag2box.data.images import read_image
from tag2box.data.records import Dataset
from tag2box.detector import READERS, Detector
from tag2box.engine.plan import generator_for, seed_for
from tag2box.engine.views import padded
from tag2box.inference import flip_boxes, on_canvas, resized, scale_boxes
from tag2box.nets.proposer import Proposer
from tag2box.pipeline import AHEAD, Pixels, run_ahead, worker_pool
from tag2box.progress import progress

RATE, DECAY, WARMUP, CLIP = 1e-3, 1e-4, 50, 10.0
TOGETHER, MOST_STEPS = 2, 4000
"""Pictures in a step, or more where there would be more steps than that."""


def learn_to_propose(
    detector: Detector, dataset: Dataset, boxes: Sequence[Tensor], *, epochs: float = 8, least_steps: int = 400
) -> None:
    """Give the detector's net a `Proposer`, taught by boxes in each picture's own pixels, N times [T, 4].

    epochs: times that every picture is shown, or more often, for so many steps in all.
    """
    seed, trunk = detector.recipe.seed, detector.net.trunk
    torch.manual_seed(seed_for(seed, -9))
    proposer = Proposer(channels=trunk.channels, stride=trunk.stride).to(detector.device).train()
    optimiser = torch.optim.AdamW(proposer.parameters(), RATE, weight_decay=DECAY)
    generator, (steps, together) = generator_for(seed, -10), plan_steps(len(dataset), epochs, least_steps)
    order = list(islice(_order(len(dataset), generator), steps * together))
    with worker_pool(READERS, processes=False) as pool, progress("learning", steps, unit="steps") as count_one:
        begun = run_ahead(lambda index: pool.submit(read_image, dataset[index].path), order, AHEAD * READERS)
        for step in range(steps):
            warmup, falling = min(1.0, (step + 1) / WARMUP), 0.5 * (1 + math.cos(math.pi * step / steps))
            optimiser.param_groups[0]["lr"] = RATE * warmup * falling
            read = ((picture.result(), boxes[index]) for index, picture in islice(begun, together))
            pictures, wanted = zip(*_shown(detector, read, generator), strict=True)
            sizes = [(pixels.shape[2], pixels.shape[1]) for pixels in pictures]
            maps = detector.features(padded([on_canvas(pixels) for pixels in pictures]))
            optimiser.zero_grad()
            proposer.loss(maps, sizes, wanted).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(proposer.parameters(), CLIP)
            optimiser.step()
            count_one()
    detector.net.proposer = proposer.eval()


def plan_steps(number: int, epochs: float, least_steps: int) -> tuple[int, int]:
    """How many steps, of how many pictures each.

    >>> plan_steps(300, 8, 400), plan_steps(48, 8, 400), plan_steps(3970, 8, 400)
    ((1200, 2), (400, 2), (3970, 8))
    """
    showings = epochs * number
    together = max(TOGETHER, math.ceil(showings / MOST_STEPS))
    return max(math.ceil(showings / together), least_steps), together


def _shown(
    detector: Detector, pictures: Iterable[tuple[Pixels, Tensor]], generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Pictures [3, h, w] at one scale of the recipe, some mirrored, and the boxes in each [T, 4]."""
    data = detector.recipe.data
    scale = data.scales[int(torch.randint(len(data.scales), (), generator=generator))]
    for pixels, boxes in pictures:
        mirrored = data.flip and bool(torch.rand((), generator=generator) < 0.5)
        image, x, y = resized(torch.from_numpy(pixels).to(detector.device).permute(2, 0, 1), scale, data.max_side)
        wanted = scale_boxes(boxes.to(image), x, y)
        yield (image.flip(2), flip_boxes(wanted, image.shape[2])) if mirrored else (image, wanted)


def _order(number: int, generator: torch.Generator) -> Iterator[int]:
    """All pictures, again and again, in an order of its own each time."""
    while True:
        yield from torch.randperm(number, generator=generator).tolist()
