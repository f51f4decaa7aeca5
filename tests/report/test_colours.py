from itertools import combinations

import numpy as np

from tag2box.report.colours import CLASS_COLOURS, _lab, colours_of, contrast, ink_on

NAMES = [f"class {number}" for number in range(80)]


def test_the_house_colours_come_first():
    assert tuple(colours_of(NAMES).values())[: len(CLASS_COLOURS)] == CLASS_COLOURS


def test_a_colour_depends_on_the_place_alone():
    assert list(colours_of(NAMES[:20]).values()) == list(colours_of(NAMES).values())[:20]
    assert colours_of([]) == {}


def test_eighty_classes_have_eighty_colours_and_twenty_are_far_apart():
    colours = list(colours_of(NAMES).values())
    assert len(set(colours)) == 80
    points = _lab(colours[:20])
    assert min(np.linalg.norm(one - other) for one, other in combinations(points, 2)) > 0.05


def test_more_classes_than_colours():
    assert len(colours_of([str(number) for number in range(2000)])) == 2000


def test_contrast():
    assert contrast("#000000", "#ffffff") == contrast("#ffffff", "#000000") == 21
    assert contrast("#e4002b", "#e4002b") == 1


def test_letters_are_read_on_every_colour():
    """4.5 is what WCAG 2 asks of small letters."""
    assert min(contrast(ink_on(colour), colour) for colour in colours_of([str(i) for i in range(188)]).values()) > 4.5
