"""Hierarchical grouping (Uijlings et al., IJCV 2013): merge the most similar neighbours until one region is left.

Every region on the way is a place where an object could be. Similarity is a sum over any of three of the paper's four
measures, each in [0, 1] and defined as OpenCV defines it: colour (histogram intersection), size (small ones first) and
fill (how well two regions fill their common box). The fourth, texture, costs most of the time and gains nothing on the
frontier in benchmarks/: it is left out.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.proposals.jit import compiled

BINS = 25  # of each colour channel, as in the paper


class Regions(NamedTuple):
    """What grouping needs to know of R regions."""

    histograms: NDArray[np.float32]
    """Colours, over all channels together summing to 1 [R, channels × BINS]."""
    sizes: NDArray[np.int32]
    """In pixels [R]."""
    boxes: NDArray[np.int32]
    """x0, y0, x1, y1, half-open [R, 4]."""
    adjacent: NDArray[np.bool_]
    """Who touches whom, also at corners [R, R]."""


@compiled
def measure_regions(labels: NDArray[np.int32], count: int, pixels: NDArray[np.uint8]) -> Regions:
    """Histograms, sizes, boxes and neighbourhood of the regions `labels` [H × W] of an image [H, W, C], in one pass."""
    height, width, channels = pixels.shape
    histograms = np.zeros((count, channels * BINS), np.float32)
    sizes = np.zeros(count, np.int32)
    boxes = np.zeros((count, 4), np.int32)
    boxes[:, 0], boxes[:, 1] = width, height
    adjacent = np.zeros((count, count), np.bool_)
    for y in range(height):
        for x in range(width):
            here = labels[y * width + x]
            sizes[here] += 1
            boxes[here, 0] = min(boxes[here, 0], x)
            boxes[here, 1] = min(boxes[here, 1], y)
            boxes[here, 2] = max(boxes[here, 2], x + 1)
            boxes[here, 3] = max(boxes[here, 3], y + 1)
            for c in range(channels):
                histograms[here, c * BINS + np.int64(pixels[y, x, c]) * BINS // 256] += 1
            for step in range(1, 4):  # the neighbours to the right, below, and below right
                y2, x2 = y + step // 2, x + step % 2
                if y2 < height and x2 < width:
                    there = labels[y2 * width + x2]
                    adjacent[here, there] = adjacent[there, here] = True
    for region in range(count):
        histograms[region] /= np.float32(sizes[region] * channels)
    return Regions(histograms, sizes, boxes, adjacent)


@compiled
def _similarity(
    i: int,
    j: int,
    histograms: NDArray[np.float32],
    sizes: NDArray[np.int32],
    boxes: NDArray[np.int32],
    measures: tuple[bool, bool, bool],
    area: float,
) -> np.float32:
    colour, size, fill = measures
    total = np.float32(0)
    if colour:
        for h in range(histograms.shape[1]):
            total += min(histograms[i, h], histograms[j, h])
    both = sizes[i] + sizes[j]
    if size:
        total += np.float32(1) - np.float32(both) / np.float32(area)
    if fill:
        width = max(boxes[i, 2], boxes[j, 2]) - min(boxes[i, 0], boxes[j, 0])
        height = max(boxes[i, 3], boxes[j, 3]) - min(boxes[i, 1], boxes[j, 1])
        total += np.float32(1) - np.float32(width * height - both) / np.float32(area)
    return total


@compiled
def _nearest(similarity: NDArray[np.float32], region: int) -> int:
    """The most similar neighbour of a region, the first of equals; −1 when it has none."""
    best = -1
    top = np.float32(-1)
    for other in range(len(similarity)):
        if similarity[region, other] > top:
            top = similarity[region, other]
            best = other
    return best


@compiled
def _absorb(
    a: int, b: int, histograms: NDArray[np.float32], sizes: NDArray[np.int32], boxes: NDArray[np.int32]
) -> None:
    """Merge region b into region a, in place."""
    share = np.float32(sizes[a]) / np.float32(sizes[a] + sizes[b])
    for h in range(histograms.shape[1]):
        histograms[a, h] = share * histograms[a, h] + (np.float32(1) - share) * histograms[b, h]
    sizes[a] += sizes[b]
    for side in range(2):
        boxes[a, side] = min(boxes[a, side], boxes[b, side])
        boxes[a, side + 2] = max(boxes[a, side + 2], boxes[b, side + 2])


@compiled
def group(regions: Regions, measures: tuple[bool, bool, bool], area: float) -> NDArray[np.int32]:
    """Boxes of the R first regions and of the R − 1 that come of merging them, in that order [2R − 1, 4].

    `measures` says whether colour, size and fill count; `area` is the image's. Of equally similar pairs the first by
    number is merged, the second region into the first. Each region remembers its nearest neighbour, so a merge looks at
    the regions around it and not at all pairs.
    """
    histograms, sizes, boxes = regions.histograms.copy(), regions.sizes.copy(), regions.boxes.copy()
    count = len(sizes)
    similarity = np.full((count, count), np.float32(-1))  # −1: not neighbours, or no longer
    for i in range(count):
        for j in range(i):
            if regions.adjacent[i, j]:
                similarity[i, j] = similarity[j, i] = _similarity(i, j, histograms, sizes, boxes, measures, area)
    nearest = np.array([_nearest(similarity, i) for i in range(count)])
    found = np.empty((2 * count - 1, 4), np.int32)
    found[:count] = boxes
    for merge in range(count - 1):
        a = -1
        top = np.float32(-1)
        for i in range(count):
            if nearest[i] >= 0 and similarity[i, nearest[i]] > top:
                top = similarity[i, nearest[i]]
                a = i
        b = nearest[a]
        _absorb(a, b, histograms, sizes, boxes)
        found[count + merge] = boxes[a]
        similarity[a, b] = similarity[b, a] = -1
        nearest[b] = -1
        for c in range(count):
            if similarity[a, c] >= 0 or similarity[b, c] >= 0:
                similarity[a, c] = similarity[c, a] = _similarity(a, c, histograms, sizes, boxes, measures, area)
                similarity[b, c] = similarity[c, b] = -1
                was = nearest[c]
                if was in (a, b):
                    nearest[c] = _nearest(similarity, c)
                elif (similarity[c, a], was) > (similarity[c, was], a):  # nearer, or the first of equals
                    nearest[c] = a
        nearest[a] = _nearest(similarity, a)
    return found
