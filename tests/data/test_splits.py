import pytest
from hypothesis import given
from hypothesis import strategies as st

from tag2box.data import open_dataset
from tag2box.data.splits import in_validation
from tag2box.errors import InputError

fractions = st.floats(0, 1)


def test_the_split_is_the_same_on_every_machine():
    held_out = [id for id in (f"{n:06d}" for n in range(20)) if in_validation(id, 0.2, seed=0)]
    assert held_out == ["000000", "000007", "000010", "000011", "000018"]  # written down once, never to change


@given(st.text(), fractions, fractions, st.integers())
def test_what_is_held_out_stays_held_out_at_a_larger_fraction(id, one, other, seed):
    small, large = sorted((one, other))
    assert in_validation(id, large, seed) or not in_validation(id, small, seed)


@given(st.text(), st.integers())
def test_nothing_and_everything(id, seed):
    assert not in_validation(id, 0, seed)
    assert in_validation(id, 1, seed)


@pytest.mark.parametrize("seed", range(5))
def test_the_fraction_is_met(seed):
    share = sum(in_validation(str(n), 0.2, seed) for n in range(10_000)) / 10_000
    assert share == pytest.approx(0.2, abs=0.02)


def test_seeds_differ():
    assert [in_validation(str(n), 0.5, 0) for n in range(64)] != [in_validation(str(n), 0.5, 1) for n in range(64)]


@pytest.fixture
def photos(tmp_path, save_picture):
    for n in range(20):
        save_picture(tmp_path / ("cat" if n % 2 else "dog") / f"{n}.jpg", size=(8, 8))
    return tmp_path


def test_train_and_val_part_the_images(photos, save_picture):
    train, val = (open_dataset(photos, val_fraction=0.3, subset=subset, seed=3) for subset in ("train", "val"))
    assert set(train.ids) | set(val.ids) == set(open_dataset(photos).ids)
    assert not set(train.ids) & set(val.ids)
    assert train.classes == val.classes

    for n in range(20, 30):
        save_picture(photos / "fish" / f"{n}.jpg", size=(8, 8))
    assert set(val.ids) <= set(open_dataset(photos, val_fraction=0.3, subset="val", seed=3).ids)
    assert set(train.ids) <= set(open_dataset(photos, val_fraction=0.3, subset="train", seed=3).ids)


@pytest.mark.parametrize(
    ("fraction", "subset"), [(None, "val"), (0.2, None), (0.0, "val"), (1.5, "train"), (0.2, "test")]
)
def test_options_that_do_not_fit(photos, fraction, subset):
    with pytest.raises(InputError, match=r"expected a validation fraction (and the subset train|between 0 and 1)"):
        open_dataset(photos, val_fraction=fraction, subset=subset)


def test_an_empty_side(photos):
    with pytest.raises(InputError, match="expected images in 'val', found none: 1e-09 of 20"):
        open_dataset(photos, val_fraction=1e-9, subset="val")
