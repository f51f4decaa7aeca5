"""A detector that learns to propose: from a run to a file that looks at pictures alone."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import tag2box
from tag2box.cli import main
from tag2box.config import load_recipe
from tag2box.data.records import Dataset, TaggedImage
from tag2box.detector import Detector, build_prediction_net, load_detector, save_detector
from tag2box.engine.proposing import learn_to_propose
from tag2box.errors import InputError
from tag2box.nets.proposer import NUMBER, Proposer
from tag2box.overlap import pair_iou
from tag2box.proposals.store import write_store

CAT, DOG = ("cat", (11, 11, 60, 60)), ("dog", (21, 21, 90, 70))
BOXES = np.array([[10, 10, 60, 60], [20, 20, 90, 70], [0, 0, 100, 80], [70, 0, 100, 30]], dtype=np.int16)
CLASSES = ["cat", "dog"]


pytestmark = pytest.mark.usefixtures("one_thread")


def make_recipe(**more):
    small = {"backbone.weights": "none", "head.width": 8, "data.scales": 64, "inference.scales": 64}
    return load_recipe("demo", {**small, "data.max_proposals": 4, **more})


def make_detector(recipe):
    torch.manual_seed(0)
    net = build_prediction_net(recipe, len(CLASSES))
    torch.nn.init.normal_(net.predictor.scores.weight, std=0.5)
    return Detector(net=net, recipe=recipe, classes=CLASSES, device="cpu")


@pytest.fixture
def run(tmp_path):
    detector = make_detector(make_recipe())
    (tmp_path / "run" / "weights").mkdir(parents=True)
    save_detector(tmp_path / "run" / "weights" / "best.safetensors", detector.net, detector.recipe, CLASSES)
    return tmp_path / "run"


@pytest.fixture
def photos(make_devkit):
    objects = {"a": [CAT], "b": [CAT, DOG], "c": [DOG]}
    return make_devkit(objects, {"test": list(objects)})


@pytest.fixture
def words(run, photos, tmp_path):
    path = tmp_path / "store.safetensors"
    write_store(path, ["a", "b", "c"], [(100, 80)] * 3, {}, [4, 4, 4], [BOXES] * 3)
    return [str(run), str(photos), "--split", "test", "--proposals", str(path)]


def test_a_detector_without_a_map_cannot_propose(words, run, capsys):
    detector = make_detector(
        make_recipe(**{"backbone.name": "mobilenet_v3_small", "head.kind": "cut", "head.pixels": 32})
    )
    save_detector(run / "weights" / "best.safetensors", detector.net, detector.recipe, CLASSES)
    assert main(["rpn", *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "expected a detector that proposes from a map" in said
    assert not (run / "weights" / "rpn.safetensors").exists()


def test_from_a_run_to_a_file_that_needs_no_search(words, run, photos, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tag2box.engine.proposing.learn_to_propose.__kwdefaults__", {"epochs": 1, "least_steps": 2})
    before = (run / "weights" / "best.safetensors").read_bytes()
    assert main(["rpn", *words, "--epochs", "0.5"]) == 0
    said = capsys.readouterr().out
    file = run / "weights" / "rpn.safetensors"
    assert "learnt from" in said
    assert "its proposals reach" in said
    assert str(file) in said.replace("\n", "")
    assert (run / "weights" / "best.safetensors").read_bytes() == before

    def no_search(*_):
        pytest.fail("it proposes itself")

    monkeypatch.setattr("tag2box.pipeline.selective_search", no_search)
    monkeypatch.setattr("tag2box.detector.selective_search", no_search)
    monkeypatch.setattr("tag2box.commands.parts.compute_proposals", no_search)
    picture = next((photos / "JPEGImages").iterdir())
    out = tmp_path / "out"
    assert main(["predict", str(file), str(picture), "--out", str(out), "--score", "0"]) == 0
    assert "waiting for pictures" in capsys.readouterr().out.replace("\n", " ")
    found = json.loads((out / "predictions.json").read_text())
    assert found
    same = tag2box.load(file).predict(picture, score=0.0)
    assert [one["score"] for one in found] == pytest.approx(same.scores.tolist(), abs=1e-4)
    assert main(["evaluate", str(file), str(photos), "--split", "test"]) == 0
    assert "mean" in capsys.readouterr().out
    assert main(["evaluate", str(file), str(photos), "--split", "test", "--proposals", str(tmp_path / "none")]) == 2
    assert "none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--epochs", "0"], "expected --epochs of more than 0, found 0"),
        (["--out", "{run}/weights/best.safetensors"], None),
    ],
)
def test_wrong_command_lines(more, expected, words, run, capsys):
    more = [word.format(run=run) for word in more]
    if expected is None:  # the detector's own file, also where that is RUN
        expected = "expected another file than those of the run"
        assert main(["rpn", more[1], *words[1:], *more]) == 2
        assert expected in capsys.readouterr().err
        before = (run / "weights" / "best.safetensors").read_bytes()
    assert main(["rpn", *words, *more]) == 2
    assert expected in capsys.readouterr().err
    if "--out" in more:
        assert (run / "weights" / "best.safetensors").read_bytes() == before


def test_it_learns_where_things_are(tmp_path):
    """Bright squares on noise: its first proposals are on them, in pictures that it has not seen."""
    rng = np.random.default_rng(0)
    images, boxes = [], []
    for number in range(24):
        pixels = rng.integers(0, 60, (96, 128, 3), dtype=np.uint8)
        x, y, side = int(rng.integers(0, 80)), int(rng.integers(0, 48)), int(rng.integers(24, 48))
        pixels[y : y + side, x : x + side] = (250, 60, 60)
        path = tmp_path / f"{number}.png"
        Image.fromarray(pixels).save(path)
        images.append(TaggedImage(path.stem, path, (128, 96), ("cat",)))
        boxes.append(torch.tensor([[x, y, min(x + side, 128), min(y + side, 96)]]).float())
    detector = make_detector(make_recipe(**{"data.scales": "64,96", "inference.scales": 96}))
    learn_to_propose(detector, Dataset(tuple(CLASSES), tuple(images[:16])), boxes[:16], epochs=1, least_steps=150)
    assert detector.proposes
    overlaps = []
    for image, wanted in zip(images[16:], boxes[16:], strict=True):
        found = torch.from_numpy(detector.propose(np.array(Image.open(image.path))))
        assert 0 < len(found) <= NUMBER
        assert (found[:, 2:] > found[:, :2]).all()
        assert (found >= 0).all()
        assert (found <= torch.tensor([128.5, 96.5, 128.5, 96.5])).all()
        overlaps.append(pair_iou(found[:10], wanted).max().item())
    assert np.mean(overlaps) > 0.6, overlaps


def test_pictures_of_a_step_are_looked_at_together(tmp_path, save_picture, monkeypatch):
    """At one scale, lying and standing ones on one canvas; with many pictures more than two of them."""
    monkeypatch.setattr("tag2box.engine.proposing.MOST_STEPS", 4)
    sizes = [(60, 40), (40, 60)] * 6
    images = [
        TaggedImage(str(n), save_picture(tmp_path / f"{n}.png", size=size), size, ("cat",))
        for n, size in enumerate(sizes)
    ]
    detector = make_detector(make_recipe(**{"data.scales": "48,64"}))
    seen, features = [], detector.net.trunk.features
    monkeypatch.setattr(detector.net.trunk, "features", lambda pixels: seen.append(pixels.shape) or features(pixels))
    boxes = [torch.tensor([[5.0, 5.0, 30.0, 30.0]])] * 11 + [torch.zeros(0, 4)]  # in one nothing was found
    learn_to_propose(detector, Dataset(tuple(CLASSES), tuple(images)), boxes, epochs=1, least_steps=1)
    assert [shape[0] for shape in seen] == [3, 3, 3, 3]
    assert {min(shape[2:]) for shape in seen} <= {48, 64, 72, 96}
    assert detector.proposes
    with pytest.raises(InputError, match="expected a detector that is given proposals, found one that proposes"):
        detector.look_at_most(10)


def test_the_file_says_whether_it_proposes(tmp_path):
    detector = make_detector(make_recipe())
    assert not detector.proposes
    detector.net.proposer = Proposer(channels=detector.net.trunk.channels, stride=detector.net.trunk.stride)
    save_detector(tmp_path / "rpn.safetensors", detector.net, detector.recipe, CLASSES)
    again = load_detector(tmp_path / "rpn.safetensors", "cpu")
    assert again.proposes
    pixels = np.random.default_rng(0).integers(0, 256, (70, 90, 3), dtype=np.uint8)
    assert 0 < len(again.propose(pixels)) <= NUMBER
    assert len(again.predict(pixels, proposals=BOXES, score=0.0))  # others' proposals will do too


@pytest.mark.parametrize("tta", [False, True])
def test_the_map_is_computed_once_and_nothing_changes(tta, monkeypatch):
    detector = make_detector(make_recipe(**{"data.scales": "48,64", "data.max_proposals": 40}))
    trunk = detector.net.trunk
    detector.net.proposer = Proposer(channels=trunk.channels, stride=trunk.stride).eval()
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (70, 90, 3), dtype=np.uint8) for _ in range(3)]
    given = [detector.propose(pixels) for pixels in pictures]
    seen, features = [], trunk.features
    monkeypatch.setattr(trunk, "features", lambda pixels: seen.append(len(pixels)) or features(pixels))
    own = detector.predict(pictures, score=0.0, batch=3, tta=tta)
    assert seen == [3] * (4 if tta else 1)  # at two scales, each mirrored too
    if not tta:  # which proposes at another scale
        same = detector.predict(pictures, score=0.0, batch=3, proposals=given)
        np.testing.assert_allclose(own.boxes, same.boxes, atol=1e-3)
        np.testing.assert_allclose(own.scores, same.scores, atol=1e-5)


@pytest.mark.parametrize("tta", [False, True])
@pytest.mark.usefixtures("canvas_of_a_gpu")
def test_on_a_gpu_pictures_of_like_sizes_propose_together(tta):
    """Padded to one canvas there; of each it proposes within its own edges. A CPU takes the device's place."""
    detector = make_detector(make_recipe(**{"data.max_proposals": 40}))
    detector.net.proposer = Proposer(channels=detector.net.trunk.channels, stride=detector.net.trunk.stride).eval()
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (64, width, 3), dtype=np.uint8) for width in (66, 90, 120)]
    one, many = (detector.predict(pictures, score=0.0, batch=batch, tta=tta) for batch in (1, 3))
    assert np.array_equal(one.images, many.images)
    assert np.array_equal(one.labels, many.labels)
    np.testing.assert_allclose(many.boxes, one.boxes, atol=1e-3)
    widths = np.array([66, 90, 120])[many.images]
    assert (many.boxes[:, 2] <= widths).all()
    assert all(boxes[:, 2].max() <= pixels.shape[1] for pixels in pictures for boxes in [detector.propose(pixels)])
