import math

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tag2box.proposals.graph import segment, sorted_edges

segmentation = cv2.ximgproc.segmentation


def regions_of(pixels, k, min_size):
    """Our segmentation of a float image [H, W, C], without blur: labels [H, W]."""
    height, width, _ = pixels.shape
    labels, count = segment(*sorted_edges(pixels), height * width, float(k), min_size)
    assert count == labels.max() + 1
    return labels.reshape(height, width)


def slow_regions(pixels, k, min_size):
    """Felzenszwalb and Huttenlocher's algorithm as the paper has it, with sets of pixels; weights in whole 1/128."""
    height, width, _ = pixels.shape
    edges = []
    for y in range(height):
        for x in range(width):
            for other in ((y, x + 1), (y + 1, x)):
                if other[0] < height and other[1] < width:
                    distance = math.sqrt(sum((pixels[y, x].astype(float) - pixels[other]) ** 2))
                    edges.append((math.floor(distance * 128) / 128, (y, x), other))
    edges.sort(key=lambda edge: edge[0])  # stable: equals stay in reading order

    region = {(y, x): {(y, x)} for y in range(height) for x in range(width)}  # the set that each pixel is in
    inner = {id(region[p]): 0.0 for p in region}  # the heaviest edge inside it

    def merge(a, b, weight):
        a, b = (a, b) if len(a) >= len(b) else (b, a)
        a |= b
        inner[id(a)] = weight
        for pixel in b:
            region[pixel] = a

    def limit(a):
        return np.float32(inner[id(a)]) + np.float32(k) / np.float32(len(a))

    for weight, p, q in edges:
        a, b = region[p], region[q]
        if a is not b and weight <= limit(a) and weight <= limit(b):
            merge(a, b, weight)
    for weight, p, q in edges:
        a, b = region[p], region[q]
        if a is not b and min(len(a), len(b)) < min_size:
            merge(a, b, weight)

    numbers = {}
    pixels_in_order = ((y, x) for y in range(height) for x in range(width))
    labels = [numbers.setdefault(id(region[p]), len(numbers)) for p in pixels_in_order]
    return np.array(labels).reshape(height, width)


def rand_index(a, b):
    """Adjusted Rand index: 1 for the same partition, 0 for chance."""
    pairs = [
        (sizes * (sizes - 1) / 2).sum()
        for sizes in (
            np.unique(rows, axis=0, return_counts=True)[1]
            for rows in (np.c_[a.ravel(), b.ravel()], a.ravel(), b.ravel())
        )
    ]
    both, of_a, of_b = pairs
    chance = of_a * of_b / (a.size * (a.size - 1) / 2)
    return 1.0 if of_a + of_b == 2 * chance else (both - chance) / ((of_a + of_b) / 2 - chance)


def blurred(pixels, sigma=0.8):
    return cv2.GaussianBlur(pixels.astype(np.float32), (0, 0), sigma)


sides = st.integers(1, 12)
steps = st.one_of(st.integers(0, 40 * 128), st.sampled_from([0, 64, 128, 1280]))  # the few make many ties


@st.composite
def images(draw):
    """Tiny pictures of one or three channels, in steps of 1/128."""
    shape = (draw(sides), draw(sides), draw(st.sampled_from([1, 3])))
    return (draw(hnp.arrays(np.int64, shape, elements=steps)) / 128).astype(np.float32)


@given(images(), st.sampled_from([0.5, 5, 60, 400, 3000]), st.integers(1, 30))
@settings(max_examples=150, deadline=None)
def test_same_partition_as_the_slow_way(pixels, k, min_size):
    np.testing.assert_array_equal(regions_of(pixels, k, min_size), slow_regions(pixels, k, min_size))


@pytest.mark.parametrize("number", range(2))
def test_same_partition_as_the_slow_way_on_a_drawn_picture(drawn, number):
    pixels = blurred(drawn(number).pixels[40:140, 60:160])
    np.testing.assert_array_equal(regions_of(pixels, 100, 30), slow_regions(pixels, 100, 30))


def connected_parts(labels):
    """The number of 4-connected pieces that the regions fall into."""
    return sum(
        cv2.connectedComponents((labels == n).astype(np.uint8), connectivity=4)[0] - 1 for n in np.unique(labels)
    )


