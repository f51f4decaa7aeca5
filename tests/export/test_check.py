"""The comparison finds what is wrong with a file, and nothing else."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from tag2box.export.check import Sample, compare, differences
from tag2box.export.samples import dataset_samples, drawn_samples
from tag2box.proposals.selective_search import selective_search

onnx = pytest.importorskip("onnx")
for package in ("onnxscript", "onnxruntime"):
    pytest.importorskip(package)


@pytest.fixture
def samples(draw):
    return [Sample(f"{width}", *draw(width, height)) for width, height in ((96, 64), (150, 110), (33, 60))]


def tampered(file, tmp_path, change):
    model = onnx.load(file)
    change(model.graph)
    onnx.save(model, tmp_path / "tampered.onnx")
    return tmp_path / "tampered.onnx"


def test_a_good_file(file, detector, samples):
    found = compare(file, detector, samples, detector.settings())
    assert found.wrong == ""
    assert found.pictures == 3
    assert found.detections == found.same > 30
    assert found.extra == 0
    assert 0 < found.worst_box < 0.01
    assert 0 < found.worst_score < 1e-4
    assert min(found.torch_seconds, found.onnx_seconds) > 0
    assert found.threads == 1


def _weight(name, shift):
    def change(graph):
        (tensor,) = (one for one in graph.initializer if one.name == f"net/predictor.{name}.weight")
        values = onnx.numpy_helper.to_array(tensor)
        values = values + shift * np.random.default_rng(0).normal(size=values.shape).astype(np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))

    return change


def _input(operator, place, name):
    """Another value in the place of the one that an operator takes."""

    def change(graph):
        (node,) = (one for one in graph.node if one.op_type == operator)
        node.input[place] = name

    return change


def _half_a_cell(graph):
    (node,) = (one for one in graph.node if one.op_type == "RoiAlign")
    (attribute,) = (one for one in node.attribute if one.name == "coordinate_transformation_mode")
    attribute.s = b"output_half_pixel"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_weight("scores", 0.05), "and a score by "),
        (_weight("offsets", 0.1), " pixels and a score by "),
        (_input("NonMaxSuppression", 3, "score"), "it keeps other detections of those it has found"),
        (_input("NonMaxSuppression", 4, "nms"), "it keeps other detections of those it has found"),
        (_half_a_cell, "and a score by "),
    ],
    ids=["scores", "boxes", "nms", "score", "pooling"],
)
def test_what_is_wrong_is_found(change, words, file, detector, samples, tmp_path):
    bad = tampered(file, tmp_path, change)
    found = compare(bad, detector, samples, replace(detector.settings(), min_score=0.05))
    assert found.wrong.startswith("on ")
    assert words in found.wrong
    assert "\n" not in found.wrong


# ---- pictures to compare on


def test_drawn_pictures_are_all_of_different_sizes():
    samples = drawn_samples(4, "fast")
    assert len({sample.pixels.shape for sample in samples}) == 4
    assert all(sample.pixels.dtype == np.uint8 and len(sample.proposals) > 10 for sample in samples)
    assert samples[0].name == "drawn picture 1"


def test_pictures_from_all_over_a_data_set(tmp_path, save_picture):
    for number in range(9):
        save_picture(tmp_path / "photos" / "cat" / f"{number}.png", (40, 30))
    names = [sample.name for sample in dataset_samples(3, "fast", tmp_path / "photos")]
    assert names == ["0", "4", "8"]
    assert len(dataset_samples(20, "fast", tmp_path / "photos")) == 9


# ---- differences


def test_the_nearest_of_the_class_counts():
    ours = [np.array([[0.0, 0, 10, 10]]), np.array([0.5]), np.array([1])]
    boxes = np.array([[0.0, 0, 10, 10], [0, 0, 10, 10.25], [50, 50, 60, 60]])
    theirs = [boxes, np.array([0.5, 0.5, 0.5]), np.array([0, 1, 1])]
    np.testing.assert_array_equal(differences(ours, theirs), [[0.25, 0]])
    np.testing.assert_array_equal(differences(ours, [boxes, theirs[1], np.array([0, 0, 2])]), [[np.inf, np.inf]])
    assert differences([np.zeros((0, 4)), np.zeros(0), np.zeros(0)], theirs).shape == (0, 2)


def test_proposals_leave_the_main_thread_to_ctrl_c(monkeypatch):
    threads = set()

    def search(*how):
        threads.add(threading.current_thread().name)
        return selective_search(*how)

    monkeypatch.setattr("tag2box.export.samples.selective_search", search)
    assert [sample.name for sample in drawn_samples(2, "fast")] == ["drawn picture 1", "drawn picture 2"]
    assert threading.main_thread().name not in threads
