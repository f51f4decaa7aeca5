import pytest

from tag2box.review.queue import BREAK_S, ENOUGH, line_up, seconds_left


def test_the_most_uncertain_first():
    assert line_up({}) == []
    assert line_up({3: 0.5, 1: -0.1, 2: 0.5, 0: None}) == [0, 2, 3, 1]


@pytest.mark.parametrize(
    ("begun", "most", "expected"),
    [
        ((), 2, [1, 3]),
        ((), 9, [1, 3, 0, 2]),
        ({2}, 2, [1, 2]),
        ({0, 2}, 2, [0, 2]),
        ({0, 2, 3}, 1, [3, 0, 2]),  # nothing that somebody has begun with is hidden
    ],
)
def test_so_many_in_all(begun, most, expected):
    assert line_up({0: 0.2, 1: 0.4, 2: 0.1, 3: 0.3}, begun, most) == expected


def test_time_left():
    assert seconds_left([], 5) is None
    assert seconds_left(range(ENOUGH), 5) is None
    assert seconds_left(range(ENOUGH + 1), 5) == 5
    with_a_break = [*range(ENOUGH + 1), 10 * BREAK_S, 10 * BREAK_S + 1]
    assert seconds_left(with_a_break, 100) == 100
    clock_set_back = [*range(ENOUGH + 1), -500.0]
    assert seconds_left(clock_set_back, 3) == 3
