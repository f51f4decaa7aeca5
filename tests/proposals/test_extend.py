"""A store that is brought up to date when its pictures have changed."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from tag2box.data import open_dataset
from tag2box.errors import InputError
from tag2box.proposals import compute
from tag2box.proposals.compute import compute_proposals, propose
from tag2box.proposals.outside import import_proposals
from tag2box.proposals.selective_search import PRESETS
from tag2box.proposals.store import ProposalStore, open_store

FAST = PRESETS["fast"]


@pytest.fixture
def folder(tmp_path, save_picture):
    """Five pictures: b to f."""
    for name in "bcdef":
        save_picture(tmp_path / "data" / "cat" / f"{name}.png")
    return tmp_path / "data"


@pytest.fixture
def asked(monkeypatch):
    """The names of the pictures whose proposals have been computed."""
    names = []
    monkeypatch.setattr(compute, "propose", lambda file, setting: names.append(file.stem) or propose(file, setting))
    return names


@pytest.fixture
def path(folder, tmp_path, asked):
    """The store of the five pictures."""
    compute_proposals(open_dataset(folder), tmp_path / "store", FAST, workers=1)
    asked.clear()
    return tmp_path / "store"


def fresh(dataset, folder, settings=FAST):
    """The bytes of a store computed from nothing."""
    compute_proposals(dataset, folder / "fresh", settings, workers=1)
    return (folder / "fresh").read_bytes()


def test_only_what_is_new_is_computed_and_the_bytes_are_those_of_a_fresh_store(
    folder, path, asked, tmp_path, save_picture, capsys
):
    for name in ("a", "d2", "z"):  # before, between and behind
        save_picture(folder / "cat" / f"{name}.png")
    (folder / "cat" / "c.png").unlink()
    save_picture(folder / "cat" / "e.png", (30, 40))
    dataset = open_dataset(folder)
    store = compute_proposals(dataset, path, FAST, workers=1)
    assert asked == ["a", "d2", "e", "z"]
    assert capsys.readouterr().err == (f"{path}: 3 pictures were there, 3 are new, 1 is of another size, 1 is gone\n")
    assert store.ids == ("a", "b", "d", "d2", "e", "f", "z")
    assert path.read_bytes() == fresh(dataset, tmp_path)
    assert not path.with_name("store.partial").exists()
    assert compute_proposals(dataset, path, FAST).ids == store.ids
    assert capsys.readouterr().err == ""  # nothing to say when nothing has changed


def test_two_workers(folder, path, tmp_path, save_picture, monkeypatch):
    monkeypatch.setattr(compute, "propose", propose)  # other processes cannot be given one that counts
    for name in ("a", "z"):
        save_picture(folder / "cat" / f"{name}.png")
    compute_proposals(open_dataset(folder), path, FAST, workers=2)
    assert path.read_bytes() == fresh(open_dataset(folder), tmp_path)


def test_without_pictures_that_are_gone_it_is_used_as_it_is(folder, path, asked):
    before = path.read_bytes()
    (folder / "cat" / "c.png").unlink()
    compute_proposals(open_dataset(folder), path, FAST, workers=1)
    assert asked == []
    assert path.read_bytes() == before


def test_stopped_and_gone_on_with(folder, path, tmp_path, save_picture, monkeypatch):
    old, asked = path.read_bytes(), []
    for name in ("a", "y", "z"):
        save_picture(folder / "cat" / f"{name}.png")
    dataset = open_dataset(folder)

    def stop_at_z(file, setting):
        asked.append(file.stem)
        if asked == ["a", "y", "z"]:
            raise KeyboardInterrupt
        return propose(file, setting)

    monkeypatch.setattr(compute, "propose", stop_at_z)
    with pytest.raises(KeyboardInterrupt):
        compute_proposals(dataset, path, FAST, workers=1)
    assert path.read_bytes() == old
    compute_proposals(dataset, path, FAST, workers=1)
    assert asked == ["a", "y", "z", "z"]
    assert path.read_bytes() == fresh(dataset, tmp_path)


def test_all_of_another_size(folder, path, asked, tmp_path, save_picture):
    for name in "bcdef":
        save_picture(folder / "cat" / f"{name}.png", (40, 30))
    compute_proposals(open_dataset(folder), path, FAST, workers=1)
    assert asked == list("bcdef")
    assert path.read_bytes() == fresh(open_dataset(folder), tmp_path)


def test_other_content_is_not_noticed_unless_all_is_computed_anew(folder, path, asked, tmp_path, save_picture):
    before = ProposalStore(path)["b"].copy()
    (folder / "cat" / "c.png").replace(folder / "cat" / "b.png")
    save_picture(folder / "cat" / "g.png")
    dataset = open_dataset(folder)
    np.testing.assert_array_equal(compute_proposals(dataset, path, FAST, workers=1)["b"], before)
    assert asked == ["g"]
    compute_proposals(dataset, path, FAST, workers=1, overwrite=True)
    assert asked[1:] == list("bdefg")
    assert path.read_bytes() == fresh(dataset, tmp_path)


def test_other_settings_take_nothing_over(folder, path, asked, tmp_path, save_picture, capsys):
    save_picture(folder / "cat" / "g.png")
    dataset, other = open_dataset(folder), replace(FAST, max_boxes=3)
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"other settings: max_boxes differs; .*--overwrite"):
        compute_proposals(dataset, path, other, workers=1)
    assert path.read_bytes() == before
    compute_proposals(dataset, path, other, workers=1, ours=True)
    assert asked == list("bcdefg")
    assert capsys.readouterr().err == f"{path} was made with other settings: all is computed anew\n"
    assert path.read_bytes() == fresh(dataset, tmp_path, other)


@pytest.mark.parametrize("ours", [False, True])
def test_a_store_of_other_images_altogether_is_not_thrown_away(path, tmp_path, asked, save_picture, ours):
    save_picture(tmp_path / "other" / "cat" / "x.png")
    before = path.read_bytes()
    for settings, words in ((FAST, "other images: 1 of 1 are not in it"), (replace(FAST, max_boxes=3), "settings")):
        with pytest.raises(InputError, match=rf"{words}.*--overwrite`, or another beside it"):
            compute_proposals(open_dataset(tmp_path / "other"), path, settings, workers=1, ours=ours)
    assert (asked, path.read_bytes()) == ([], before)


def test_proposals_from_elsewhere_are_not_mixed_with_ours(folder, tmp_path, asked, save_picture):
    boxes = [np.array([[0, 0, 9, 9]])] * 5
    (tmp_path / "fast.pkl").write_bytes(pickle.dumps({"boxes": boxes, "indexes": list("bcdef")}))
    path = import_proposals(tmp_path / "fast.pkl", open_dataset(folder), tmp_path / "store").path
    save_picture(folder / "cat" / "g.png")
    with pytest.raises(InputError, match=r"other settings: source, .*--overwrite"):
        compute_proposals(open_dataset(folder), path, FAST, workers=1, ours=True)
    with pytest.raises(InputError, match=r"1 of 6 are not in it \(g\); .*--overwrite"):
        open_store(path, open_dataset(folder))
    assert asked == []


def test_a_reader_that_changes_nothing_says_how_to_bring_it_up_to_date(folder, path, save_picture):
    save_picture(folder / "cat" / "b.png", (40, 30))
    with pytest.raises(InputError, match=r"b was 32×24 and is 40×30 pixels now; bring it up to date with `tag2box pro"):
        open_store(path, open_dataset(folder))
    save_picture(folder / "cat" / "g.png")
    with pytest.raises(InputError, match=r"1 of 6 are not in it \(g\); bring it up to date with `tag2box proposals …`"):
        open_store(path, open_dataset(folder))
