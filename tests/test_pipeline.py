import threading
import time

import numpy as np
import pytest

from tag2box.errors import InputError
from tag2box.pipeline import WINDOW, count_workers, in_batches, read_and_search, run_ahead, worker_pool
from tag2box.proposals.selective_search import preset

FAST = preset("fast")


def test_results_come_in_order_and_a_few_ahead():
    begun = []

    def work(item):
        begun.append(item)
        time.sleep(0.01 * (item % 3))
        return item * item

    with worker_pool(3, processes=False) as pool:
        stream = run_ahead(lambda item: pool.submit(work, item), iter(range(20)), ahead=5)
        item, future = next(stream)
        assert (item, future.result()) == (0, 0)
        assert len(begun) <= 5
        assert [(item, future.result()) for item, future in stream] == [(i, i * i) for i in range(1, 20)]


def test_what_waits_is_dropped_at_the_end():
    started, stop = [], threading.Event()

    def work(item):
        started.append(item)
        stop.wait(5)

    with worker_pool(1, processes=False) as pool:
        next(run_ahead(lambda item: pool.submit(work, item), range(50), ahead=10))
        threading.Timer(0.1, stop.set).start()
    assert len(started) < 10


def test_an_error_of_one_leaves_the_others():
    def work(item):
        if item == 1:
            raise InputError("broken")
        return item

    with worker_pool(2, processes=False) as pool:
        futures = [future for _, future in run_ahead(lambda item: pool.submit(work, item), range(3), ahead=2)]
    assert [future.exception() is None for future in futures] == [True, False, True]


def test_processes_find_the_same_as_threads(save_picture, tmp_path):
    path = save_picture(tmp_path / "a.png", (60, 40))
    pixels = np.zeros((40, 60, 3), dtype=np.uint8)
    pixels[10:30, 10:30] = 255
    (tmp_path / "b.jpg").write_bytes(b"no picture")
    results = []
    for processes in (False, True):
        with worker_pool(1, processes=processes) as pool:
            begun = run_ahead(lambda one: pool.submit(read_and_search, one, FAST), [path, pixels], ahead=2)
            results.append([future.result() for _, future in begun])
            with pytest.raises(InputError, match=r"cannot read the picture .*b\.jpg: not an image"):
                pool.submit(read_and_search, tmp_path / "b.jpg", FAST).result()
    for (pixels_a, boxes_a), (pixels_b, boxes_b) in zip(*results, strict=True):
        assert np.array_equal(pixels_a, pixels_b)
        assert np.array_equal(boxes_a, boxes_b)


def test_batches_of_one_kind():
    assert list(in_batches(range(7), lambda n: n % 2, 2)) == [[0, 2], [1, 3], [4, 6], [5]]
    assert list(in_batches(range(3), lambda n: n, 1)) == [[0], [1], [2]]
    assert list(in_batches([], str, 4)) == []


def test_few_wait_for_company():
    """Of items that are all different none can fill a batch; they must not pile up."""
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield number

    seen = 0
    for together in in_batches(items(), lambda n: n, batch=4):
        seen += len(together)
        assert len(taken) - seen <= WINDOW * 4
    assert seen == 100


def test_numbers():
    assert count_workers(3, 100) == 3
    assert count_workers(8, 2) == 2
    assert count_workers(2, 0) == 1
    assert count_workers(None, 1) == 1
    with pytest.raises(InputError, match="workers: expected 1 or more, found 0"):
        count_workers(0, 5)
    with pytest.raises(InputError, match="batch: expected 1 or more, found 0"):
        list(in_batches([1], str, 0))
