"""What has been seen is not looked at again, and nothing else is taken for it."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from unittest import mock

import pytest
import torch

from tag2box import looks
from tag2box.looks import FILE, KeptLooks, keep_looks
from tag2box.nets import build_trunk_and_head
from tag2box.nets.region_eye import RegionEye
from tag2box.nets.roi_head import CutHead

BOXES = torch.tensor([[0.0, 0, 20, 30], [5, 5, 25, 28], [3, 0, 40, 12]])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a data set's proposals."""
    folder = tmp_path / ".tag2box"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def built() -> CutHead:
    return build()


@pytest.fixture
def head(built: CutHead) -> CutHead:
    """Without a memory yet."""
    return deepcopy(built)


def build(seed: int = 0, pixels: int = 32) -> CutHead:
    torch.manual_seed(seed)
    _, head = build_trunk_and_head(
        "mobilenet_v3_small", weights="none", head="cut", pixels=pixels, dilated=False, frozen="all"
    )
    assert isinstance(head, CutHead)
    return head.eval()


def picture(seed: int = 0) -> torch.Tensor:
    return torch.rand(1, 3, 36, 44, generator=torch.Generator().manual_seed(seed))


def looked(head: CutHead, pictures: torch.Tensor, boxes: torch.Tensor) -> tuple[torch.Tensor, int]:
    """What is seen, and at how many regions the net has looked for it."""
    with mock.patch.object(RegionEye, "maps", autospec=True, side_effect=RegionEye.maps) as eye:
        seen = head.pool(pictures, [boxes])
    return seen, sum(len(call.args[1]) for call in eye.call_args_list)


@pytest.mark.parametrize("rows", [3, 1, 0])
def test_what_is_kept_is_what_was_seen(head: CutHead, folder: Path, rows: int):
    without, _ = looked(head, picture(), BOXES[:rows])
    keep_looks(head, folder)
    first, number = looked(head, picture(), BOXES[:rows])
    again, number_again = looked(head, picture(), BOXES[:rows])
    assert (number, number_again) == (rows, 0)
    assert first.shape == (rows, head.channels, 1, 1)
    assert first.dtype == again.dtype == torch.float32
    assert first.stride() == again.stride() == without.stride()  # or what follows would add up in another order
    assert torch.equal(first, without)
    assert torch.equal(again, without)


def test_nothing_else_is_taken_for_it(head: CutHead, folder: Path):
    """Another picture, other regions or their order, another net, another enlargement."""
    keep_looks(head, folder)
    looked(head, picture(), BOXES)
    other = build(seed=1)
    finer = build(pixels=64)
    for one in (other, finer):
        keep_looks(one, folder)
    nearly = picture()
    nearly[0, 2, 35, 43] += 1e-3
    for who, what, where in [
        (head, nearly, BOXES),
        (head, picture().flip(3), BOXES),
        (head, picture(), BOXES.flip(0)),
        (head, picture(), BOXES[:2]),
        (head, picture(), BOXES + 0.25),
        (other, picture(), BOXES),
        (finer, picture(), BOXES),
    ]:
        seen, number = looked(who, what, where)
        assert number == len(where)
        alone = deepcopy(who)
        alone.memory = None
        assert torch.equal(seen, alone.pool(what, [where]))
    assert looked(deepcopy(head), picture(), BOXES)[1] == 0  # nets are copied, and what they have seen with them


def test_autocast_makes_no_difference(head: CutHead, folder: Path):
    """An evaluation may be the first to look, or not."""
    plain, _ = looked(head, picture(), BOXES)
    keep_looks(head, folder)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(head.pool(picture(), [BOXES]), plain)


def test_several_may_look_at_once(head: CutHead, folder: Path):
    heads = [deepcopy(head) for _ in range(4)]
    for one in heads:
        keep_looks(one, folder)
    with ThreadPoolExecutor(8) as pool:
        pairs = [(one, seed) for seed in range(6) for one in heads]
        seen = list(pool.map(lambda pair: pair[0].pool(picture(pair[1]), [BOXES]), pairs))
    for (_, seed), one in zip(pairs, seen, strict=True):
        assert torch.equal(one, head.pool(picture(seed), [BOXES]))
    with sqlite3.connect(folder / FILE) as file:
        assert file.execute("SELECT count(*) FROM looks").fetchone() == (6,)
    assert not any(one.memory.usable is False for one in heads)


@pytest.mark.parametrize("trouble", ["damaged", "folder", "full", "gone", "cut short"])
def test_where_it_cannot_be_used_the_net_looks_again(head: CutHead, folder: Path, monkeypatch, capsys, trouble: str):
    """In one line, and nothing that was there is lost."""
    wanted, _ = looked(head, picture(), BOXES)
    if trouble == "damaged":
        (folder / FILE).write_bytes(b"no database" * 1000)
    elif trouble == "folder":
        (folder / FILE).mkdir()
    elif trouble == "full":
        monkeypatch.setattr(looks, "RESERVE", 1 << 62)
    elif trouble == "gone":
        folder.rmdir()
    elif trouble == "cut short":
        keep_looks(head, folder)
        looked(head, picture(), BOXES)
        with sqlite3.connect(folder / FILE) as file:
            file.execute("UPDATE looks SET seen = x'00'")
    keep_looks(head, folder)
    for _ in range(2):
        seen, number = looked(head, picture(), BOXES)
        assert torch.equal(seen, wanted)
        assert number == len(BOXES)
    assert capsys.readouterr().err.count("\n") == 1
    assert isinstance(head.memory, KeptLooks)
    assert not head.memory.usable
    if trouble == "damaged":
        assert (folder / FILE).read_bytes() == b"no database" * 1000
    if trouble == "full":
        assert not (folder / FILE).exists()


def test_nothing_is_put_beside_proposals_that_a_user_keeps_elsewhere(head: CutHead, tmp_path: Path):
    keep_looks(head, tmp_path)
    looked(head, picture(), BOXES)
    assert not [*tmp_path.iterdir()]


def test_other_heads_have_nothing_to_keep(folder: Path):
    _, head = build_trunk_and_head("tiny", weights="none", frozen="all")
    keep_looks(head, folder)
    assert not hasattr(head, "memory")
