"""What a run remembers of the pictures it learnt from."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tag2box import remembered
from tag2box.errors import InputError
from tag2box.remembered import FILE, favoured, load_places, recall_of, save_places

BOXES = [
    torch.tensor([[0.0, 0, 9, 9], [3, 4, 8, 9], [1, 1, 5, 5]]),
    torch.zeros(0, 4),
    torch.tensor([[2.0, 2, 30, 40]]),
]
PLACES = [
    torch.tensor([[0.5, -0.25], [0.125, 0.75], [-1, 0]]).half(),
    torch.zeros(0, 2).half(),
    torch.ones(1, 2).half(),
]


@pytest.fixture
def run(tmp_path):
    (tmp_path / "weights").mkdir()
    save_places(tmp_path / "weights" / FILE, PLACES, BOXES, ["a b", "é", "c"])
    return tmp_path


def test_it_is_kept_as_it_is(run):
    places, found = load_places(run / "weights" / FILE)
    assert all(map(torch.equal, places, PLACES))
    assert found is None
    assert [path.name for path in (run / "weights").iterdir()] == [FILE]


def test_a_picture_by_its_name_with_the_proposals_after_those_looked_at(run):
    proposals = np.concatenate([BOXES[0].numpy(), [[7, 7, 9, 9]]]).astype(np.int16)
    places = recall_of(run)("a b", proposals)
    assert places.tolist() == [[0.5, -0.25], [0.125, 0.75], [-1, 0], [-1, -1]]
    assert recall_of(run)("é", proposals).tolist() == [[-1, -1]] * 4


@pytest.mark.parametrize("change", [lambda rows: rows[:2], lambda rows: rows[::-1], lambda rows: rows + 1])
def test_nothing_where_the_proposals_are_others(run, change):
    assert recall_of(run)("a b", change(BOXES[0].numpy())) is None


def test_the_file_is_opened_once_and_asked_by_any_thread(run, monkeypatch):
    """With thousands of pictures, to read what is in it takes longer than a GPU takes for one of them."""
    opened, opens = [], remembered.safe_open
    monkeypatch.setattr(remembered, "safe_open", lambda *how: opened.append(how) or opens(*how))
    recall = recall_of(run)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: recall("a b", BOXES[0].numpy()), range(9)))
    assert all(torch.equal(one, found[0]) for one in found)
    assert len(opened) == 1


def test_nothing_of_other_pictures_other_runs_and_detectors_alone(run, tmp_path):
    rows = BOXES[0].numpy()
    assert recall_of(run)("b", rows) is None
    assert recall_of(run / "elsewhere")("a b", rows) is None
    assert recall_of(run / "weights" / FILE)("a b", rows) is None  # a file, as a detector is
    save_file({"0": torch.zeros(2, 2)}, run / "weights" / FILE)  # of a version that kept no names
    assert recall_of(run)("a b", rows) is None


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x10" + bytes(40)])
def test_a_broken_file_is_named(run, content):
    path = run / "weights" / FILE
    path.write_bytes(content)
    for read in (lambda: recall_of(run), lambda: load_places(path)):
        with pytest.raises(InputError, match=r"hints\.safetensors: expected hints that a run has kept, found"):
            read()


def test_boxes_that_were_found_come_first_and_are_nobody_else_s_proposals(tmp_path):
    found = [torch.tensor([[1.5, 2, 7, 8]]), torch.zeros(0, 4), torch.zeros(0, 4)]
    places = [torch.cat([torch.tensor([[0.9, -1.0]]).half(), PLACES[0]]), *PLACES[1:]]
    (tmp_path / "weights").mkdir()
    save_places(tmp_path / "weights" / FILE, places, BOXES, ["a", "b", "c"], found)
    kept, boxes = load_places(tmp_path / "weights" / FILE)
    assert all(map(torch.equal, kept, places))
    assert all(map(torch.equal, boxes, found))
    torch.testing.assert_close(recall_of(tmp_path)("a", BOXES[0].numpy()), PLACES[0].float())


def test_hints_of_a_version_that_kept_no_names_cannot_be_gone_on_with(run):
    save_file({"0": torch.zeros(2, 2), "1": torch.zeros(2, 2)}, run / "weights" / FILE)
    with pytest.raises(InputError, match="expected hints that a run has kept"):
        load_places(run / "weights" / FILE)


def test_what_more_speaks_for_is_favoured():
    probabilities = torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.6, 0.3]])
    places = torch.tensor([[0.9, 0.1], [0.4, 0.3]])
    found = favoured(probabilities, places, 2.0)
    wanted = [[0.2, 0.5, 0.3 * np.exp(-0.4)], [0.1, 0.6 * np.exp(-1.0), 0.3]]
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float32))
    assert found[:, 1].argmax() == 0  # where the detector alone would have the other
    for same in (favoured(probabilities, None, 2.0), favoured(probabilities, places, 0.0)):
        assert same is probabilities
    assert favoured(probabilities[:0], places[:0], 2.0).shape == (0, 3)