@given(images(), st.sampled_from([0.5, 60, 3000]), st.integers(1, 200))
@settings(max_examples=100, deadline=None)
def test_regions_are_whole_large_enough_and_numbered_in_reading_order(pixels, k, min_size):
    labels = regions_of(pixels, k, min_size)
    found, first, sizes = np.unique(labels, return_index=True, return_counts=True)
    assert found.tolist() == list(range(len(found)))
    assert (np.diff(first) > 0).all()
    assert connected_parts(labels) == len(found)
    assert len(found) == 1 or sizes.min() >= min_size


@given(images(), st.integers(1, 10))
@settings(max_examples=50, deadline=None)
def test_the_limits_of_k(pixels, min_size):
    assert not regions_of(pixels, 1e9, min_size).any()  # one region
    no_slack = regions_of(pixels, 0, 1)
    np.testing.assert_array_equal(no_slack, slow_regions(pixels, 0, 1))  # what is of exactly one colour


def test_flat_colours_come_out_as_drawn():
    pixels = np.zeros((40, 60, 3), np.float32)
    pixels[5:20, 10:30] = (200, 0, 0)
    pixels[15:35, 25:50] = (0, 0, 200)
    drawn = regions_of(pixels, 50, 20)
    assert drawn.max() == 2
    for colour in ((0, 0, 0), (200, 0, 0), (0, 0, 200)):
        assert len(np.unique(drawn[(pixels == colour).all(axis=2)])) == 1


def test_edges_are_counted_and_sorted():
    pixels = np.array([[0, 3], [3, 500]], np.float32)[..., None]
    weight, a, b = sorted_edges(pixels)
    assert list(zip(weight.tolist(), a.tolist(), b.tolist(), strict=True)) == [
        (3, 0, 1),
        (3, 0, 2),
        (497, 1, 3),
        (497, 2, 3),
    ]
    farthest = np.array([[[0, 0, 0], [255, 255, 255]]], np.float32)
    assert sorted_edges(farthest)[0].tolist() == [int(math.sqrt(3) * 255 * 128) / 128]  # within 16 bits
    assert len(sorted_edges(np.zeros((1, 1, 3), np.float32))[0]) == 0


# ---- against OpenCV's, which sorts weights unrounded and equals in no particular order


def opencv_regions(pixels, k, min_size, sigma):
    return segmentation.createGraphSegmentation(sigma, k, min_size).processImage(pixels)


@given(st.integers(0, 2**32 - 1), sides, sides, st.sampled_from([50.0, 500.0, 3000.0, 10000.0]), st.integers(1, 30))
@settings(max_examples=150, deadline=None)
def test_the_same_as_opencv_where_no_two_edges_are_equal(seed, height, width, k, min_size):
    pixels = (np.random.default_rng(seed).integers(0, 1 << 16, (height, width)) / 128).astype(np.float32)
    weights = np.concatenate([np.abs(np.diff(pixels, axis=axis)).ravel() for axis in (0, 1)])
    if len(np.unique(weights)) == len(weights) > 0:
        no_blur = 0.01  # OpenCV rounds the size of so narrow a Gaussian to one pixel
        theirs = opencv_regions(pixels, k, min_size, no_blur)
        ours = regions_of(pixels[..., None], k, min_size)
        assert rand_index(ours, theirs) == 1
        assert ours.max() == theirs.max()


def test_close_to_opencv_on_drawn_pictures(drawn):
    """Partitions are fragile: noise of 1/256 alone takes OpenCV's own to 0.66 on some of these. The mean must hold."""
    agreement, counts = [], []
    for number in range(8):
        pixels = drawn(number).pixels
        for k, min_size in ((100, 30), (300, 100)):
            ours, theirs = regions_of(blurred(pixels), k, min_size), opencv_regions(pixels, k, min_size, 0.8)
            agreement.append(rand_index(ours, theirs))
            counts.append((ours.max() + 1, theirs.max() + 1))
    our_count, their_count = np.sum(counts, axis=0)
    assert np.mean(agreement) > 0.88
    assert np.median(agreement) > 0.95
    assert abs(our_count / their_count - 1) < 0.03
