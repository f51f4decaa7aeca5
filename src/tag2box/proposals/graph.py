"""Graph-based segmentation (Felzenszwalb and Huttenlocher, IJCV 2004): pixels to small regions of one colour.

Neighbouring pixels are joined by edges, weighted by the difference of their colours. Edges are taken from light to
heavy, and one that joins two regions merges them when it is no heavier than either's inner variation plus k / size.
Finding and sorting the edges is most of the work and does not depend on k, so it is done once per image and colour
space: `sorted_edges`, then `segment` for each k.
"""

import numpy as np
from numpy.typing import NDArray

from tag2box.proposals.jit import compiled

_STEPS = 128  # weights are counted in steps of 1/128: 3 channels of 8 bits then fit 16 bits, which sort in linear time
_LEVELS = 1 << 16

Edges = tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int32]]
"""Weight, first and second pixel of each edge, from light to heavy."""


@compiled
def sorted_edges(pixels: NDArray[np.float32]) -> Edges:
    """The edges between horizontal and vertical neighbours of an image [H, W, C], sorted by counting."""
    height, width, channels = pixels.shape
    most = 2 * height * width
    level = np.empty(most, np.int32)
    first = np.empty(most, np.int32)
    second = np.empty(most, np.int32)
    count = 0
    for y in range(height):
        for x in range(width):
            for down in range(2):
                y2, x2 = y + down, x + 1 - down
                if y2 < height and x2 < width:
                    total = np.float32(0)
                    for c in range(channels):
                        difference = pixels[y, x, c] - pixels[y2, x2, c]
                        total += difference * difference
                    level[count] = min(int(np.sqrt(total) * np.float32(_STEPS)), _LEVELS - 1)
                    first[count] = y * width + x
                    second[count] = y2 * width + x2
                    count += 1
    return _counting_sort(level[:count], first, second)


@compiled
def _counting_sort(level: NDArray[np.int32], first: NDArray[np.int32], second: NDArray[np.int32]) -> Edges:
    """Edges by level; those of one level stay in the order of the pixels."""
    start = np.zeros(_LEVELS + 1, np.int64)
    for edge in range(len(level)):
        start[level[edge] + 1] += 1
    for value in range(_LEVELS):
        start[value + 1] += start[value]
    weight = np.empty(len(level), np.float32)
    a = np.empty(len(level), np.int32)
    b = np.empty(len(level), np.int32)
    for edge in range(len(level)):
        place = start[level[edge]]
        start[level[edge]] += 1
        weight[place] = np.float32(level[edge]) / np.float32(_STEPS)
        a[place] = first[edge]
        b[place] = second[edge]
    return weight, a, b


@compiled
def _root(parent: NDArray[np.int32], pixel: int) -> int:
    while parent[pixel] != pixel:
        parent[pixel] = parent[parent[pixel]]
        pixel = parent[pixel]
    return pixel


@compiled
def segment(
    weight: NDArray[np.float32], a: NDArray[np.int32], b: NDArray[np.int32], pixels: int, k: float, min_size: int
) -> tuple[NDArray[np.int32], int]:
    """The region of each pixel [pixels], numbered from 0 in reading order, and the number of regions.

    Larger k gives larger regions; regions under `min_size` pixels are merged with the neighbour they differ least from.
    """
    scale = np.float32(k)
    parent = np.arange(pixels).astype(np.int32)
    size = np.ones(pixels, np.int32)
    threshold = np.full(pixels, scale, np.float32)
    refused = np.empty(len(weight), np.int32)
    count = 0
    for edge in range(len(weight)):
        i, j = _root(parent, a[edge]), _root(parent, b[edge])
        if i != j:
            if weight[edge] <= threshold[i] and weight[edge] <= threshold[j]:
                if size[i] < size[j]:
                    i, j = j, i
                parent[j] = i
                size[i] += size[j]
                threshold[i] = weight[edge] + scale / np.float32(size[i])
            else:
                refused[count] = edge
                count += 1
    for edge in refused[:count]:
        i, j = _root(parent, a[edge]), _root(parent, b[edge])
        if i != j and (size[i] < min_size or size[j] < min_size):
            if size[i] < size[j]:
                i, j = j, i
            parent[j] = i
            size[i] += size[j]
    return _number_regions(parent)


@compiled
def _number_regions(parent: NDArray[np.int32]) -> tuple[NDArray[np.int32], int]:
    number = np.full(len(parent), -1, np.int32)
    regions = np.empty(len(parent), np.int32)
    count = 0
    for pixel in range(len(parent)):
        root = _root(parent, pixel)
        if number[root] < 0:
            number[root] = count
            count += 1
        regions[pixel] = number[root]
    return regions, count
