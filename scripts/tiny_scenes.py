"""Pictures composed on the training device: a piece of a backdrop, distractors, labelled things, clutter, light.

Every batch is new: which cut-outs, where, how large, how turned, in which light. It follows the way the demo's own
pictures are put together (`tag2box.data.demo_picture`), in whole batches.
"""

import math
from typing import NamedTuple

import torch
from tiny_bank import CLUTTER, DISTRACTOR, TILE, Bank
from torch import Tensor
from torch.nn import functional

LEVELS = 3
"""Cut-outs are kept sharp and smoothed once and twice, for drawing them small without jagged edges."""


class Scenes(NamedTuple):
    """A batch of N pictures with T things each."""

    images: Tensor
    """[N, 3, S, S], RGB in 0–255."""
    labels: Tensor
    """Category of each thing, or -100 where too little of it can be seen [N, T]."""
    boxes: Tensor
    """Around what can be seen of each [N, T, 4]."""


class Composer:
    """Holds a bank on the device and composes from it."""

    def __init__(self, bank: Bank, device: torch.device, seed: int, held_out: int) -> None:
        self.device, self.held_out = device, held_out
        self.random = torch.Generator(device).manual_seed(seed)
        self.tiles = _levels(torch.from_numpy(bank.sprites).to(device).movedim(3, 1))  # [LEVELS, S, 4, TILE, TILE]
        self.backdrops = torch.from_numpy(bank.backdrops).to(device).movedim(3, 1).contiguous()  # [M, 3, H, W]
        labels, instances = (torch.from_numpy(x).to(device) for x in (bank.labels, bank.instances))
        self.labels = labels
        kept_back = instances < held_out
        self.kinds = {
            "train": ((labels >= 0) & ~kept_back).nonzero()[:, 0],
            "held out": ((labels >= 0) & kept_back).nonzero()[:, 0],
            "distractors": (labels == DISTRACTOR).nonzero()[:, 0],
            "clutter": (labels == CLUTTER).nonzero()[:, 0],
        }

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Numbers from the composer's own stream."""
        return torch.rand(shape, generator=self.random, device=self.device) * (high - low) + low

    def pick(self, kind: str, count: int) -> Tensor:
        """Cut-outs of a kind at random [count]."""
        among = self.kinds[kind]
        return among[torch.randint(len(among), (count,), generator=self.random, device=self.device)]

    def compose(self, count: int, side: int, *, things: int, sizes: tuple[float, float], kind: str = "train") -> Scenes:
        """`count` pictures of `side` pixels with so many things of sizes between these, evenly on a log scale."""
        canvas = self._backdrop(count, side)
        for _ in range(2):
            size = self.uniform(0.12, 0.36, count) * 192
            layer = self._layer(self.pick("distractors", count), side, size, 0.0, lean=0.3)
            canvas = self._glue(canvas, layer, share=0.7)
        chosen: list[Tensor] = []
        seen: list[Tensor] = []
        whole: list[Tensor] = []
        for _ in range(things):
            sprites = self.pick(kind, count)
            size = torch.exp(self.uniform(math.log(sizes[0]), math.log(sizes[1]), count))
            layer = self._layer(sprites, side, size, 0.42)
            canvas = self._glue(canvas, layer)
            seen = [mask * (1 - layer[:, 3]) for mask in seen]
            chosen.append(self.labels[sprites])
            whole.append((layer[:, 3] > 0.5).sum((1, 2)))
            seen.append(layer[:, 3])
        size = self.uniform(0.25, 0.7, count) * 192
        layer = self._layer(self.pick("clutter", count), side, size, -0.1, lean=0.1)
        layer = layer * (self.uniform(0, 1, count) < 0.4)[:, None, None, None]
        canvas = self._glue(canvas, layer)
        masks = torch.stack([mask * (1 - layer[:, 3]) for mask in seen], 1) > 0.5  # [N, T, S, S]
        visible = masks.sum((2, 3)) > 0.45 * torch.stack(whole, 1).clamp(min=100)
        labels = torch.where(visible, torch.stack(chosen, 1), -100)
        return Scenes(self._developed(canvas), labels, _boxes(masks))

    def _backdrop(self, count: int, side: int) -> Tensor:
        """A piece of a backdrop, between its own scale and a third larger, either way round [N, 3, S, S]."""
        picked = torch.randint(len(self.backdrops), (count,), generator=self.random, device=self.device)
        height, width = self.backdrops.shape[2:]
        share = side * self.uniform(0.75, 1.0, count)  # backdrop pixels that the picture shows
        flip = torch.where(self.uniform(0, 1, count) < 0.5, -1.0, 1.0)
        x = (1 - share / width) * self.uniform(-1, 1, count)
        y = (1 - share / height) * self.uniform(-1, 1, count)
        zero = torch.zeros_like(x)
        rows = torch.stack([flip * share / width, zero, x], 1), torch.stack([zero, share / height, y], 1)
        grid = functional.affine_grid(torch.stack(rows, 1), [count, 3, side, side], align_corners=False)
        return functional.grid_sample(
            self.backdrops[picked].float(), grid, padding_mode="reflection", align_corners=False
        )

    def _layer(self, sprites: Tensor, side: int, size: Tensor, room: float, lean: float = 0.3) -> Tensor:
        """Cut-outs alone on transparent sheets [N, 4, S, S], colour 0–255 times coverage, coverage 0–1.

        `room`: the share of the size that the middle keeps from the border.
        """
        count = len(sprites)
        turn = self.uniform(-lean, lean, count)
        flip = torch.where(self.uniform(0, 1, count) < 0.5, -1.0, 1.0)
        most = (1 - 2 * room * size / side).clamp(min=0.05)
        x, y = most * self.uniform(-1, 1, count), most * self.uniform(-1, 1, count)
        zoom = side / size  # from the picture's unit to the tile's
        cos, sin = turn.cos() * zoom, turn.sin() * zoom
        rows = (
            torch.stack([flip * cos, flip * sin, -flip * (cos * x + sin * y)], 1),
            torch.stack([-sin, cos, sin * x - cos * y], 1),
        )
        grid = functional.affine_grid(torch.stack(rows, 1), [count, 4, side, side], align_corners=False)
        level = (torch.log2(TILE / size) + 0.3).round().clamp(0, LEVELS - 1).long()
        tiles = self.tiles[level, sprites].float()  # [N, 4, TILE, TILE]
        layer = functional.grid_sample(tiles, grid, align_corners=False)
        return layer * layer.new_tensor([1, 1, 1, 1 / 255]).view(1, 4, 1, 1)

    def _glue(self, canvas: Tensor, layer: Tensor, share: float = 1.0) -> Tensor:
        """A layer on top, its shadow first; `share` of the pictures get it."""
        count = len(canvas)
        if share < 1:
            layer = layer * (self.uniform(0, 1, count) < share)[:, None, None, None]
        soft = functional.avg_pool2d(functional.avg_pool2d(layer[:, 3:], 5, 1, 2), 5, 1, 2)
        shadow = functional.pad(soft, (3, -3, 4, -4)) * self.uniform(0.25, 0.4, count)[:, None, None, None]
        # The colours of a cut-out vary a little beyond the palette.
        tint = self.uniform(0.85, 1.15, count, 3, 1, 1)
        cover = layer[:, 3:]
        colour = torch.minimum(layer[:, :3] * tint, 255 * cover)
        return canvas * (1 - shadow) * (1 - cover) + colour

    def _developed(self, canvas: Tensor) -> Tensor:
        """Light over the whole picture: vividness, brightness, warmth, a fall-off to one side, grain."""
        count, side = len(canvas), canvas.shape[-1]
        axis = torch.linspace(-1, 1, side, device=self.device)
        turn, slope = self.uniform(0, 2 * math.pi, count, 1, 1, 1), self.uniform(0, 0.13, count, 1, 1, 1)
        fall = 1 + slope * (turn.cos() * axis + turn.sin() * axis[:, None])  # [N, 1, S, S]
        gain = self.uniform(0.9, 1.15, count, 1, 1, 1) * self.uniform(0.95, 1.05, count, 3, 1, 1)
        grey = canvas.mean(1, keepdim=True)
        vivid = canvas + self.uniform(-0.1, 0.35, count, 1, 1, 1) * (canvas - grey)
        grain = torch.randn((count, 1, side, side), generator=self.random, device=self.device)
        return (vivid * fall * gain + 3 * grain).clamp(0, 255)


def _levels(tiles: Tensor) -> Tensor:
    """Each tile as it is, and averaged over 2 and 4 pixels at the same size: [S, 4, T, T] → [LEVELS, S, 4, T, T]."""
    found = [tiles.contiguous()]
    for level in range(1, LEVELS):
        smoothed = [
            functional.interpolate(
                functional.avg_pool2d(piece.float(), 2**level), scale_factor=2.0**level, mode="bilinear"
            ).to(torch.uint8)
            for piece in tiles.split(512)
        ]
        found.append(torch.cat(smoothed))
    return torch.stack(found)


def _boxes(masks: Tensor) -> Tensor:
    """The box around each mask, half-open; 0 where it is empty: bool [N, T, S, S] → [N, T, 4]."""
    sides = []
    for axis in (2, 3):  # columns, then rows
        line = masks.any(axis)  # [N, T, S]
        length = line.shape[-1]
        first = line.int().argmax(-1)
        last = length - line.flip(-1).int().argmax(-1)
        some = line.any(-1)
        sides.append((torch.where(some, first, 0), torch.where(some, last, 0)))
    (x0, x1), (y0, y1) = sides
    return torch.stack([x0, y0, x1, y1], -1).float()
