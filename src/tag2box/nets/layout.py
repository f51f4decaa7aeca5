"""How maps lie in memory. The results are the same; the speed is not."""

import torch
from torch import Tensor


def as_the_device_likes(maps: Tensor) -> Tensor:
    """Maps [N, C, H, W] with the channels innermost on a GPU, which has its fast convolutions for that order.

    EfficientNet-Lite4's RoI head takes a fifth of the time there, VGG16's trunk three quarters (benchmarks/LOG.md).
    Whatever convolutions make of such maps is laid out likewise.
    """
    return maps.contiguous(memory_format=torch.channels_last) if maps.is_cuda else maps
