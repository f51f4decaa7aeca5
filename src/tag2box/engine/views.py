"""What the nets are shown: a picture at a scale, perhaps mirrored, with its proposals and tags.

Where the trunk is frozen its features can be kept, computed once for each scale and side: pooled for every proposal
where the noise can follow the pooling, else the whole map.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from tag2box.config import Data
from tag2box.data.records import Dataset
from tag2box.engine.drawing import Around, around_seeds, drawn_around, first_and_others
from tag2box.engine.known import Decided, decide
from tag2box.engine.loader import FromFiles, Loader, make_loader
from tag2box.engine.plan import Showing
from tag2box.inference import flip_boxes, on_canvas, resized
from tag2box.known import Known
from tag2box.mil import Hints
from tag2box.nets.backbone import Trunk
from tag2box.nets.roi_head import RoIHead
from tag2box.proposals.store import ProposalStore


@dataclass(frozen=True, slots=True)
class View:
    """One showing of a picture. Of `pixels`, `map` and `pooled` one is there: the farthest that is kept."""

    boxes: Tensor
    """Proposals in the view's pixels [B, 4]."""
    tags: Tensor
    """bool [C], on the CPU: what reads them would otherwise wait for the device."""
    size: tuple[int, int]
    """Width and height in pixels."""
    grid: tuple[int, int]
    """Height and width of the noise that goes with it, in cells."""
    pixels: Tensor | None = None
    """RGB in 0–255 [3, H, W]; on a GPU with zeros to the right and below (`on_canvas`)."""
    map: Tensor | None = None
    """[C', h, w]"""
    pooled: Tensor | None = None
    """[B, C', size, size]"""
    known: Decided | None = None
    """What a person has said of it."""
    index: int = -1
    """The picture's number in its data set."""
    hints: Hints | None = None
    """What a teacher's view, or a net that learnt before, says of its proposals (`engine.hints`, `.findings`)."""


