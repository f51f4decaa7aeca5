"""The order of a run: all of it from the recipe, and each epoch through every picture."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tag2box.config import Data, Optimiser, Recipe, Rounds, Warm
from tag2box.engine.plan import Phase, generator_for, phases, rate_at, seed_for, showings

SCALES = (240, 320, 400)


def plain_recipe(images: int = 2, seed: int = 0, flip: bool = True) -> Recipe:
    return Recipe(data=Data(scales=SCALES, flip=flip), optimiser=Optimiser(images=images), seed=seed)


def test_the_phases_of_a_recipe():
    recipe = Recipe(
        optimiser=Optimiser(images=4),
        warm=Warm(epochs=3, rate=0.1),
        rounds=Rounds(number=2, conditional_epochs=0.5, prediction_epochs=2, conditional_rate=0.2, prediction_rate=0.3),
    )
    plan = phases(recipe, 40)
    assert [(one.kind, one.round, one.steps, one.rate) for one in plan] == [
        ("warm", 0, 30, 0.1),
        ("conditional", 1, 5, 0.2),
        ("prediction", 1, 20, 0.3),
        ("conditional", 2, 5, 0.2),
        ("prediction", 2, 20, 0.3),
    ]
    assert [one.name for one in plan[:3]] == ["warm start", "round 1, conditional net", "round 1, prediction net"]


@pytest.mark.parametrize(("images", "steps"), [(8, 100), (40, 100), (400, 200)])
def test_few_pictures_are_shown_more_often(images: int, steps: int):
    recipe = Recipe(optimiser=Optimiser(images=4), warm=Warm(epochs=2, least_steps=100), rounds=Rounds(number=0))
    assert [one.steps for one in phases(recipe, images)] == [steps]


def test_the_rates_fall_evenly_over_the_rounds():
    rounds = Rounds(number=5, conditional_rate=1.0, conditional_decay=0.2, prediction_rate=2.0, prediction_decay=0.5)
    plan = phases(Recipe(rounds=rounds), 40)
    assert [one.rate for one in plan if one.kind == "conditional"] == pytest.approx([1, 0.8, 0.6, 0.4, 0.2])
    assert [one.rate for one in plan if one.kind == "prediction"] == pytest.approx([2, 1.75, 1.5, 1.25, 1])
    (alone,) = [one for one in phases(Recipe(rounds=replace(rounds, number=1)), 40) if one.kind == "conditional"]
    assert alone.rate == 1


def test_the_tags_are_learnt_first_where_asked_for():
    recipe = Recipe(optimiser=Optimiser(images=4), warm=Warm(tag_epochs=2, tag_rate=0.3, epochs=1), rounds=Rounds(1))
    tags, warm, conditional, prediction = phases(recipe, 40)
    assert (tags.kind, tags.round, tags.steps, tags.rate, tags.name) == ("tags", 0, 20, 0.3, "tags")
    assert [one.net for one in (tags, warm, conditional, prediction)] == ["warm", "warm", "conditional", "prediction"]


@pytest.mark.parametrize(
    ("images", "batch", "epochs", "steps"), [(1, 8, 1, 1), (3, 8, 4, 2), (9, 4, 2, 4), (5, 2, 3, 8)]
)
def test_steps_are_whole_and_at_least_one(images: int, batch: int, epochs: int, steps: int):
    recipe = Recipe(optimiser=Optimiser(images=batch), warm=Warm(epochs=epochs))
    assert phases(recipe, images)[0].steps == steps


@pytest.mark.parametrize("schedule", ["constant", "cosine", "step"])
@pytest.mark.parametrize("warmup", [0, 10])
def test_the_shape_of_the_learning_rate(schedule: str, warmup: int):
    phase, settings = Phase("warm", 0, 90, 0.5), Optimiser(schedule=schedule, warmup=warmup)
    rates = [rate_at(step, phase, settings) for step in range(90)]
    assert all(0 < rate <= 0.5 for rate in rates)
    if warmup:
        assert rates[:10] == sorted(rates[:10])
        assert rates[0] == pytest.approx(0.05, rel=0.01)
    if schedule == "constant":
        assert rates[warmup:] == [0.5] * (90 - warmup)
    if schedule == "step":
        assert rates[warmup:60] == [0.5] * (60 - warmup)
        assert rates[60:] == pytest.approx([0.05] * 30)
    if schedule == "cosine":
        assert rates[warmup:] == sorted(rates[warmup:], reverse=True)
        assert rates[45] == pytest.approx(0.25)
        assert rates[-1] < 0.001


@settings(deadline=None, max_examples=60)
@given(images=st.integers(1, 17), batch=st.integers(1, 9), phase=st.integers(0, 5), seed=st.integers(0, 3))
def test_every_epoch_goes_through_each_picture_once(images: int, batch: int, phase: int, seed: int):
    """Also where the batch does not divide the images, and where it is larger than all of them."""
    recipe, epochs = plain_recipe(batch, seed), 3
    stream = [one for step in range(-(-epochs * images // batch)) for one in showings(recipe, images, phase, step)]
    for epoch in range(epochs):
        shown = [one.index for one in stream[epoch * images : (epoch + 1) * images]]
        assert sorted(shown) == list(range(images))
    assert {one.scale for one in stream} <= set(SCALES)
    for start in range(0, len(stream), batch):  # of one step all are shown alike, or the small ones were mostly padding
        assert len({one.scale for one in stream[start : start + batch]}) == 1


def test_epochs_phases_and_seeds_have_orders_of_their_own():
    def order(seed: int, phase: int, epoch: int) -> tuple[int, ...]:
        steps = range(epoch * 10, (epoch + 1) * 10)
        return tuple(one.index for step in steps for one in showings(plain_recipe(2, seed), 20, phase, step))

    orders = {order(seed, phase, epoch) for seed in range(3) for phase in range(3) for epoch in range(3)}
    assert len(orders) == 27


def test_all_scales_and_both_sides_are_shown_about_equally():
    shown = [one for step in range(300) for one in showings(plain_recipe(), 50, 0, step)]
    for scale in SCALES:
        assert 150 <= sum(one.scale == scale for one in shown) <= 250  # 200 ± 4.3 deviations
    assert 250 <= sum(one.mirrored for one in shown) <= 350
    assert not any(one.mirrored for step in range(50) for one in showings(plain_recipe(flip=False), 50, 0, step))


def test_showings_are_the_same_in_a_fresh_process_and_in_any_order():
    recipe, wanted = plain_recipe(3, seed=7), [(0, 0), (2, 11), (1, 5)]
    script = (
        "import json, sys\nfrom tag2box.config import *\nfrom tag2box.engine.plan import showings\n"
        f"r = Recipe(data=Data(scales={SCALES}), optimiser=Optimiser(images=3), seed=7)\n"
        f"print(json.dumps([[(o.index, o.scale, o.mirrored) for o in showings(r, 10, *w)] for w in {wanted}]))\n"
    )
    fresh = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    for _ in range(2):
        here = [[[o.index, o.scale, o.mirrored] for o in showings(recipe, 10, *one)] for one in reversed(wanted)]
        assert here == json.loads(fresh)[::-1]


def test_seeds_of_neighbouring_numbers_are_unrelated():
    numbers = [(a, b, c) for a in range(-3, 8) for b in range(-3, 8) for c in range(8)]
    seeds = [seed_for(*one) for one in numbers]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)  # what torch takes
    differing = [bin(seed_for(0, 0, n) ^ seed_for(0, 0, n + 1)).count("1") for n in range(500)]
    assert 26 < sum(differing) / 500 < 30  # half of 56 bits
    assert seed_for(1, 11) != seed_for(11, 1) != seed_for(111)


def test_a_generator_of_its_own_leaves_the_global_one_alone():
    import torch

    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, again = (torch.rand(4, generator=generator_for(1, 2)) for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), before)
