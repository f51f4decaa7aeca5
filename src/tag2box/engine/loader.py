"""Where pictures and proposals come from: all of them on the device, or from files, decoded before they are needed.

Either way the pixels are those of `read_image`.
"""

import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from tag2box.config import Data
from tag2box.data.images import read_image
from tag2box.data.records import Dataset, TaggedImage
from tag2box.errors import InputError
from tag2box.progress import progress
from tag2box.proposals.store import ProposalStore

AHEAD = 16
"""Pictures that are decoded before they are needed: some steps of them, and not too much memory for large photos."""


class Loader(Protocol):
    """Pictures and proposals by the picture's number in the data set."""

    def picture(self, index: int) -> Tensor:
        """RGB uint8 [3, H, W], on the device."""

    def proposals(self, index: int) -> Tensor:
        """Boxes in the picture's own pixels, float32 [B, 4], on the device."""

    def expect(self, indices: Iterable[int]) -> None:
        """Be told which pictures come next."""

    def forget(self) -> None:
        """What was expected and did not come will not come."""


class FromFiles:
    """Pictures decoded when they are asked for or, where they were expected, by threads before that."""

    def __init__(self, dataset: Dataset, store: ProposalStore, data: Data, device: torch.device) -> None:
        self.dataset, self.store, self.data, self.device = dataset, store, data, device
        self._threads: ThreadPoolExecutor | None = None
        self._coming: dict[int, tuple[Future[Tensor], int]] = {}
        """Each picture with how many times it is still to be asked for."""

    def picture(self, index: int) -> Tensor:
        """RGB uint8 [3, H, W], on the device."""
        if index not in self._coming:
            return self._decode(index).to(self.device, non_blocking=True)
        coming, times = self._coming.pop(index)
        if times > 1:
            self._coming[index] = coming, times - 1
        return coming.result().to(self.device, non_blocking=True)

    def proposals(self, index: int) -> Tensor:
        """Boxes in the picture's own pixels, float32 [B, 4], on the device."""
        boxes = self.store[self.dataset[index].id][: self.data.max_proposals]
        return torch.from_numpy(boxes.astype("float32")).to(self.device, non_blocking=True)

    def expect(self, indices: Iterable[int]) -> None:
        """Let threads begin to decode these."""
        if self._threads is None:  # only now: threads do not survive a fork, and evaluation needs none
            self._threads = ThreadPoolExecutor(min(AHEAD, _cores()), "decoding")
        for index in indices:
            coming, times = self._coming.get(index) or (self._threads.submit(self._decode, index), 0)
            self._coming[index] = coming, times + 1

    def forget(self) -> None:
        """What was expected and did not come will not come."""
        for coming, _ in self._coming.values():
            coming.cancel()
        self._coming.clear()

    def _decode(self, index: int) -> Tensor:
        picture = torch.from_numpy(read_image(self.dataset[index].path))  # [H, W, 3]
        if self.device.type == "cuda":
            picture = picture.pin_memory()  # or the copy to the device would wait for all that is queued there
        return picture.permute(2, 0, 1)


class Resident:
    """All pictures and proposals on the device, decoded once: asking for one costs nothing and waits for nothing."""

    def __init__(self, dataset: Dataset, store: ProposalStore, data: Data, device: torch.device) -> None:
        boxes = [store[one.id][: data.max_proposals] for one in dataset]
        self._rows = _edges(len(one) for one in boxes)
        joined = np.concatenate([np.zeros((0, 4), dtype=np.int16), *boxes]).astype("float32")
        self._boxes = torch.from_numpy(joined).to(device)
        self._sizes = [one.size for one in dataset]
        self._bytes = _edges(3 * width * height for width, height in self._sizes)
        self._pixels = torch.empty(self._bytes[-1], dtype=torch.uint8, device=device)
        self._fill(dataset)

    def picture(self, index: int) -> Tensor:
        """RGB uint8 [3, H, W], on the device; not to be written to."""
        width, height = self._sizes[index]
        pixels = self._pixels[self._bytes[index] : self._bytes[index + 1]]
        return pixels.view(height, width, 3).permute(2, 0, 1)  # laid out as FromFiles has it: the same arithmetic

    def proposals(self, index: int) -> Tensor:
        """Boxes in the picture's own pixels, float32 [B, 4], on the device; not to be written to."""
        return self._boxes[self._rows[index] : self._rows[index + 1]]

    def expect(self, indices: Iterable[int]) -> None:
        """They are there."""

    def forget(self) -> None:
        """Nothing was expected."""

    def _fill(self, dataset: Dataset) -> None:
        """Pillow lets go of the interpreter lock while it decodes, so threads are enough."""
        threads = ThreadPoolExecutor(_cores(), "decoding")
        try:
            with progress("decoding", len(dataset)) as count_one:
                for index, pixels in enumerate(threads.map(_pixels_of, dataset)):
                    self._pixels[self._bytes[index] : self._bytes[index + 1]] = pixels
                    count_one()
        finally:
            threads.shutdown(cancel_futures=True)  # Ctrl-C does not wait for the other thousands


def make_loader(dataset: Dataset, store: ProposalStore, data: Data, device: torch.device) -> Loader:
    """The one that `data.resident` asks for."""
    if data.resident == "off" or (data.resident == "auto" and device.type != "cuda"):
        return FromFiles(dataset, store, data, device)
    needed, free = decoded_bytes(dataset), free_bytes(device)
    if data.resident == "auto" and 2 * needed > free:
        return FromFiles(dataset, store, data, device)
    if needed > free:
        found = f"{needed / 2**30:.1f} GiB of them and {free / 2**30:.1f} GiB free"
        raise InputError(f"data.resident: expected off, or pictures that fit on {device}, found {found}")
    return Resident(dataset, store, data, device)


def decoded_bytes(dataset: Dataset) -> int:
    """What the data set's pictures take, decoded."""
    return sum(3 * width * height for width, height in (one.size for one in dataset))


def free_bytes(device: torch.device) -> float:
    """What is free on a GPU; of other memory the system takes care."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else float("inf")


def _pixels_of(image: TaggedImage) -> Tensor:
    picture = read_image(image.path)  # [H, W, 3]
    if picture.shape[1::-1] != image.size:
        (width, height), (w, h) = image.size, picture.shape[1::-1]
        raise InputError(f"{image.path}: expected {width}×{height} pixels as at the start, found {w}×{h}")
    return torch.from_numpy(picture).flatten()


def _edges(counts: Iterable[int]) -> list[int]:
    """Where each begins, and where the last one ends."""
    return [0, *accumulate(counts)]


def _cores() -> int:
    return os.cpu_count() or 1
