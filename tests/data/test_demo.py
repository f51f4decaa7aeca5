import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from tag2box.data import demo, demo_picture, open_dataset, open_ground_truth
from tag2box.data.demo import draw_demo
from tag2box.data.demo_drawing import render
from tag2box.data.demo_patterns import PALETTE, Drawing, Paints
from tag2box.data.demo_picture import (
    LARGEST,
    SHORT_SIDE,
    SMALLEST,
    Picture,
    _paints_against,
    draw_picture,
    pick_classes,
)
from tag2box.data.demo_things import CLASSES
from tag2box.errors import InputError

TRAIN, TEST = 20, 6


def generator(index: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([7, 0, index]))


@pytest.fixture(scope="module")
def devkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_demo(tmp_path_factory.mktemp("demo"), seed=3, train=TRAIN, test=TEST)


@pytest.fixture(scope="module")
def pictures() -> list[Picture]:
    return [draw_picture(generator(i)) for i in range(60)]


def all_bytes(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


# ---- the devkit


def test_same_seed_gives_the_same_bytes_whoever_draws(devkit: Path, tmp_path: Path) -> None:
    again = draw_demo(tmp_path, seed=3, train=TRAIN, test=TEST, workers=2)
    assert all_bytes(again) == all_bytes(devkit)


def test_another_seed_gives_other_pictures(devkit: Path, tmp_path: Path) -> None:
    other = draw_demo(tmp_path, seed=4, train=2, test=0)
    assert (other / "JPEGImages/000001.jpg").read_bytes() != (devkit / "JPEGImages/000001.jpg").read_bytes()


def test_a_picture_depends_on_its_place_not_on_how_many_there_are(devkit: Path, tmp_path: Path) -> None:
    fewer = draw_demo(tmp_path, seed=3, train=2, test=1)
    for few, many in (("000002", "000002"), ("000003", f"{TRAIN + 1:06d}")):  # the first test image moves up
        assert (fewer / f"JPEGImages/{few}.jpg").read_bytes() == (devkit / f"JPEGImages/{many}.jpg").read_bytes()


def test_counts_and_splits(devkit: Path) -> None:
    main = devkit / "ImageSets" / "Main"
    ids = {split: (main / f"{split}.txt").read_text().split() for split in ("train", "val", "trainval", "test")}
    assert [len(ids[split]) for split in ("train", "val", "trainval", "test")] == [16, 4, TRAIN, TEST]
    assert sorted(ids["train"] + ids["val"]) == ids["trainval"]
    assert not set(ids["trainval"]) & set(ids["test"])
    everything = sorted(ids["trainval"] + ids["test"])
    assert sorted(file.stem for file in (devkit / "JPEGImages").iterdir()) == everything
    assert sorted(file.stem for file in (devkit / "Annotations").iterdir()) == everything


def test_class_lists_agree_with_the_annotations(devkit: Path) -> None:
    marks = set()
    for split in ("train", "val", "trainval", "test"):
        for name in CLASSES:
            for line in (devkit / "ImageSets" / "Main" / f"{name}_{split}.txt").read_text().splitlines():
                image, mark = line[:6], line[6:]
                root = ElementTree.parse(devkit / "Annotations" / f"{image}.xml").getroot()
                hard = [o.findtext("difficult") == "1" for o in root.iter("object") if o.findtext("name") == name]
                assert mark == (" -1" if not hard else "  0" if all(hard) else "  1")
                marks.add(mark)
    assert marks >= {" -1", "  1"}


def test_annotations_tell_the_size_and_boxes_lie_inside(devkit: Path) -> None:
    for file in (devkit / "Annotations").iterdir():
        root = ElementTree.parse(file).getroot()
        width, height = (int(root.findtext(f"size/{side}") or 0) for side in ("width", "height"))
        with Image.open(devkit / "JPEGImages" / f"{file.stem}.jpg") as image:
            assert image.size == (width, height)
        for box in root.iter("bndbox"):
            xmin, ymin, xmax, ymax = (int(box.findtext(side) or 0) for side in ("xmin", "ymin", "xmax", "ymax"))
            assert 1 <= xmin < xmax <= width
            assert 1 <= ymin < ymax <= height


def test_our_own_reader_finds_what_was_drawn(devkit: Path) -> None:
    dataset, truth = open_dataset(devkit, "test"), open_ground_truth(devkit, "test")
    assert dataset.classes == tuple(CLASSES)
    assert truth is not None
    _, picture = demo._Order(3, TRAIN, TEST, "").picture(TRAIN)
    first = truth.subset([dataset.ids[0]])
    assert [tuple(box) for box in first.boxes.tolist()] == [thing.box for thing in picture.things]
    assert [truth.classes[label] for label in first.labels] == [thing.name for thing in picture.things]


# ---- written whole or not at all


def stop_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(range(count))

    def draw(rng: np.random.Generator) -> Picture:
        if next(drawn, None) is None:
            raise KeyboardInterrupt
        return draw_picture(rng)

    monkeypatch.setattr(demo, "draw_picture", draw)


def test_an_interruption_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_after(3, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        draw_demo(tmp_path, train=5, test=1)
    assert list((tmp_path / "VOCdevkit").iterdir()) == []


def test_an_interruption_leaves_the_earlier_devkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = all_bytes(draw_demo(tmp_path, seed=1, train=2, test=1))
    stop_after(1, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        draw_demo(tmp_path, seed=2, train=2, test=1)
    assert all_bytes(tmp_path / "VOCdevkit" / "VOC2007") == before


def test_the_same_order_is_not_drawn_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devkit = draw_demo(tmp_path, seed=1, train=2, test=1)
    stop_after(0, monkeypatch)
    assert draw_demo(tmp_path, seed=1, train=2, test=1) == devkit


def test_another_order_takes_the_place_of_the_first(tmp_path: Path) -> None:
    draw_demo(tmp_path, seed=1, train=3, test=1)
    devkit = draw_demo(tmp_path, seed=2, train=1, test=1)
    assert json.loads((devkit / demo.STAMP).read_text())["seed"] == 2
    assert len(list((devkit / "JPEGImages").iterdir())) == 2
    assert [folder.name for folder in (tmp_path / "VOCdevkit").iterdir()] == ["VOC2007"]


def test_a_devkit_of_someone_else_is_not_touched(tmp_path: Path) -> None:
    theirs = tmp_path / "VOCdevkit" / "VOC2007" / "JPEGImages" / "000005.jpg"
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"theirs")
    with pytest.raises(InputError, match="drawn earlier"):
        draw_demo(tmp_path, train=1, test=1)
    assert theirs.read_bytes() == b"theirs"


def test_impossible_orders_are_refused(tmp_path: Path) -> None:
    for order in ({"seed": -1}, {"train": 0}, {"test": -1}):
        with pytest.raises(InputError, match="expected seed"):
            draw_demo(tmp_path, **order)


def test_ticks_count_up_to_the_total(tmp_path: Path) -> None:
    ticks: list[tuple[int, int]] = []
    draw_demo(tmp_path, train=2, test=1, tick=lambda done, total: ticks.append((done, total)))
    assert ticks == [(1, 3), (2, 3), (3, 3)]


# ---- what is in the pictures


def test_boxes_are_tight_around_what_can_be_seen(pictures: list[Picture]) -> None:
    for thing in (thing for picture in pictures for thing in picture.things):
        x0, y0, x1, y1 = thing.box
        inside = thing.visible[y0:y1, x0:x1]
        assert np.count_nonzero(inside) == np.count_nonzero(thing.visible)
        assert all(edge.any() for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))


def test_boxes_fit_the_painted_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """All things are painted magenta, which nothing else is: where magenta is seen, there the mask and the box are."""

    def in_magenta(drawing: Drawing) -> Drawing:
        return lambda rng, paints: [replace(patch, colour=(255, 0, 255)) for patch in drawing(rng, paints)]

    monkeypatch.setattr(demo_picture, "CLASSES", {name: in_magenta(drawing) for name, drawing in CLASSES.items()})
    alone = [picture for picture in map(draw_picture, map(generator, range(30))) if len(picture.things) == 1]
    assert len(alone) > 5
    for picture in alone:
        red, green, blue = picture.pixels.astype(float).transpose(2, 0, 1)
        magenta = (np.minimum(red, blue) > 60) & (green < 0.4 * np.minimum(red, blue))
        (thing,) = picture.things
        assert np.count_nonzero(magenta ^ thing.visible) < 0.08 * np.count_nonzero(thing.visible)  # smooth edges
        rows, columns = (np.flatnonzero(magenta.any(axis=axis)) for axis in (1, 0))
        assert thing.box == pytest.approx((columns[0], rows[0], columns[-1] + 1, rows[-1] + 1), abs=1)


def test_sizes_are_in_range(pictures: list[Picture]) -> None:
    for picture in pictures:
        assert min(picture.pixels.shape[:2]) == SHORT_SIDE
        assert 1 <= len(picture.things) <= 3
    whole = [t for picture in pictures for t in picture.things if not t.truncated and not t.occluded]
    shares = [max(t.box[2] - t.box[0], t.box[3] - t.box[1]) / SHORT_SIDE for t in whole]
    assert SMALLEST - 0.01 <= min(shares) <= 0.3
    assert 0.55 <= max(shares) <= LARGEST + 0.01


def test_some_are_occluded_some_truncated_few_difficult(pictures: list[Picture]) -> None:
    things = [thing for picture in pictures for thing in picture.things]
    assert 0.1 < np.mean([thing.occluded for thing in things]) < 0.4
    assert 0.03 < np.mean([thing.truncated for thing in things]) < 0.25
    assert 0 < np.mean([thing.difficult for thing in things]) < 0.08
    assert all(thing.occluded for thing in things if thing.difficult)


def test_no_picture_is_without_a_sure_tag(pictures: list[Picture]) -> None:
    assert all(any(not thing.difficult for thing in picture.things) for picture in pictures)


def test_every_class_is_in_many_training_images_and_comes_alone_too() -> None:
    picks = [pick_classes(generator(i)) for i in range(600)]
    shown = np.array([[name in pick for name in CLASSES] for pick in picks])
    assert (shown.mean(axis=0) > 0.2).all()
    assert np.abs(np.corrcoef(shown.T) - np.eye(len(CLASSES))).max() < 0.3  # no class comes in another's company


def test_every_class_is_drawn_in_the_pictures(pictures: list[Picture]) -> None:
    for name in CLASSES:
        assert np.mean([any(thing.name == name for thing in picture.things) for picture in pictures]) >= 0.15


def test_colour_does_not_give_the_class_away(pictures: list[Picture]) -> None:
    """By nearest class mean of average colour and of colour histogram, scored on the things the means are from."""
    names = np.array([thing.name for picture in pictures for thing in picture.things])
    pixels = [picture.pixels[thing.visible] for picture in pictures for thing in picture.things]
    average = np.array([p.mean(axis=0) for p in pixels])
    histogram = np.array([np.bincount((p // 64) @ [1, 4, 16], minlength=64) / len(p) for p in pixels])
    for features in (average, histogram):
        means = np.array([features[names == name].mean(axis=0) for name in CLASSES])
        nearest = np.linalg.norm(features[:, None] - means, axis=2).argmin(axis=1)
        assert np.mean(np.array(list(CLASSES))[nearest] == names) < 0.6


@pytest.mark.parametrize("name", CLASSES)
def test_the_striking_part_is_small_but_there(name: str) -> None:
    for index in range(5):
        thing = render(CLASSES[name](generator(index), Paints(PALETTE[0], PALETTE[2], PALETTE[8])), 120)
        part, whole = (
            np.prod([np.ptp(places) + 1 for places in np.nonzero(mask)]) for mask in (thing.telling, thing.mask)
        )
        assert 0.04 < part / whole < 0.25


def test_there_is_a_colour_for_every_ground() -> None:
    rng = generator(0)
    for ground in np.stack(np.meshgrid(*[range(0, 256, 51)] * 3), axis=-1).reshape(-1, 3).tolist():
        _paints_against(rng, tuple(ground))
