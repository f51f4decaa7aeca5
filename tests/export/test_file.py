"""What the file says of itself."""

import json
from pathlib import Path

import pytest

import tag2box
from tag2box.config import recipe_from_values
from tag2box.export.check import open_session
from tag2box.export.file import write_onnx

onnx = pytest.importorskip("onnx")
for package in ("onnxscript", "onnxruntime"):
    pytest.importorskip(package)


@pytest.fixture(scope="module")
def session(file):
    return open_session(str(file))


@pytest.fixture(scope="module")
def about(session):
    return session.get_modelmeta().custom_metadata_map


def test_classes_recipe_and_licence(about, detector):
    assert json.loads(about["classes"]) == ["owl", "crème <brûlée>", "kite"]
    assert recipe_from_values(json.loads(about["recipe"]), "the file") == detector.recipe
    assert "Apache-2.0" in about["licence"]
    assert about["format"] == "tag2box onnx 1"


def test_how_pictures_and_proposals_are_given(about):
    words = about["preprocessing"]
    for part in ("RGB, uint8 [height, width, 3]", "short side 64, no side above 150", "first 200", "--preset fast"):
        assert part in words


def test_what_goes_in_and_comes_out(session):
    assert [(one.name, one.type, one.shape) for one in session.get_inputs()] == [
        ("image", "tensor(uint8)", ["height", "width", 3]),
        ("proposals", "tensor(float)", ["B", 4]),
    ]
    assert [(one.name, one.type, one.shape) for one in session.get_overridable_initializers()] == [
        ("score", "tensor(float)", []),
        ("nms", "tensor(float)", []),
        ("max_detections", "tensor(int64)", []),
    ]
    assert [(one.name, one.type, one.shape) for one in session.get_outputs()] == [
        ("boxes", "tensor(float)", ["D", 4]),
        ("scores", "tensor(float)", ["D"]),
        ("labels", "tensor(int64)", ["D"]),
    ]


def test_the_model_as_a_viewer_shows_it(file):
    model = onnx.load(file)
    assert (model.producer_name, model.producer_version) == ("tag2box", tag2box.__version__)
    assert all(value.doc_string for value in (*model.graph.input, *model.graph.output))
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    assert weights["net/trunk.body.stem.0.weight"].data_type == onnx.TensorProto.FLOAT


def test_nothing_of_the_machine_is_in_it(file):
    content = file.read_bytes()
    for word in (b"site-packages", b".py", b"torch.onnx", str(Path.home()).encode() + b"/"):
        assert word not in content


def test_equal_detectors_give_equal_files(detector, file, tmp_path):
    write_onnx(tmp_path / "again.onnx", detector, detector.settings())
    assert (tmp_path / "again.onnx").read_bytes() == file.read_bytes()
