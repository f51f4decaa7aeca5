"""Where pictures come from changes nothing about them, and threads decode what is expected before it is asked for."""

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tag2box.config import Data
from tag2box.data.images import read_image
from tag2box.data.records import Dataset, TaggedImage
from tag2box.engine import loader
from tag2box.engine.feed import Feed
from tag2box.engine.loader import FromFiles, Resident, decoded_bytes, make_loader
from tag2box.engine.plan import phases, showings
from tag2box.errors import InputError

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def read(monkeypatch):
    """Which files were decoded, and by which threads."""
    seen = []

    def note(path: Path):
        seen.append((Path(path).stem, threading.current_thread().name))
        return read_image(path)

    monkeypatch.setattr(loader, "read_image", note)
    return seen


@pytest.mark.parametrize("most", [5, 2000])
def test_every_loader_gives_the_same(world, most):
    data = Data(max_proposals=most)
    resident, files, ahead = (kind(world.dataset, world.store, data, CPU) for kind in (Resident, FromFiles, FromFiles))
    ahead.expect(range(len(world.dataset)))
    for index, image in enumerate(world.dataset):
        expected = torch.from_numpy(read_image(image.path)).permute(2, 0, 1)
        boxes = torch.from_numpy(world.store[image.id][:most].astype("float32"))
        for one in (resident, files, ahead):
            found = one.picture(index)
            assert torch.equal(found, expected)
            assert found.stride() == expected.stride()  # what is computed from it is computed in the same way
            assert torch.equal(one.proposals(index), boxes)
            assert one.proposals(index).dtype == torch.float32


def test_any_picture(tmp_path, make_world):
    """Grey, with a palette, turned by its EXIF: as `read_image` has them."""
    rng, images = np.random.default_rng(0), []
    for number, mode in enumerate(("L", "P", "RGB")):
        picture = Image.fromarray(rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)).convert(mode)
        exif = Image.Exif()
        exif[0x0112] = 6 if mode == "RGB" else 1
        path = tmp_path / f"{number}.png"
        picture.save(path, exif=exif)
        images.append(TaggedImage(str(number), path, (30, 40) if mode == "RGB" else (40, 30), ()))
    store = make_world(tmp_path, images=1).store
    found = Resident(Dataset((), tuple(images)), Stub(store), Data(), CPU)
    for index, image in enumerate(images):
        assert torch.equal(found.picture(index).permute(1, 2, 0), torch.from_numpy(read_image(image.path)))


class Stub:
    """The same boxes for every picture."""

    def __init__(self, store):
        self.boxes = store[store.ids[0]]

    def __getitem__(self, _):
        return self.boxes


def test_a_picture_that_has_changed_is_refused(world):
    first = replace(world.dataset[0], size=(640, 480))
    changed = replace(world.dataset, images=(first, *world.dataset.images[1:]))
    with pytest.raises(InputError, match=r"000.png: expected 640×480 pixels as at the start, found 64×48$"):
        Resident(changed, world.store, Data(), CPU)


def test_a_picture_that_cannot_be_read_is_named(world, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no picture")
    bad = replace(world.dataset[0], path=tmp_path / "bad.png")
    broken = replace(world.dataset, images=(bad, *world.dataset.images[1:]))
    with pytest.raises(InputError, match=r"cannot read the picture .*bad.png"):
        Resident(broken, world.store, Data(), CPU)
    ahead = FromFiles(broken, world.store, Data(), CPU)
    ahead.expect([0])
    with pytest.raises(InputError, match=r"cannot read the picture .*bad.png"):
        ahead.picture(0)


def test_what_is_expected_is_decoded_once_and_elsewhere(world, read):
    ahead = FromFiles(world.dataset, world.store, Data(), CPU)
    ahead.expect([3, 1, 3])
    ahead.expect([3])
    for index in (3, 1, 3, 3):
        ahead.picture(index)
    assert sorted(name for name, _ in read) == ["001", "003"]
    assert all(thread.startswith("decoding") for _, thread in read)
    ahead.picture(3)  # that one was not expected
    assert read[-1] == ("003", threading.current_thread().name)


def test_what_does_not_come_is_forgotten(world, read):
    ahead = FromFiles(world.dataset, world.store, Data(), CPU)
    ahead.expect([0, 1])
    ahead.forget()
    assert not ahead._coming
    ahead.picture(0)
    assert read[-1][1] == threading.current_thread().name


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize(("process", "start"), [(0, 0), (1, 7)])
def test_a_step_s_pictures_are_decoded_before_it(world, make_recipe, make_nets, read, cache, process, start):
    """All of them by threads, in every process, from the phase's first step or from where a run goes on."""
    recipe = make_recipe(
        data={"scales": (48, 64), "cache": cache}, warm={"epochs": 20, "branches": 1}, optimiser={"images": 4}
    )
    album, phase = make_nets(world, recipe).album, phases(recipe, len(world.dataset))[0]
    feed = Feed(album, recipe, process=process, processes=2)
    feed.begin(0, phase, start)
    for step in range(start, phase.steps):
        views = feed.views(0, phase, step)
        wanted = showings(recipe, len(world.dataset), 0, step)[process::2]
        assert [min(view.size) for view in views] == [one.scale for one in wanted]
        assert feed.waited > 0
    assert {name for name, _ in read} == set(world.dataset.ids)
    assert all(thread.startswith("decoding") for _, thread in read)


def test_nothing_is_expected_beyond_the_phase(world, make_recipe, make_nets, read):
    recipe = make_recipe(data={"cache": False}, warm={"epochs": 1, "branches": 1}, optimiser={"images": 2})
    album, phase = make_nets(world, recipe).album, phases(recipe, 6)[0]
    feed = Feed(album, recipe, process=0, processes=1)
    feed.begin(0, phase, 0)
    for step in range(phase.steps):
        feed.views(0, phase, step)
    assert sorted(name for name, _ in read) == [image.id for image in world.dataset]
    assert not album._loader._coming


@pytest.mark.parametrize(
    ("resident", "device", "free", "kind"),
    [
        ("auto", CPU, 10**9, FromFiles),
        ("on", CPU, 10**9, Resident),
        ("off", GPU, 10**9, FromFiles),
        ("auto", GPU, 2.0, Resident),  # free memory, in sizes of the data set
        ("auto", GPU, 1.99, FromFiles),
        ("on", GPU, 1.0, Resident),
        ("on", GPU, 0.99, InputError),
    ],
)
def test_which_one_is_made(world, monkeypatch, resident, device, free, kind):
    need = decoded_bytes(world.dataset)
    assert need == sum(read_image(image.path).nbytes for image in world.dataset)
    monkeypatch.setattr(loader, "free_bytes", lambda _: free * need)
    monkeypatch.setattr(loader.Resident, "__init__", lambda *_: None)
    if kind is InputError:
        with pytest.raises(InputError, match=r"expected off, or pictures that fit on cuda, found .* GiB free$"):
            make_loader(world.dataset, world.store, Data(resident=resident), device)
    else:
        assert type(make_loader(world.dataset, world.store, Data(resident=resident), device)) is kind


def test_an_empty_data_set(world):
    assert decoded_bytes(Dataset((), ())) == 0
    Resident(Dataset((), ()), world.store, Data(), CPU)
