from itertools import product

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tag2box.proposals.graph import segment, sorted_edges
from tag2box.proposals.grouping import BINS, Regions, group, measure_regions

segmentation = cv2.ximgproc.segmentation
MEASURES = [measures for measures in product([True, False], repeat=3) if any(measures)]


def slow_measures(labels, pixels):
    """The regions of labels [H, W], each by its mask: histograms, sizes, boxes, and who touches whom."""
    count, channels = labels.max() + 1, pixels.shape[2]
    masks = [labels == region for region in range(count)]
    histograms = [
        np.concatenate([np.histogram(pixels[mask][:, c], bins=BINS, range=(0, 256))[0] for c in range(channels)])
        / (mask.sum() * channels)
        for mask in masks
    ]
    places = [np.nonzero(mask) for mask in masks]
    boxes = [(x.min(), y.min(), x.max() + 1, y.max() + 1) for y, x in places]
    touching = set()
    for dy, dx in ((0, 1), (1, 0), (1, 1)):
        here, there = labels[: len(labels) - dy, : labels.shape[1] - dx], labels[dy:, dx:]
        touching |= set(zip(here.ravel().tolist(), there.ravel().tolist(), strict=True))
    return np.array(histograms), [mask.sum() for mask in masks], boxes, touching | {(b, a) for a, b in touching}


def slow_group(regions, measures, area):
    """Merge the most similar pair, all pairs looked at anew each time; of equals the first by number."""
    colour, size, fill = measures
    there = {
        r: (regions.histograms[r], int(regions.sizes[r]), tuple(regions.boxes[r].tolist()))
        for r in range(len(regions.sizes))
    }
    neighbours = {r: set(np.flatnonzero(regions.adjacent[r]).tolist()) - {r} for r in there}
    found = [box for _, _, box in there.values()]

    def hull(p, q):
        return min(p[0], q[0]), min(p[1], q[1]), max(p[2], q[2]), max(p[3], q[3])

    def similarity(i, j):
        (histogram, pixels, box), (histogram2, pixels2, box2) = there[i], there[j]
        x0, y0, x1, y1 = hull(box, box2)
        total = np.float32(0)
        if colour:
            total = np.cumsum(np.minimum(histogram, histogram2))[-1]  # in order, as ours
        if size:
            total += np.float32(1) - np.float32(pixels + pixels2) / np.float32(area)
        if fill:
            total += np.float32(1) - np.float32((x1 - x0) * (y1 - y0) - pixels - pixels2) / np.float32(area)
        return total

    while len(there) > 1:
        pairs = [(i, j) for i in there for j in neighbours[i] if i < j]
        a, b = min(pairs, key=lambda pair: (-similarity(*pair), pair))
        (histogram, pixels, box), (histogram2, pixels2, box2) = there[a], there.pop(b)
        share = np.float32(pixels) / np.float32(pixels + pixels2)
        there[a] = share * histogram + (np.float32(1) - share) * histogram2, pixels + pixels2, hull(box, box2)
        found.append(there[a][2])
        neighbours[a] |= neighbours.pop(b)
        neighbours = {r: {a if n == b else n for n in near} - {r} for r, near in neighbours.items()}
    return found


def measured(labels, pixels):
    return measure_regions(labels.ravel().astype(np.int32), int(labels.max()) + 1, pixels)


