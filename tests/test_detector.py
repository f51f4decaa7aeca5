"""The detector's file, and the detector at work on pictures of every kind."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file

import tag2box
from tag2box.config import load_recipe
from tag2box.data import open_dataset, read_image
from tag2box.detector import (
    Detector,
    build_prediction_net,
    detect_dataset,
    load_detector,
    pick_device,
    save_detector,
)
from tag2box.errors import InputError
from tag2box.pictures import as_pictures
from tag2box.proposals.store import ProposalStore, write_store

CLASSES = ["cat", "dog"]
BOXES = np.array([[2, 3, 30, 25], [10, 8, 60, 40], [0, 0, 64, 48]], dtype=np.int16)
RECIPE = load_recipe(
    "demo", {"backbone.weights": "none", "data.scales": "32,48", "inference.scales": "40", "head.width": 16}
)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    net = build_prediction_net(RECIPE, len(CLASSES))
    with torch.no_grad():  # larger than Fast R-CNN's first ones, so that proposals differ
        net.predictor.scores.weight.mul_(100)
        net.predictor.offsets.weight.mul_(100)
    return net


@pytest.fixture(scope="module")
def detector(net):
    return Detector(net=net, recipe=RECIPE, classes=CLASSES, device="cpu")


@pytest.fixture
def file(net, tmp_path):
    path = tmp_path / "best.safetensors"
    save_detector(path, net, RECIPE, CLASSES)
    return path


@pytest.fixture
def picture():
    return np.random.default_rng(1).integers(0, 256, (48, 64, 3), dtype=np.uint8)


# ---- the file


def test_all_of_it_is_in_one_file(file, detector, picture):
    loaded = load_detector(file, "cpu")
    assert loaded.classes == ("cat", "dog")
    assert loaded.recipe == RECIPE
    assert {value.dtype for value in loaded.net.state_dict().values()} == {torch.float32}
    before = detector.predict(picture, proposals=BOXES, score=0.0)
    after = loaded.predict(picture, proposals=BOXES, score=0.0)
    np.testing.assert_allclose(after.scores, before.scores, atol=2e-3)


def test_whole_precision_gives_the_same_numbers(net, detector, picture, tmp_path):
    save_detector(tmp_path / "whole.safetensors", net, RECIPE, CLASSES, half=False)
    after = load_detector(tmp_path / "whole.safetensors").predict(picture, proposals=BOXES, score=0.0)
    before = detector.predict(picture, proposals=BOXES, score=0.0)
    assert np.array_equal(after.scores, before.scores)
    assert np.array_equal(after.boxes, before.boxes)


def test_half_precision_for_matrices_that_bear_it(net, tmp_path):
    path = tmp_path / "half.safetensors"
    huge = build_prediction_net(RECIPE, 2)
    with torch.no_grad():
        huge.predictor.scores.weight[0, 0] = 1e6
    save_detector(path, huge, RECIPE, CLASSES)
    with safe_open(path, framework="pt") as saved:
        dtypes = {key: saved.get_tensor(key).dtype for key in saved.keys()}  # noqa: SIM118
    assert dtypes["head.fc6.weight"] == torch.float16
    assert dtypes["head.fc6.bias"] == torch.float32
    assert dtypes["predictor.scores.weight"] == torch.float32  # 1e6 is more than half precision holds


def test_what_the_file_says_of_itself(file):
    with safe_open(file, framework="pt") as saved:
        about = json.loads(saved.metadata()["tag2box"])
    assert about["classes"] == CLASSES
    assert about["version"] == tag2box.__version__
    assert about["recipe"]["backbone"]["name"] == "tiny"
    assert "Apache-2.0" in about["licence"]


def test_equal_nets_give_equal_files_and_loading_draws_nothing(net, file, tmp_path):
    save_detector(tmp_path / "again.safetensors", net, RECIPE, CLASSES)
    assert (tmp_path / "again.safetensors").read_bytes() == file.read_bytes()
    before = torch.get_rng_state()
    load_detector(file)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_failed_write_leaves_the_old_file(file, net, monkeypatch):
    old = file.read_bytes()

    def broken(tensors, path, metadata):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("tag2box.detector_file.save_file", broken)
    with pytest.raises(OSError, match="disk full"):
        save_detector(file, net, RECIPE, CLASSES)
    assert file.read_bytes() == old
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("content", [b"", b"not a safetensors file at all", b"\xff" * 64])
def test_another_file(content, tmp_path):
    (tmp_path / "x.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="expected a detector written by tag2box, found something else"):
        load_detector(tmp_path / "x.safetensors")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"tag2box": "{}"}, {"tag2box": '{"format": "other"}'}])
def test_safetensors_of_something_else(metadata, tmp_path):
    save_file({"x": torch.zeros(1)}, tmp_path / "x.safetensors", metadata=metadata)
    with pytest.raises(InputError, match="expected a detector written by tag2box"):
        load_detector(tmp_path / "x.safetensors")


def test_a_file_that_was_cut_off(file):
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(InputError, match="expected a detector written by tag2box"):
        load_detector(file)


def test_weights_that_do_not_fit_the_recipe(net, tmp_path):
    other = replace(RECIPE, head=replace(RECIPE.head, width=8))
    save_detector(tmp_path / "x.safetensors", net, other, CLASSES)
    with pytest.raises(InputError, match="expected the weights of tiny, found others") as caught:
        load_detector(tmp_path / "x.safetensors")
    assert "\n" not in str(caught.value)


def test_a_recipe_from_the_future(net, tmp_path):
    class Later:
        def as_dict(self):
            values = RECIPE.as_dict()
            return {**values, "telepathy": True, "rounds": {**values["rounds"], "hopes": 3}}

    save_detector(tmp_path / "x.safetensors", net, Later(), CLASSES)
    assert load_detector(tmp_path / "x.safetensors", "cpu").recipe == RECIPE


def test_others_may_read_the_file_as_any_other(file):
    (file.parent / "plain.txt").write_text("plain")
    assert file.stat().st_mode == (file.parent / "plain.txt").stat().st_mode


# ---- runs


def test_a_run_gives_its_best(net, tmp_path):
    (tmp_path / "weights").mkdir()
    with pytest.raises(InputError, match="expected a finished run, found no weights/best"):
        tag2box.load(tmp_path)
    save_detector(tmp_path / "weights" / "last.safetensors", net, RECIPE, ["last", "b"])
    assert tag2box.load(tmp_path).classes == ("last", "b")
    save_detector(tmp_path / "weights" / "best.safetensors", net, RECIPE, ["best", "b"])
    assert tag2box.load(str(tmp_path)).classes == ("best", "b")
    assert tag2box.load(tmp_path / "weights" / "last.safetensors").classes == ("last", "b")


def test_no_run(tmp_path):
    with pytest.raises(InputError, match="expected a run directory or a detector's file, found nothing at"):
        tag2box.load(tmp_path / "none")


@pytest.mark.parametrize("name", ["gpu", "meta", "cuda:99"])
def test_no_such_device(name):
    with pytest.raises(InputError, match="device: expected"):
        pick_device(name)


# ---- at work


def test_the_same_picture_in_every_form(detector, picture, tmp_path):
    Image.fromarray(picture).save(tmp_path / "photo.png")
    forms = [
        tmp_path / "photo.png",
        str(tmp_path / "photo.png"),
        Image.fromarray(picture),
        picture,
        torch.from_numpy(picture).permute(2, 0, 1),
    ]
    results = [detector.predict(form, proposals=BOXES, score=0.0) for form in forms]
    for found in results:
        assert len(found) > 0
        np.testing.assert_allclose(found.scores, results[0].scores, atol=1e-6)
        np.testing.assert_allclose(found.boxes, results[0].boxes, atol=1e-4)
    assert [found.ids for found in results] == [("photo",), ("photo",), ("0",), ("0",), ("0",)]
    many = detector.predict(forms, proposals=[BOXES] * 5, score=0.0)
    assert many.ids == (str(forms[0]), forms[1], "2", "3", "4")  # the stem would not tell the first two apart
    assert np.array_equal(many.images, np.repeat(np.arange(5), len(results[0])))
    stack = detector.predict(np.stack([picture, picture]), proposals=[BOXES] * 2, score=0.0)
    assert stack.ids == ("0", "1")


def test_numbers_of_other_kinds(picture):
    (wanted,) = [one.read() for one in as_pictures(picture)]
    floats = picture / 255
    tensor = torch.from_numpy(floats).permute(2, 0, 1)
    for form in (floats, floats.astype(np.float32), tensor, tensor.float(), picture[:, ::-1][:, ::-1]):
        (found,) = as_pictures(form)
        np.testing.assert_array_equal(found.read(), wanted)
    grey = picture[..., 0]
    for form in (grey, grey[..., None], torch.from_numpy(grey.copy()), torch.from_numpy(grey.copy())[None]):
        (found,) = as_pictures(form)
        np.testing.assert_array_equal(found.read(), np.repeat(grey[..., None], 3, axis=2))
    (found,) = as_pictures(tensor.bfloat16())
    assert np.abs(found.read().astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "L", "I;16", "CMYK"])
def test_in_python_a_picture_is_as_its_file_is_read(picture, tmp_path, mode):
    image = Image.fromarray(picture)
    if mode == "RGBA":
        image.putalpha(Image.fromarray(picture[..., 1]))
    elif mode == "I;16":
        image = Image.fromarray(picture[..., 0].astype(np.uint16) * 257)
    else:
        image = image.convert(mode)
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    image.save(path)
    with Image.open(path) as opened:
        file, mine = (one.read() for one in as_pictures([path, opened.copy()]))
    np.testing.assert_array_equal(mine, file)
    if mode == "RGBA":
        np.testing.assert_array_equal(as_pictures(np.asarray(image))[0].read(), file)


def test_more_or_fewer_proposals_than_in_training(detector, picture):
    detector.look_at_most(None)
    assert detector.recipe == RECIPE
    wanted = detector.predict(picture, proposals=BOXES[:2], score=0.0)
    detector.look_at_most(2)
    found = detector.predict(picture, proposals=BOXES, score=0.0)
    np.testing.assert_array_equal(found.boxes, wanted.boxes)
    with pytest.raises(InputError, match="max-proposals: expected 1 or more, found 0"):
        detector.look_at_most(0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"score": 2}, "score: expected a number between 0 and 1, found 2"),
        ({"score": "high"}, "score: expected .* found 'high'"),
        ({"score": None}, "score: expected .* found None"),
        ({"score": float("nan")}, "score: expected .* found nan"),
        ({"max_detections": 0}, "max_detections: expected 1 or more, found 0"),
        ({"max_detections": 2.5}, "max_detections: expected 1 or more, found 2.5"),
        ({"batch": -1}, "batch: expected 1 or more, found -1"),
    ],
)
def test_options_that_make_no_sense(detector, picture, options, words):
    with pytest.raises(InputError, match=words):
        detector.predict(picture, proposals=BOXES, **options)


def test_proposals_are_searched_for(detector):
    picture = np.zeros((48, 64, 3), dtype=np.uint8)
    picture[10:30, 20:50] = (250, 30, 30)
    found = detector.predict(picture, score=0.0)
    assert len(found) > 0
    assert found.classes == ("cat", "dog")


def test_score_and_number(detector, picture):
    everything = detector.predict(picture, proposals=BOXES, score=0.0)
    limit = float(np.median(everything.scores))
    assert (detector.predict(picture, proposals=BOXES, score=limit).scores >= limit - 1e-6).all()
    best = detector.predict(picture, proposals=BOXES, score=0.0, max_detections=1)
    assert best.scores.tolist() == [everything.scores.max()]


def test_tta_is_the_mean_of_views(detector, picture):
    """Of a single proposal of the whole picture: every view by hand."""
    whole = BOXES[2:]
    settings = detector.settings(tta=True)
    assert (settings.scales, settings.flip) == ((32, 48), True)
    views = [
        detector.detect(
            np.ascontiguousarray(pixels), whole, replace(settings, scales=(scale,), flip=False, min_score=0)
        )
        for pixels in (picture, picture[:, ::-1])
        for scale in (32, 48)
    ]
    mean = {c: np.mean([float(one.scores[one.labels == c][0]) for one in views]) for c in (0, 1)}
    found = detector.predict(picture, proposals=whole, score=0.0, tta=True)
    np.testing.assert_allclose(found.scores, [mean[c] for c in found.labels], atol=1e-5)


@pytest.mark.parametrize("tta", [False, True])
@pytest.mark.parametrize("batch", [2, 3, 50])
def test_a_batch_changes_nothing(detector, batch, tta):
    """Pictures of three shapes, some with the same size after resizing, one without proposals."""
    rng = np.random.default_rng(3)
    shapes = [(48, 64), (64, 48), (48, 64), (24, 32), (50, 50), (48, 64), (64, 48), (96, 128), (48, 64)]
    pictures = [rng.integers(0, 256, (*shape, 3), dtype=np.uint8) for shape in shapes]
    proposals = [BOXES[: 1 + place % 3] // (2 if place == 3 else 1) for place in range(len(shapes))]
    proposals[5] = BOXES[:0]
    one, many = (
        detector.predict(pictures, proposals=proposals, score=0.0, tta=tta, batch=number, workers=2)
        for number in (1, batch)
    )
    assert len(one) > 20
    assert 5 not in one.images
    assert np.array_equal(one.images, many.images)
    assert np.array_equal(one.labels, many.labels)
    np.testing.assert_allclose(many.scores, one.scores, atol=1e-5)
    np.testing.assert_allclose(many.boxes, one.boxes, atol=1e-3)


def test_pictures_go_through_the_net_together(detector, picture, monkeypatch):
    seen = []
    original = detector.net.trunk.features
    monkeypatch.setattr(detector.net.trunk, "features", lambda images: (seen.append(len(images)), original(images))[1])
    detector.predict([picture] * 5, proposals=[BOXES] * 5, batch=2)
    assert seen == [2, 2, 1]
    with pytest.raises(InputError, match="batch: expected 1 or more, found 0"):
        detector.predict(picture, proposals=BOXES, batch=0)


@pytest.mark.usefixtures("canvas_of_a_gpu")
def test_on_a_gpu_pictures_of_like_sizes_go_together(detector, monkeypatch):
    """They are padded to one canvas there. Which one is all that a device decides here, so a CPU can take its place."""
    rng = np.random.default_rng(1)
    pictures = [rng.integers(0, 256, (48, width, 3), dtype=np.uint8) for width in (60, 64, 62, 70)]
    seen, original = [], detector.net.trunk.features
    monkeypatch.setattr(detector.net.trunk, "features", lambda images: (seen.append(images.shape), original(images))[1])
    for tta in (False, True):
        one, many = (detector.predict(pictures, proposals=[BOXES] * 4, score=0.0, batch=b, tta=tta) for b in (1, 4))
        assert len(one) > 0
        assert np.array_equal(one.images, many.images)
        assert np.array_equal(one.labels, many.labels)
        np.testing.assert_allclose(many.scores, one.scores, atol=1e-5)
        np.testing.assert_allclose(many.boxes, one.boxes, atol=1e-3)
    assert any(shape[0] > 1 for shape in seen)
    assert all(side % 64 == 0 for shape in seen for side in shape[2:])


def test_workers_change_nothing(detector, save_picture, tmp_path):
    paths = [save_picture(tmp_path / f"{number}.png", (64, 48)) for number in range(6)]
    one, many = (detector.predict(paths, score=0.0, workers=workers) for workers in (1, 4))
    assert one.ids == many.ids == tuple("012345")
    assert np.array_equal(one.scores, many.scores)
    assert np.array_equal(one.boxes, many.boxes)


def test_a_broken_file_among_many(detector, save_picture, tmp_path):
    paths = [save_picture(tmp_path / f"{number}.png") for number in range(4)]
    paths[2].write_bytes(b"broken")
    with pytest.raises(InputError, match=r"cannot read the picture .*2\.png: not an image"):
        detector.predict(paths)


def test_no_proposals_no_pictures(detector, picture):
    assert len(detector.predict(picture, proposals=np.zeros((0, 4)), score=0.0)) == 0
    assert detector.predict([]).ids == ()


@pytest.mark.parametrize(
    ("image", "found"),
    [
        (np.zeros((8, 8, 2), dtype=np.uint8), r"uint8 \[8, 8, 2\]"),
        (np.zeros(8, dtype=np.uint8), r"uint8 \[8\]"),
        (np.full((8, 8, 3), 200.0), r"float64 \[8, 8, 3\] from 200 to 200"),
        (np.full((8, 8, 3), np.nan), r"from nan to nan"),
        (torch.full((3, 8, 8), -0.5), r"float32 \[3, 8, 8\] from -0.5 to -0.5"),
        (torch.zeros(8, 8, 3, dtype=torch.uint8), r"uint8 \[8, 8, 3\]"),  # channels come first
        (torch.zeros(3, 8, 8, dtype=torch.int64), r"int64 \[3, 8, 8\]"),
        (np.zeros((0, 8, 3), dtype=np.uint8), r"uint8 \[0, 8, 3\]"),
        ([3.5], "found float"),
    ],
)
def test_what_is_no_picture(detector, image, found):
    with pytest.raises(InputError, match=f"picture 0: expected .*{found}"):
        detector.predict(image)


def test_proposals_that_do_not_fit(detector, picture):
    with pytest.raises(InputError, match="proposals for each of 2 pictures, found them for 1"):
        detector.predict([picture, picture], proposals=[BOXES])
    with pytest.raises(InputError, match=r"expected boxes \[B, 4\], found shape \[3, 2\]"):
        detector.predict(picture, proposals=BOXES[:, :2])


def test_a_data_set(detector, make_devkit, tmp_path):
    year = make_devkit({"a": [("cat", (1, 1, 30, 30))], "b": [("dog", (1, 1, 30, 30))]})
    dataset = open_dataset(year)
    path = tmp_path / "store.safetensors"
    write_store(path, dataset.ids, [one.size for one in dataset], {}, [3, 0], [BOXES, BOXES[:0]])
    found = detect_dataset(detector, dataset, ProposalStore(path), best_of_each=True)
    single = detector.predict(dataset[0].path, proposals=BOXES, score=detector.recipe.inference.min_score)
    assert found.ids == ("a", "b")
    np.testing.assert_array_equal(found.scores, single.scores)
    assert set(found.images) == {0}
    assert set(found.labels) == {0, 1}


@pytest.fixture
def mixed(make_devkit, tmp_path):
    """Pictures of two sizes in turn, one of them without proposals."""
    dataset = open_dataset(make_devkit({id: [("cat", (1, 1, 30, 30))] for id in "abcdef"}))
    for image in dataset.images[::2]:
        Image.new("RGB", (70, 90), "navy").save(image.path)
    dataset = replace(
        dataset, images=tuple(replace(one, size=(70, 90)) if i % 2 == 0 else one for i, one in enumerate(dataset))
    )
    boxes = [BOXES[:count] for count in (1, 3, 2, 0, 3, 2)]
    path = tmp_path / "store.safetensors"
    write_store(path, dataset.ids, [one.size for one in dataset], {}, [*map(len, boxes)], boxes)
    return dataset, ProposalStore(path)


def assert_same(found, wanted):
    assert found.ids == wanted.ids
    np.testing.assert_array_equal(found.images, wanted.images)
    np.testing.assert_array_equal(found.labels, wanted.labels)
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-5)
    np.testing.assert_allclose(found.boxes, wanted.boxes, rtol=1e-4)


@pytest.mark.parametrize("remembers", [False, True])
def test_a_data_set_in_batches_of_one_size(detector, mixed, remembers):
    def recall(id, proposals):
        return None if id in "be" else torch.arange(2.0 * len(proposals)).view(-1, 2)

    detector.recipe = replace(detector.recipe, rounds=replace(detector.recipe.rounds, promise=1.0))
    how = {"best_of_each": True, "recall": recall if remembers else None}
    assert_same(detect_dataset(detector, *mixed, **how, batch=2), detect_dataset(detector, *mixed, **how, batch=1))


def test_a_data_set_s_pictures_are_found_by_their_names(detector, mixed, monkeypatch):
    """Whatever the order in which they are read: those of one size after the other."""
    dataset, store = mixed
    read, sizes = [], {one.path: one.size for one in dataset}
    monkeypatch.setattr("tag2box.detector.read_image", lambda path: read.append(sizes[path]) or read_image(path))
    monkeypatch.setattr("tag2box.detector.READERS", 1)
    found = detect_dataset(detector, dataset, store, batch=3)
    assert read == sorted(sizes.values())
    for number, one in enumerate(dataset):
        alone = detector.detect(read_image(one.path), store[one.id], detector.settings())
        own = found.take(found.images == number)
        np.testing.assert_array_equal(own.labels, alone.labels)
        np.testing.assert_allclose(own.boxes, alone.boxes, rtol=1e-4)


def test_pictures_that_do_not_fit_together_go_one_by_one(detector, mixed, monkeypatch):
    wanted = detect_dataset(detector, *mixed, batch=1)
    together, numbers = type(detector).detect_together, []

    def small(self, pictures, *rest, **options):
        numbers.append(len(pictures))
        if len(pictures) > 1:
            raise torch.OutOfMemoryError
        return together(self, pictures, *rest, **options)

    monkeypatch.setattr(type(detector), "detect_together", small)
    assert_same(detect_dataset(detector, *mixed, batch=3), wanted)
    assert numbers == [3, 1, 1, 1, 3, 1, 1, 1]
