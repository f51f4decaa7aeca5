import gc

import pytest

from tag2box.garbage import no_garbage_collection


@no_garbage_collection()
def is_collecting() -> bool:
    return gc.isenabled()


def test_it_is_off_and_then_as_before():
    assert gc.isenabled()
    assert not is_collecting()
    assert gc.isenabled()
    with pytest.raises(KeyError), no_garbage_collection():
        raise KeyError
    assert gc.isenabled()


def test_who_has_it_off_keeps_it_off():
    gc.disable()
    try:
        assert not is_collecting()
        assert not gc.isenabled()
    finally:
        gc.enable()
