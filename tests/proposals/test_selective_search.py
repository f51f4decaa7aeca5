import time
from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tag2box.boxes import iou
from tag2box.errors import InputError
from tag2box.proposals.selective_search import (
    ALL_COLOURS,
    COLOURS,
    PRESETS,
    _count_equal,
    preset,
    selective_search,
)

FAST = PRESETS["fast"]


def assert_sound(boxes, shape, setting=FAST):
    """int16, unique, inside the picture, not too many, not too narrow."""
    height, width = shape[:2]
    assert boxes.dtype == np.int16
    assert boxes.ndim == 2
    assert boxes.shape[1] == 4
    assert 1 <= len(boxes) <= setting.max_boxes
    assert len(np.unique(boxes, axis=0)) == len(boxes)
    assert boxes[:, :2].min() >= 0
    assert (boxes[:, 2:] <= [width, height]).all()
    least = min(setting.min_side * max(1.0, min(height, width) / 350), height, width)
    assert (boxes[:, 2:].astype(int) - boxes[:, :2] >= least).all()


def reached(objects, boxes, overlap):
    """The share of objects with a box that near."""
    return (iou(np.array(objects, float), boxes.astype(float)).max(axis=1) >= overlap).mean()


@pytest.mark.parametrize("name", PRESETS)
def test_the_same_picture_gives_the_same_bytes(drawn, name):
    pixels = drawn(0).pixels
    first, second = (selective_search(pixels.copy(), PRESETS[name]) for _ in range(2))
    assert_sound(first, pixels.shape, PRESETS[name])
    assert first.tobytes() == second.tobytes()


def test_threads_of_opencv_change_nothing(drawn):
    before = cv2.getNumThreads()
    found = []
    for threads in (1, 4):
        cv2.setNumThreads(threads)
        found.append(selective_search(drawn(3).pixels, FAST).tobytes())
    cv2.setNumThreads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("height", "width"), [(1, 1), (1, 2), (3, 5), (5, 3), (1, 40), (40, 1), (15, 15), (3, 2000), (2000, 3)]
)
def test_tiny_and_thin_pictures(height, width):
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    assert_sound(selective_search(noise, FAST), noise.shape)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1), st.integers(1, 256))
@settings(max_examples=15, deadline=None)
def test_any_small_picture(height, width, seed, shades):
    noise = np.random.default_rng(seed).integers(0, shades, (height, width, 3), dtype=np.uint8)
    assert_sound(selective_search(noise, FAST), noise.shape)


@pytest.mark.parametrize("colour", [(0, 0, 0), (255, 255, 255), (10, 200, 30)])
def test_one_colour_is_one_box(colour):
    flat = np.full((60, 80, 3), colour, np.uint8)
    assert selective_search(flat, FAST).tolist() == [[0, 0, 80, 60]]


def test_grey_as_rgb(drawn):
    picture = drawn(2)
    grey = np.repeat(cv2.cvtColor(picture.pixels, cv2.COLOR_RGB2GRAY)[..., None], 3, axis=2)
    boxes = selective_search(grey, FAST)
    assert_sound(boxes, grey.shape)
    assert len(boxes) > 100


def test_a_large_picture_takes_no_longer_than_its_reduction_asks(drawn):
    large = cv2.resize(drawn(4).pixels, (3000, 2000), interpolation=cv2.INTER_CUBIC)
    began = time.monotonic()
    boxes = selective_search(large, FAST)
    assert time.monotonic() - began < 5  # about half a second; the machine may be busy
    assert_sound(boxes, large.shape)


def test_a_picture_four_times_the_size_gives_the_boxes_times_four(drawn):
    pixels = drawn(5).pixels  # its passes work on 140 and 192 pixels; the larger one's on 140 and 240
    one = replace(FAST, passes=(replace(FAST.passes[0], colours=ALL_COLOURS),))
    large = cv2.resize(pixels, None, fx=4, fy=4, interpolation=cv2.INTER_CUBIC)
    small_boxes, large_boxes = (selective_search(image, replace(one, min_side=0)) for image in (pixels, large))
    assert len(large_boxes) == pytest.approx(len(small_boxes), rel=0.2)
    assert reached(small_boxes[:300] * 4, large_boxes, 0.7) > 0.9
    assert reached(large_boxes[:300] / 4, small_boxes, 0.7) > 0.9


def test_plain_objects_are_found(drawn):
    things = [(number, thing.box) for number in range(8) for thing in drawn(number).things if not thing.difficult]
    boxes = {number: selective_search(drawn(number).pixels, FAST) for number in range(8)}
    best = np.array([iou(np.array([box], float), boxes[number].astype(float)).max() for number, box in things])
    assert len(things) >= 12
    assert (best >= 0.5).mean() >= 0.9
    assert best.mean() >= 0.75


def test_a_rectangle_on_plain_ground_is_found_up_to_the_blur():
    pixels = np.full((120, 160, 3), (30, 90, 40), np.uint8)
    pixels[30:80, 50:120] = (220, 60, 50)
    assert reached([[50, 30, 120, 80]], selective_search(pixels, FAST), 0.8) == 1


def test_fewer_boxes_are_the_first_of_more(drawn):
    pixels = drawn(6).pixels
    many, few = (selective_search(pixels, replace(FAST, max_boxes=count)) for count in (2000, 50))
    np.testing.assert_array_equal(few, many[:50])


def test_boxes_kept_do_not_coincide(drawn):
    boxes = selective_search(drawn(7).pixels, FAST).astype(float)
    between = iou(boxes, boxes)
    assert (between[~np.eye(len(boxes), dtype=bool)] < FAST.overlap).all()


@pytest.mark.parametrize("name", ALL_COLOURS)
def test_colour_spaces_keep_the_place_and_the_type(name, drawn):
    pixels = drawn(0).pixels
    seen = COLOURS[name](pixels)
    assert (seen.shape[:2], seen.dtype, seen.ndim) == (pixels.shape[:2], np.uint8, 3)
    assert COLOURS[name](np.zeros((1, 1, 3), np.uint8)).shape[:2] == (1, 1)


def test_shares_of_colour_do_not_see_shadows():
    light = np.array([[[200, 100, 40]]], np.uint8)
    bright, dark = (COLOURS["rgi"](pixels)[0, 0].astype(int) for pixels in (light, light // 2))
    assert np.abs(bright[:2] - dark[:2]).max() <= 1
    assert bright[2] == pytest.approx(2 * dark[2], abs=2)


@given(st.lists(st.tuples(*[st.sampled_from([0, 1, 2, 255, 256, 32766, 32767])] * 4), max_size=30))
def test_equal_boxes_are_counted_as_numpy_counts_rows(found):
    boxes = np.array(found, dtype=np.int64).reshape(-1, 4)
    for ours, numpys in zip(_count_equal(boxes), np.unique(boxes, axis=0, return_counts=True), strict=True):
        np.testing.assert_array_equal(ours, numpys)


def test_presets_by_name():
    assert preset("fast") is PRESETS["fast"]
    with pytest.raises(InputError, match=r"expected a preset \(fast, thorough\), found 'thorogh'; did you mean"):
        preset("thorogh")
