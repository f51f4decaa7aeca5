"""Which proposals a step is shown."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tag2box.engine.drawing import APART, ON_SEED, around_seeds, drawn_around
from tag2box.overlap import pair_iou, touches


def some_boxes(count: int, seed: int) -> torch.Tensor:
    corner, size = torch.rand(2, count, 2, generator=torch.Generator().manual_seed(seed)).unbind(0)
    return 100 * torch.cat([corner, corner + 0.02 + size], dim=1)


@given(st.integers(1, 60), st.integers(1, 3), st.integers(0, 999), st.data())
def test_every_proposal_lies_in_one_way_to_the_seeds(count, tags, seed, data):
    """Against a loop over the proposals."""
    boxes = some_boxes(count, seed)
    places = torch.rand(data.draw(st.integers(1, count)), tags, generator=torch.Generator().manual_seed(seed))
    around = around_seeds(boxes, places)
    seeds = sorted({max(range(len(places)), key=lambda row: places[row, tag].item()) for tag in range(tags)})
    assert around.seeds.tolist() == seeds
    for row in range(count):
        overlap, nearest = pair_iou(boxes[row][None], boxes[seeds])[0].max(0)
        near = bool(touches(boxes[row], boxes[seeds[nearest]], overlap))
        kind = "seeds" if row in seeds else "matches" if overlap >= 0.5 else "near" if near else "apart"
        for name, rows in around._asdict().items():
            assert (row in rows.tolist()) == (name == kind)


@given(st.integers(3, 80), st.integers(3, 40), st.integers(0, 999))
def test_seeds_are_always_drawn_and_no_more_than_asked_for(count, number, seed):
    boxes, generator = some_boxes(count, seed), torch.Generator().manual_seed(seed)
    around = around_seeds(boxes, torch.rand(count, 3, generator=generator))
    rows = drawn_around(around, number, generator).tolist()
    assert rows == sorted(set(rows))
    assert set(around.seeds.tolist()) <= set(rows)
    assert len(rows) <= number
    assert len({*rows} & {*around.matches.tolist()}) <= max(round(ON_SEED * number), 0)
    apart, near = ({*rows} & {*kind.tolist()} for kind in (around.apart, around.near))
    if len(near) < len(around.near):  # some are left, so those apart have no more than their share
        assert len(apart) <= round(APART * number)
        assert len(rows) == number


def test_all_are_drawn_in_time():
    boxes = some_boxes(60, 1)
    around = around_seeds(boxes, torch.rand(60, 2, generator=torch.Generator().manual_seed(0)))
    seen = {
        row for seed in range(200) for row in drawn_around(around, 12, torch.Generator().manual_seed(seed)).tolist()
    }
    assert seen == set(range(60))


def test_a_picture_without_regions_has_no_seeds():
    around = around_seeds(some_boxes(9, 0), torch.zeros(0, 2))
    assert len(around.seeds) == 0
    assert len(drawn_around(around, 4, torch.Generator())) == 4