def show(
    picture: Tensor,
    proposals: Tensor,
    tags: Tensor,
    *,
    scale: int,
    max_side: int,
    mirrored: bool = False,
    cell: int,
    known: Decided | None = None,
) -> View:
    """A picture uint8 [3, H, W] with proposals [B, 4] and tags [C] at a scale, its short side's length in pixels.

    cell: side of a cell of noise in pixels (`RoIHead.cell`).
    """
    pixels, x, y = resized(picture, scale, max_side)
    grown = torch.tensor([x, y, x, y])  # made on the device it would wait for all that is queued there
    grown = grown.to(proposals.device, non_blocking=True)
    boxes, given = proposals * grown, None if known is None else known.boxes * grown
    if mirrored:
        pixels, boxes = pixels.flip(2), flip_boxes(boxes, pixels.shape[2])
        given = None if given is None else flip_boxes(given, pixels.shape[2])
    known = None if known is None or given is None else known._replace(boxes=given)
    size = (pixels.shape[2], pixels.shape[1])
    pixels = on_canvas(pixels)
    grid = (-(-pixels.shape[1] // cell), -(-pixels.shape[2] // cell))
    return View(boxes, tags, size, grid, pixels=pixels, known=known)


def with_rows(view: View, rows: Tensor) -> View:
    """The view with these of its proposals, by their numbers [R] on the CPU."""
    rows = rows.to(view.boxes.device, non_blocking=True)
    pooled = None if view.pooled is None else view.pooled[rows]
    hints = None if view.hints is None else view.hints._replace(places=view.hints.places[rows])
    return replace(view, boxes=view.boxes[rows], pooled=pooled, hints=hints)


class Album:
    """A data set's pictures, proposals and tags, and the features of a frozen trunk where they are to be kept.

    `known`, boxes that a person has given, has to agree with the tags (`retagged`).
    """

    def __init__(
        self,
        dataset: Dataset,
        store: ProposalStore,
        data: Data,
        device: torch.device,
        trunk: Trunk,
        head: RoIHead,
        known: Known | None = None,
    ) -> None:
        self.dataset, self.store, self.data, self.device = dataset, store, data, device
        self._known, self._decided = known or {}, dict[int, Decided | None]()
        self.tags = torch.from_numpy(dataset.tag_matrix())  # [N, C]
        self._trunk, self._head = trunk, head
        self._kept: dict[tuple[int, int, bool], View] | None = {} if data.cache and trunk.frozen else None
        self._loader: Loader = FromFiles(dataset, store, data, device)
        self.hints: Sequence[Hints] | None = None
        self._found: Sequence[Tensor] | None = None
        self._around = dict[int, Around]()

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def keeps(self) -> bool:
        """Whether features of a frozen trunk are kept, once they are computed."""
        return self._kept is not None

    def settle(self) -> None:
        """Bring the pictures to the device once and for all, where `data.resident` says so; takes its time."""
        self._loader = make_loader(self.dataset, self.store, self.data, self.device)

    def take_hints(self, hints: Sequence[Hints] | None, found: Sequence[Tensor] | None = None) -> None:
        """What views come with from now on: hints of each picture's first proposals, and boxes found in it before.

        found: [F_i, 4] in each picture's own pixels; they go before its proposals, and hints count them as the first.
        """
        others = found is not None or self._found is not None
        self.hints, self._found = hints, found
        self._around.clear()
        if others:  # what was kept or worked out of pictures was of other proposals
            self._decided.clear()
            self._kept = None if self._kept is None else {}

    def number_found(self, index: int) -> int:
        """How many of a picture's proposals are boxes that were found in it, its first."""
        return 0 if self._found is None else len(self._found[index])

    def expect(self, showings: Iterable[Showing]) -> None:
        """Be told what comes next, so that nobody waits for it."""
        kept = self._kept or {}
        self._loader.expect(one.index for one in showings if (one.index, one.scale, one.mirrored) not in kept)

    def forget(self) -> None:
        """What was expected and did not come will not come."""
        self._loader.forget()

    def view(
        self,
        index: int,
        scale: int,
        mirrored: bool = False,
        *,
        fresh: bool = False,
        draw: torch.Generator | None = None,
        seeded: bool = False,
    ) -> View:
        """The picture with that number, its short side `scale` pixels long; `fresh`: pixels, whatever is kept.

        draw: from where to draw those of its proposals that it comes with, as `data.drawn_proposals` says; without it,
        or where a person has decided on the picture, it comes with all. seeded: around its hints' seeds, where there
        are any.
        """
        kept = None if fresh else self._kept
        if kept is None:
            view = self._show(index, scale, mirrored)
        else:
            key = (index, scale, mirrored)
            if key not in kept:
                kept[key] = featured(self._show(index, scale, mirrored), self._trunk, self._head)
            view = kept[key]
        view = self._hinted(view)
        return view if draw is None or view.known is not None else self._drawn(view, draw, seeded)

    def picture(self, index: int) -> Tensor:
        """RGB uint8 [3, H, W]."""
        return self._loader.picture(index)

    def proposals(self, index: int) -> Tensor:
        """Proposals in the picture's own pixels [B, 4], after boxes that were found in it."""
        own = self._loader.proposals(index)
        return own if self._found is None else torch.cat([self._found[index].to(own, non_blocking=True), own])

    def _show(self, index: int, scale: int, mirrored: bool) -> View:
        view = show(
            self.picture(index),
            self.proposals(index),
            self.tags[index],
            scale=scale,
            max_side=self.data.max_side,
            mirrored=mirrored,
            cell=self._head.cell,
            known=self._what_is_known(index),
        )
        return replace(view, index=index)

    def _drawn(self, view: View, draw: torch.Generator, seeded: bool) -> View:
        """Never with fewer proposals than tags, each of which labels one."""
        number, tags = self.data.drawn_proposals, int(view.tags.sum())  # tags are on the CPU: nothing waits
        number = max(number, tags) if number else 0
        if not 0 < number < len(view.boxes):
            return view
        if self.hints is None or not seeded or not tags:
            among = max(min(self.data.drawn_among or len(view.boxes), len(view.boxes)), number)
            return with_rows(view, first_and_others(among, number, draw))
        if view.index not in self._around:  # on the CPU, and once: numbers of rows are wanted there
            boxes, places = self._on_cpu(view.index), self.hints[view.index].places.float()
            self._around[view.index] = around_seeds(boxes, places[:, view.tags])
        return with_rows(view, drawn_around(self._around[view.index], number, draw))

    def _hinted(self, view: View) -> View:
        """With the hints that there are now; nothing speaks for proposals past the first that were looked at."""
        if self.hints is None:
            return view
        places, sureness = (part.to(self.device, non_blocking=True).float() for part in self.hints[view.index])
        places = functional.pad(places, (0, 0, 0, len(view.boxes) - len(places)), value=-1.0)
        return replace(view, hints=Hints(places, sureness))

    def _on_cpu(self, index: int) -> Tensor:
        """The same as `proposals`, where nothing waits for the device."""
        own = torch.from_numpy(self.store[self.dataset[index].id][: self.data.max_proposals].astype("float32"))
        return own if self._found is None else torch.cat([self._found[index], own])

    def _what_is_known(self, index: int) -> Decided | None:
        """Of that picture, in its own pixels; worked out once."""
        image = self.dataset[index]
        if image.id in self._known and index not in self._decided:
            proposals = self._on_cpu(index).numpy()
            own = decide(self._known[image.id], proposals, self.tags[index].numpy(), self.dataset.classes)
            self._decided[index] = None if own is None else own.to(self.device)
        return self._decided.get(index)


@torch.no_grad()
def featured(view: View, trunk: Trunk, head: RoIHead) -> View:
    """The view with the features of a frozen trunk in place of pixels, in half precision: they are many."""
    assert view.pixels is not None
    device = view.pixels.device.type
    with torch.autocast(device, enabled=False):  # the same whoever asks first: resumed runs depend on it
        features = trunk.features(view.pixels[None])  # [1, C', h, w]
        cells = head.cells(features)
    grid = (cells.shape[2], cells.shape[3])
    if head.noise_follows:
        pooled = head.pool(features, [view.boxes]).half()
        return replace(view, grid=grid, pixels=None, pooled=pooled)
    return replace(view, grid=grid, pixels=None, map=features[0].half())


def padded(images: Sequence[Tensor]) -> Tensor:
    """Pictures or maps [C, h, w] of different sizes as one batch, zeros to the right and below → [N, C, H, W]."""
    height, width = max(one.shape[1] for one in images), max(one.shape[2] for one in images)
    batch = images[0].new_zeros(len(images), images[0].shape[0], height, width)
    for row, one in zip(batch, images, strict=True):
        row[:, : one.shape[1], : one.shape[2]] = one
    return batch
