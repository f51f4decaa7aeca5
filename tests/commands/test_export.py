"""`tag2box export` as it is used, and the page on deployment."""

import contextlib
import io
import re
from pathlib import Path

import pytest
import torch

from tag2box.cli import main
from tag2box.config import load_recipe
from tag2box.detector import build_prediction_net, save_detector
from tag2box.export.check import Comparison

onnx = pytest.importorskip("onnx")
for package in ("onnxscript", "onnxruntime"):
    pytest.importorskip(package)

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"
CLASSES = ["owl", "pie"]


def make_run(folder, **fields):
    """A run directory with a detector of random weights: the demo's recipe, smaller, but for these fields."""
    small = {"backbone.weights": "none", "head.width": 16, "inference.scales": "64"}
    recipe = load_recipe("demo", small | {name.replace("__", "."): value for name, value in fields.items()})
    torch.manual_seed(0)
    net = build_prediction_net(recipe, len(CLASSES))
    with torch.no_grad():
        net.predictor.scores.weight.mul_(20)
    (folder / "weights").mkdir(parents=True)
    save_detector(folder / "weights" / "best.safetensors", net, recipe, CLASSES)
    return folder


@pytest.fixture(autouse=True, scope="module")
def _little_work():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tag2box.commands.export.SAMPLES", 3)
        yield


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A run exported as it comes, and what was said."""
    run, out = make_run(tmp_path_factory.mktemp("export") / "run"), io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["export", str(run)]) == 0
    return run, out.getvalue()


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run")


@pytest.fixture
def no_net(monkeypatch):
    """`no_net(wrong)`: a file without a net, and whatever is said of it; for what the command does around."""

    def replaced(wrong=""):
        found = Comparison(2, pictures=3, detections=50, same=49, torch_seconds=0.6, onnx_seconds=0.3, wrong=wrong)
        monkeypatch.setattr("tag2box.export.file.write_onnx", lambda path, detector, settings: path.write_bytes(b"new"))
        monkeypatch.setattr("tag2box.export.check.compare", lambda *_: found)
        monkeypatch.setattr("tag2box.export.samples.drawn_samples", lambda *_: ["a picture"])

    return replaced


def test_it_says_how_well_and_how_fast(exported):
    run, said = exported
    compared, speed, file = said.splitlines()
    assert re.fullmatch(
        r"compared on 3 pictures: \d+ detections, all the same; boxes differ by at most \S+ pixels, scores by \S+",
        compared,
    )
    assert re.fullmatch(r"PyTorch \S+ ms a picture, onnxruntime \S+ ms: \S+ times as fast, on \d+ threads?", speed)
    assert re.fullmatch(rf"{re.escape(str(run))}/weights/detector.onnx: \S+ MB, classes owl, pie", file)
    assert sorted(path.name for path in (run / "weights").iterdir()) == ["best.safetensors", "detector.onnx"]


def test_the_page_on_deployment(exported, tmp_path, monkeypatch, save_picture, capsys):
    """Every Python block of it, one after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "detector.onnx").write_bytes((exported[0] / "weights" / "detector.onnx").read_bytes())
    save_picture(tmp_path / "photo.jpg", (120, 90))
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 4
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert "RGB" in capsys.readouterr().out
    assert names["classes"] == CLASSES
    assert 1 <= len(names["found"]) <= 5
    for name, score, (x0, y0, x1, y1) in names["found"]:
        assert name in CLASSES
        assert 0.3 <= score <= 1
        assert 0 <= x0 < x1 <= 120
        assert 0 <= y0 < y1 <= 90
    assert len(names["detect"](names["image"], names["proposals"], score=0.01)) > len(names["found"])


def test_thresholds_scale_and_proposals_are_in_the_file(run, tmp_path):
    given = "--score 0.25 --nms 0.5 --max-detections 7 --scale 80 --max-proposals 99 --no-check"
    assert main(["export", str(run), "--out", str(tmp_path / "new" / "a.onnx"), *given.split()]) == 0
    model = onnx.load(tmp_path / "new" / "a.onnx")
    values = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    names = ("score", "nms", "max_detections", "short_side", "max_proposals")
    assert [values[name].item() for name in names] == [0.25, 0.5, 7, 80, 99]
    assert "the first 99 are used" in {one.key: one.value for one in model.metadata_props}["preprocessing"]


