"""The state of a run on disk: exact, whole or not there."""

import pytest
import torch
from torch import nn

from tag2box.engine import checkpoint
from tag2box.engine.checkpoint import load_net, load_optimiser, read_state, save_state
from tag2box.errors import InputError


def make_nets(seed):
    torch.manual_seed(seed)
    return {"one": nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), "other": nn.Linear(3, 2)}


def make_optimiser(name, net):
    if name == "sgd":
        return torch.optim.SGD(net.parameters(), 0.001, momentum=0.9, weight_decay=1e-3)
    return torch.optim.AdamW(net.parameters(), 0.01, weight_decay=1e-2)


def take_steps(net, optimiser, first, last):
    for number in range(first, last):
        inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(number))
        optimiser.zero_grad()
        net(inputs).square().sum().backward()
        optimiser.step()


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_going_on_from_a_file_is_going_on(tmp_path, name):
    file = tmp_path / "state.safetensors"
    nets = make_nets(0)
    optimiser = make_optimiser(name, nets["one"])
    take_steps(nets["one"], optimiser, 0, 5)
    save_state(file, nets, optimiser, {"step": 5, "text": "é", "few": [1.5, None]})
    take_steps(nets["one"], optimiser, 5, 9)

    tensors, state = read_state(file)
    assert state == {"step": 5, "text": "é", "few": [1.5, None]}
    again = make_nets(1)
    for key, net in again.items():
        load_net(net, key, tensors)
    other = make_optimiser(name, again["one"])
    load_optimiser(other, tensors)
    take_steps(again["one"], other, 5, 9)
    for key in nets:
        for one, two in zip(nets[key].state_dict().values(), again[key].state_dict().values(), strict=True):
            assert torch.equal(one, two)
    kept, loaded = optimiser.state_dict()["state"], other.state_dict()["state"]
    assert kept.keys() == loaded.keys()
    for number, values in kept.items():
        assert all(torch.equal(torch.as_tensor(value), loaded[number][key]) for key, value in values.items())


def test_a_fresh_optimiser_where_none_was_saved(tmp_path):
    nets = make_nets(0)
    save_state(tmp_path / "state.safetensors", nets, None, {})
    optimiser = make_optimiser("adamw", nets["one"])
    load_optimiser(optimiser, read_state(tmp_path / "state.safetensors")[0])
    assert optimiser.state_dict()["state"] == {}
    take_steps(nets["one"], optimiser, 0, 1)


def test_what_was_never_moved_has_no_state(tmp_path):
    """SGD keeps None for a parameter that had no gradient yet."""
    net = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    optimiser = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    net[0](torch.ones(1, 2)).sum().backward()
    optimiser.step()
    save_state(tmp_path / "state.safetensors", {"net": net}, optimiser, {})
    again = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    load_optimiser(again, read_state(tmp_path / "state.safetensors")[0])
    net[1](torch.ones(1, 2)).sum().backward()
    again.step()


@pytest.mark.parametrize("content", [b"", b"no tensors", b"\x10\0\0\0\0\0\0\0{}"])
def test_a_broken_file_is_said_to_be_one(tmp_path, content):
    file = tmp_path / "state.safetensors"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"cannot go on from .*state\.safetensors"):
        read_state(file)


def test_a_cut_file_and_another_s_file(tmp_path):
    from safetensors.torch import save_file

    file = tmp_path / "state.safetensors"
    save_state(file, make_nets(0), None, {})
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(InputError, match="cannot go on"):
        read_state(file)
    save_file({"x": torch.zeros(1)}, file)  # whole, but not ours
    with pytest.raises(InputError, match="cannot go on"):
        read_state(file)
    with pytest.raises(InputError, match="cannot go on"):
        read_state(tmp_path / "none.safetensors")


def test_a_failing_save_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    file = tmp_path / "state.safetensors"
    save_state(file, make_nets(0), None, {"step": 1})
    before = file.read_bytes()

    def break_off(tensors, path, metadata):
        path.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(checkpoint, "save_file", break_off)
    with pytest.raises(OSError, match="no space"):
        save_state(file, make_nets(1), None, {"step": 2})
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_equal_states_are_equal_files(tmp_path):
    for name in ("a", "b"):
        save_state(tmp_path / name, make_nets(0), None, {"step": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