@st.composite
def labelled_pictures(draw):
    """A small picture cut into regions, some of them equal in size and colour: labels [H, W] and pixels [H, W, C]."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    height, width, channels = draw(st.integers(1, 12)), draw(st.integers(1, 12)), draw(st.sampled_from([1, 3]))
    colours = rng.choice(256, draw(st.integers(1, 6))).astype(np.uint8)
    pixels = rng.choice(colours, (height, width, channels))
    cell = draw(st.integers(1, 4))  # squares of equal size, or regions of a segmentation
    if draw(st.booleans()):
        y, x = np.mgrid[:height, :width] // cell
        labels = np.unique(y * (x.max() + 1) + x, return_inverse=True)[1].reshape(height, width)
    else:
        k = draw(st.sampled_from([1.0, 100.0, 500.0]))
        labels = segment(*sorted_edges(pixels.astype(np.float32)), height * width, k, cell)[0].reshape(height, width)
    return labels.astype(np.int32), pixels


@given(labelled_pictures())
@settings(max_examples=100, deadline=None)
def test_regions_are_measured_as_by_their_masks(picture):
    labels, pixels = picture
    regions = measured(labels, pixels)
    histograms, sizes, boxes, touching = slow_measures(labels, pixels)
    np.testing.assert_allclose(regions.histograms, histograms, atol=1e-6)
    np.testing.assert_allclose(regions.histograms.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(regions.sizes, sizes)
    np.testing.assert_array_equal(regions.boxes, boxes)
    apart = ~np.eye(len(sizes), dtype=bool)
    assert set(zip(*map(np.ndarray.tolist, np.nonzero(regions.adjacent & apart)), strict=True)) == {
        (a, b) for a, b in touching if a != b
    }


@pytest.mark.parametrize("measures", MEASURES)
@given(labelled_pictures())
@settings(max_examples=30, deadline=None)
def test_same_boxes_as_the_slow_way(measures, picture):
    regions, area = measured(*picture), picture[0].size
    np.testing.assert_array_equal(group(regions, measures, area), slow_group(regions, measures, area))


@given(labelled_pictures(), st.sampled_from(MEASURES))
@settings(max_examples=50, deadline=None)
def test_first_the_regions_then_every_merge_up_to_the_whole(picture, measures):
    labels, pixels = picture
    regions = measured(labels, pixels)
    kept = Regions(*(array.copy() for array in regions))
    boxes = group(regions, measures, labels.size)
    count = labels.max() + 1
    assert boxes.shape == (2 * count - 1, 4)
    np.testing.assert_array_equal(boxes[:count], regions.boxes)
    assert boxes[-1].tolist() == [0, 0, labels.shape[1], labels.shape[0]]
    assert all(np.array_equal(a, b) for a, b in zip(regions, kept, strict=True))  # what was given stays as it was


def test_the_example_of_three_stripes():
    """Red, a little less red, blue: the reds are merged first."""
    pixels = np.zeros((4, 9, 3), np.uint8)
    pixels[:, :3], pixels[:, 3:6], pixels[:, 6:] = (250, 0, 0), (235, 0, 0), (0, 0, 250)
    labels = np.tile(np.repeat([0, 1, 2], 3), (4, 1)).astype(np.int32)
    boxes = group(measured(labels, pixels), (True, False, False), 36)
    assert boxes[3:].tolist() == [[0, 0, 6, 4], [0, 0, 9, 4]]


# ---- against OpenCV's selective search on the same segmentation

COLOUR = segmentation.createSelectiveSearchSegmentationStrategyColor
SIZE = segmentation.createSelectiveSearchSegmentationStrategySize
FILL = segmentation.createSelectiveSearchSegmentationStrategyFill


def opencv_boxes(pixels, strategies):
    search = segmentation.createSelectiveSearchSegmentation()
    search.clearImages()
    search.addImage(pixels)
    search.addGraphSegmentation(segmentation.createGraphSegmentation(0.8, 100, 30))
    parts = [strategy() for strategy in strategies]
    many = segmentation.createSelectiveSearchSegmentationStrategyMultiple
    search.addStrategy(parts[0] if len(parts) == 1 else many(*parts))
    x, y, width, height = search.process().T
    return set(zip(x.tolist(), y.tolist(), (x + width).tolist(), (y + height).tolist(), strict=True))


def same_share(drawn, number, strategies, measures):
    """Boxes found by both over boxes found by either."""
    pixels = drawn(number).pixels
    labels = segmentation.createGraphSegmentation(0.8, 100, 30).processImage(pixels)
    labels = np.unique(labels, return_inverse=True)[1].reshape(labels.shape)
    ours = set(map(tuple, group(measured(labels, pixels), measures, labels.size).tolist()))
    theirs = opencv_boxes(pixels, strategies)
    return len(ours & theirs) / len(ours | theirs)


@pytest.mark.parametrize(
    ("strategies", "measures", "least"),
    [
        ((COLOUR,), (True, False, False), 1.0),
        ((COLOUR, SIZE, FILL), (True, True, True), 1.0),
        ((SIZE, FILL), (False, True, True), 0.97),
        ((FILL,), (False, False, True), 0.98),
        ((SIZE,), (False, True, False), 0.75),  # pairs of equal size are many, and OpenCV takes another of them
    ],
)
def test_the_same_boxes_as_opencv(drawn, strategies, measures, least):
    shares = [same_share(drawn, number, strategies, measures) for number in range(5)]
    assert min(shares) >= least