def test_compared_on_a_data_set(run, no_net, monkeypatch, save_picture, tmp_path, capsys):
    no_net()
    compared = []
    monkeypatch.setattr("tag2box.export.check.compare", lambda *given: compared.extend(given) or Comparison(1, 1, 1, 1))
    for number in range(4):
        save_picture(tmp_path / "photos" / "owl" / f"{number}.png", (40, 30))
    monkeypatch.setattr("tag2box.commands.export._report", lambda console, found: None)
    assert main(["export", str(run), "--check", str(tmp_path / "photos"), "--score", "0.9", "--nms", "0.4"]) == 0
    _, detector, samples, settings = compared
    assert [sample.name for sample in samples] == ["0", "2", "3"]
    assert (settings.min_score, settings.nms) == (detector.recipe.inference.min_score, 0.4)


def test_a_detection_on_the_edge_is_told(run, no_net, capsys):
    no_net()
    assert main(["export", str(run)]) == 0
    out = capsys.readouterr().out
    assert "50 detections, 49 the same, others on a threshold's edge; boxes differ" in out
    assert "PyTorch 200.0 ms a picture, onnxruntime 100.0 ms: 2.0 times as fast, on 2 threads" in out


def test_a_single_file_has_its_export_beside_it(run, no_net):
    no_net()
    assert main(["export", str(run / "weights" / "best.safetensors")]) == 0
    assert (run / "weights" / "best.onnx").read_bytes() == b"new"


def test_what_does_not_agree_is_not_kept(run, no_net, capsys):
    no_net("on drawn picture 2 (90×60) a box differs by 3 pixels and a score by 0.2")
    weights = run / "weights"
    for old in (None, b"old"):
        if old:
            (weights / "detector.onnx").write_bytes(old)
        before = {path.name: path.read_bytes() for path in weights.iterdir()}
        assert main(["export", str(run)]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err == (
            "tag2box: the exported model does not agree with PyTorch, so it is not kept: "
            "on drawn picture 2 (90×60) a box differs by 3 pixels and a score by 0.2\n"
        )
        assert {path.name: path.read_bytes() for path in weights.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--format onx", "expected a format (onnx), found 'onx'; did you mean 'onnx'?"),
        ("--check photos --no-check", "expected --check DATA or --no-check, found both"),
        ("--split test", "expected --split with --check DATA only, found it without"),
        ("--check nowhere", "nowhere does not exist"),
        ("--out best.safetensors", "expected --out with the name of an .onnx file, found best.safetensors"),
        ("--score 30", "expected --score between 0 and 1, found 30"),
        ("--nms -1", "expected --nms between 0 and 1, found -1"),
        ("--max-detections 0", "expected --max-detections of 1 or more, found 0"),
        ("--max-proposals 0", "max-proposals: expected 1 or more, found 0"),
        ("--scale 0", "expected --scale of 1 or more, found 0"),
    ],
)
def test_wrong_options(arguments, words, run, capsys, monkeypatch):
    monkeypatch.chdir(run)
    before = sorted(run.rglob("*"))
    assert main(["export", str(run), *arguments.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert words in err
    assert sorted(run.rglob("*")) == before


def test_a_recipe_of_several_scales_needs_one(tmp_path, no_net, capsys):
    no_net()
    run = make_run(tmp_path / "run", inference__scales="64,96", inference__flip="true")
    assert main(["export", str(run)]) == 2
    assert "expected --scale N, found none, and 64, 96 in the recipe" in capsys.readouterr().err
    assert main(["export", str(run), "--scale", "64"]) == 0


def test_no_run(tmp_path, capsys):
    assert main(["export", str(tmp_path / "none")]) == 2
    assert "found nothing at" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_package_that_is_missing(package, run, monkeypatch, capsys, no_net):
    no_net()
    monkeypatch.setattr("tag2box.errors.find_spec", lambda name: None if name == package else name)
    assert main(["export", str(run)]) == 2
    how = "pip install 'tag2box[export]', or '.[export]' in the folder of tag2box"
    expected = f"tag2box: expected the package {package}, found none: {how}\n"
    assert capsys.readouterr().err == expected
    assert (main(["export", str(run), "--no-check"]) == 0) == (package == "onnxruntime")
