"""What a run says of itself: means, rows and which round is best."""

import json
import math

import pytest
import torch

from tag2box.engine.record import SHOWN, Record, follow, peak_memory_mb

CPU = torch.device("cpu")


def logged(record, **values):
    record.log({name: torch.tensor(value) for name, value in values.items()}, 2)


def test_a_row_has_the_means_of_what_was_logged_since_the_last():
    record = Record()
    logged(record, a=1.0, b=10.0)
    logged(record, a=2.0)
    logged(record, a=6.0, b=30.0)
    row = record.add({"stage": "one", "map": 0.5}, CPU)
    assert row["a"] == pytest.approx(3)
    assert row["b"] == pytest.approx(20)  # logged twice
    assert row["map"] == 0.5
    assert row["seconds"] > 0
    assert row["images_per_second"] == pytest.approx(6 / row["seconds"])
    assert row["peak_memory_mb"] > 0
    logged(record, a=7.0)
    assert record.add({"stage": "two"}, CPU)["a"] == 7
    assert [one["stage"] for one in record.rows] == ["one", "two"]


def test_the_share_of_the_steps_in_which_they_waited():
    record = Record()
    record.log({}, 2, seconds=3.0, waited=1.0)
    record.log({}, 2, seconds=1.0, waited=0.5)
    again = Record()
    again.restore(json.loads(json.dumps(record.state())))
    for one in (record, again):
        one.log({}, 2, seconds=1.0, waited=0.0)
        assert one.add({"stage": "x"}, CPU)["data_wait"] == pytest.approx(0.3)
        assert "data_wait" not in one.add({"stage": "y"}, CPU)


def test_a_stage_without_steps_has_a_row_without_speed():
    row = Record().add({"stage": "refined"}, CPU)
    assert "images_per_second" not in row
    assert row["seconds"] >= 0


def test_rows_are_replaced_not_doubled():
    """A run killed between a row and its checkpoint says the same stage again."""
    record = Record()
    for value in (1.0, 2.0):
        record.add({"stage": "wsddn", "map": value}, CPU)
        record.add({"stage": "refined", "map": value}, CPU)
    assert [(one["stage"], one["map"]) for one in record.rows] == [("wsddn", 2.0), ("refined", 2.0)]


@pytest.mark.parametrize(
    ("rows", "best"),
    [
        ([{"map": 1.0, "corloc": 9.0}, {"map": 3.0, "corloc": 1.0}, {"map": 2.0, "corloc": 99.0}], [True, True, False]),
        ([{"corloc": 5.0}, {"corloc": 4.0}, {"corloc": 5.0}], [True, False, True]),
        ([{"map": math.nan, "corloc": 5.0}, {"map": math.nan, "corloc": 4.0}], [True, False]),
        ([{}, {}, {"map": math.nan}], [True, True, True]),
    ],
    ids=["mAP", "CorLoc", "no number", "neither"],
)
def test_the_best_round(rows, best):
    record = Record()
    assert [record.is_best({"stage": "x", **row}) for row in rows] == best


def test_state_goes_through_json():
    record = Record()
    record.add({"stage": "wsddn", "map": 0.125}, CPU)
    record.is_best({"map": 0.125})
    logged(record, loss=1 / 3)
    logged(record, loss=0.1)
    again = Record()
    again.restore(json.loads(json.dumps(record.state())))
    assert again.rows == record.rows
    for one in (record, again):
        logged(one, loss=0.7)
        assert not one.is_best({"map": 0.1})
    assert again.add({"stage": "x"}, CPU)["loss"] == record.add({"stage": "x"}, CPU)["loss"]  # to the last digit


def test_a_fresh_state_goes_through_json_too():
    again = Record()
    again.restore(json.loads(json.dumps(Record().state())))
    assert again.best == -math.inf
    assert again.is_best({"map": 0.0})


def test_seconds_go_on_after_a_resume(monkeypatch):
    now = 100.0
    monkeypatch.setattr("tag2box.engine.record.time.monotonic", lambda: now)
    record = Record(_began=now)
    now = 130.0
    state = record.state()
    now = 5.0  # another process, another clock
    again = Record()
    again.restore(state)
    now = 12.0
    assert again.add({"stage": "x"}, CPU)["seconds"] == 37


def test_memory_is_that_of_the_process():
    assert 50 < peak_memory_mb(CPU) < 10**6


@pytest.mark.parametrize("images", [3, 30])
def test_followed_pictures_are_the_same_each_round(make_world, make_recipe, make_nets, tmp_path, images):
    world = make_world(tmp_path, images=images)
    recipe = make_recipe(data={"scales": (96,)}, inference={"scales": (96,)})
    nets = make_nets(world, recipe)
    one, two = (follow(name, nets.conditional, nets.prediction, nets.album, recipe) for name in ("round-1", "round-2"))
    assert len(one) == min(images, SHOWN)
    assert [a.image for a in one] == [b.image for b in two]
    assert [a.samples for a in one] == [b.samples for b in two]  # under the same noise
    for followed in one:
        image = followed.image
        assert image in list(world.dataset)
        assert len(followed.samples) == recipe.rounds.samples
        for sample in followed.samples:
            assert {name for name, _ in sample} == set(image.tags)
        for name, score, (x0, y0, x1, y1) in followed.prediction:
            assert name in world.dataset.classes
            assert 0.3 <= score <= 1
            assert 0 <= x0 < x1 <= image.size[0]
            assert 0 <= y0 < y1 <= image.size[1]


def test_of_more_proposals_those_are_followed_that_were_trained_with(world, make_recipe, make_nets):
    recipe = make_recipe(data={"max_proposals": 6})
    few = make_nets(world, recipe)
    many = make_nets(world, make_recipe(data={"max_proposals": 20})).album
    one, two = (follow("x", few.conditional, few.prediction, album, recipe) for album in (few.album, many))
    assert [(a.samples, a.prediction) for a in one] == [(b.samples, b.prediction) for b in two]


def test_a_picture_of_which_no_sample_can_be_drawn_is_not_followed(make_world, make_recipe, make_nets, tmp_path):
    """Without tags, or with fewer proposals than tags: held-out pictures may be so."""
    world = make_world(tmp_path, images=5, tags=[("red",), (), ("blue",), ("red", "green")], proposals=(3, 3, 3, 1, 0))
    recipe = make_recipe(data={"scales": (96,)}, inference={"scales": (96,)})
    nets = make_nets(world, recipe)
    followed = follow("round-1", nets.conditional, nets.prediction, nets.album, recipe)
    assert [one.image.id for one in followed] == ["000", "002"]
