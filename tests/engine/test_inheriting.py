"""Rounds from another run's warm start: bit for bit those of a run that learnt both."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from tag2box import remembered
from tag2box.engine.checkpoint import read_state
from tag2box.engine.inheriting import FILE, finished_warm_start, require_warm_start
from tag2box.engine.loop import train_run
from tag2box.errors import InputError


@pytest.fixture
def make(make_recipe, world, tmp_path):
    """Runs with so many rounds."""

    def run(name, number, seed=0, warm_start=None, known=None, **sections):
        rounds = {"number": number, **sections.pop("rounds", {})}
        recipe = make_recipe(seed=seed, rounds=rounds, **sections)
        heard = []

        class Report:
            def results(self, rows):
                heard[:] = [row["stage"] for row in rows]

            def samples(self, followed):
                pass

        def judge(stage, own, other):  # before the rounds best of all, so that a best which is inherited would stay
            return {"map": 0.5 if stage.startswith("round-") and stage != "round-0" else 90.0, "corloc": 0.0}

        options = {"evaluate": judge, "val": (world.dataset, world.store), "report": Report(), "device": "cpu"}
        train_run(world.dataset, world.store, recipe, tmp_path / name, **options, warm_start=warm_start, known=known)
        return tmp_path / name, heard

    return run


def same(one, other, name):
    one, other = load_file(one / "weights" / name), load_file(other / "weights" / name)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("again", [0, 1])
def test_the_rounds_are_those_of_a_run_that_learnt_both(make, again):
    whole, stages = make("whole", 2, warm={"again": again})
    warm, before = make("warm", 0, warm={"again": again})
    rounds, after = make("rounds", 2, warm={"again": again}, warm_start=warm)
    for name in ("last.safetensors", "best.safetensors", "conditional.safetensors"):
        same(whole, rounds, name)
    assert before == [*stages[:-2], "round-0"]
    assert after == stages
    assert (rounds / "weights" / remembered.FILE).exists() == bool(again)


@pytest.mark.parametrize("again", [0, 1])
def test_a_run_that_went_on_has_its_warm_start_still(make, again):
    whole, stages = make("whole", 2, warm={"again": again})
    rounds, after = make("rounds", 2, warm={"again": again}, warm_start=whole)
    for name in ("last.safetensors", "best.safetensors", "conditional.safetensors", FILE):
        same(whole, rounds, name)
    assert after == stages


def test_a_person_may_have_decided_meanwhile(make, world):
    """On a box, and that a picture shows other classes than its tags say."""
    whole, _ = make("whole", 1, warm={"again": 1})
    first, second = world.dataset[0], world.dataset[1]
    gone = dict.fromkeys(second.tags, ())
    known = {first.id: {first.tags[0]: [world.truth[0][0]]}, second.id: {**gone, "red": [world.truth[1][0]]}}
    assert "red" not in second.tags
    again, stages = make("again", 1, warm={"again": 1}, warm_start=whole, known=known)
    assert stages[-1] == "round-1"
    with pytest.raises(AssertionError):
        same(whole, again, "last.safetensors")


def test_boxes_that_a_warm_start_has_learnt_from_are_not_lost_sight_of(make, world):
    known = {world.dataset[0].id: {world.dataset[0].tags[0]: [world.truth[0][0]]}}
    whole, _ = make("whole", 1, known=known)
    with pytest.raises(InputError, match=r"has learnt from a person's decisions: expected --reviewed, found none$"):
        make("again", 1, warm_start=whole)
    make("with", 1, warm_start=whole, known=known)


def test_a_switch_of_the_rounds_may_differ(make):
    warm, _ = make("warm", 0)
    one, _ = make("one", 1, warm_start=warm)
    other, _ = make("other", 1, rounds={"noise": False}, warm_start=warm)
    with pytest.raises(AssertionError):
        same(one, other, "last.safetensors")


def test_what_is_no_warm_start_of_ours_is_refused(make, make_recipe, world, make_world, tmp_path):
    warm, _ = make("warm", 0)
    recipe = make_recipe(rounds={"number": 1})
    with pytest.raises(InputError, match=r"expected --rounds.number 1 or more .*, found 0$"):
        require_warm_start(warm, make_recipe(rounds={"number": 0}))
    with pytest.raises(InputError, match=r"found no .*nowhere"):
        require_warm_start(tmp_path / "nowhere", recipe)
    with pytest.raises(InputError, match=r"but for its rounds, found others: warm.epochs 99 instead of"):
        require_warm_start(warm, make_recipe(rounds={"number": 1}, warm={"epochs": 99}))
    finished, _ = make("finished", 1)
    (finished / "weights" / FILE).unlink()  # as of an older version
    with pytest.raises(InputError, match=r"expected a run that has kept its warm start, found none"):
        require_warm_start(finished, recipe)
    some = world.dataset.subset([True] * 3 + [False] * (len(world.dataset) - 3))
    with pytest.raises(InputError, match=r"expected the classes and pictures that .* has learnt from, found others"):
        finished_warm_start(warm, recipe, some, world.store)
    (warm / "weights" / "state.safetensors").write_bytes(b"broken")
    with pytest.raises(InputError, match=r"^cannot go on from"):
        require_warm_start(warm, recipe)


def test_hints_are_of_the_same_proposals(make, make_recipe, world):
    warm, _ = make("warm", 0, warm={"again": 1})
    recipe = make_recipe(rounds={"number": 1}, warm={"again": 1})
    finished_warm_start(warm, recipe, world.dataset, world.store)
    turned = {id: world.store[id][::-1] for id in world.dataset.ids}
    with pytest.raises(InputError, match=r"expected hints for the same proposals, found those of others$"):
        finished_warm_start(warm, recipe, world.dataset, turned)
    with pytest.raises(InputError, match=r"but for its rounds, found others: inference.flip True instead of False"):
        require_warm_start(warm, make_recipe(rounds={"number": 1}, warm={"again": 1}, inference={"flip": True}))
    (warm / "weights" / remembered.FILE).unlink()
    with pytest.raises(InputError, match=r"expected hints that a run has kept"):
        finished_warm_start(warm, recipe, world.dataset, world.store)


def test_settings_of_another_version_are_told_in_a_line(make, make_recipe, monkeypatch):
    warm, _ = make("warm", 0)
    path = warm / "weights" / "state.safetensors"
    tensors, state = read_state(path)
    state["recipe"]["warm"]["gone"] = 3
    del state["recipe"]["warm"]["votes"]
    save_file(tensors, path, metadata={"state": json.dumps(state)})
    with pytest.raises(InputError, match=r"warm.gone nothing instead of 3, warm.votes False instead of nothing"):
        require_warm_start(warm, make_recipe(rounds={"number": 1}))
