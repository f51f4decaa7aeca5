"""A detector learns to propose: a region proposal network on its own map, from boxes that it found itself.

Trunk and head stay as they are. Selective search has then done its work: what is learnt needs pictures alone.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from tag2box.data.images import read_image
from tag2box.data.records import Dataset
from tag2box.detector import READERS, Detector
from tag2box.engine.plan import generator_for, seed_for
from tag2box.inference import flip_boxes, on_canvas, resized, scale_boxes
from tag2box.nets.proposer import Proposer
from tag2box.pipeline import AHEAD, Pixels, run_ahead, worker_pool
from tag2box.progress import progress

RATE, DECAY, WARMUP, CLIP = 1e-3, 1e-4, 50, 10.0
TOGETHER = 2
"""Pictures in a step."""


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
    steps, generator = max(math.ceil(epochs * len(dataset) / TOGETHER), least_steps), generator_for(seed, -10)
    order = list(islice(_order(len(dataset), generator), steps * TOGETHER))
    with worker_pool(READERS, processes=False) as pool, progress("learning", steps, unit="steps") as count_one:
        begun = run_ahead(lambda index: pool.submit(read_image, dataset[index].path), order, AHEAD * READERS)
        for step in range(steps):
            warmup, falling = min(1.0, (step + 1) / WARMUP), 0.5 * (1 + math.cos(math.pi * step / steps))
            optimiser.param_groups[0]["lr"] = RATE * warmup * falling
            losses = []
            for index, picture in islice(begun, TOGETHER):
                pixels, wanted = _shown(detector, picture.result(), boxes[index], generator)
                size = pixels.shape[2], pixels.shape[1]
                losses.append(proposer.loss(detector.features(on_canvas(pixels)[None]), [size], [wanted]))
            optimiser.zero_grad()
            torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(proposer.parameters(), CLIP)
            optimiser.step()
            count_one()
    detector.net.proposer = proposer.eval()


def _shown(detector: Detector, pixels: Pixels, boxes: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A picture [3, h, w] at a scale of the recipe, perhaps mirrored, and the boxes in it [T, 4]."""
    data = detector.recipe.data
    scale = data.scales[int(torch.randint(len(data.scales), (), generator=generator))]
    mirrored = data.flip and bool(torch.rand((), generator=generator) < 0.5)
    image, x, y = resized(torch.from_numpy(pixels).to(detector.device).permute(2, 0, 1), scale, data.max_side)
    wanted = scale_boxes(boxes.to(image), x, y)
    return (image.flip(2), flip_boxes(wanted, image.shape[2])) if mirrored else (image, wanted)


def _order(number: int, generator: torch.Generator) -> Iterator[int]:
    """All pictures, again and again, in an order of its own each time."""
    while True:
        yield from torch.randperm(number, generator=generator).tolist()
