"""The exported graph against `Detector.detect`: every trunk, both poolings, pictures and proposals of every kind."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tag2box.disco import offsets
from tag2box.export.check import Sample, compare, open_session, run
from tag2box.export.file import write_onnx
from tag2box.export.graph import detector_model
from tag2box.nets.backbone import Trunk
from tag2box.nets.efficientnet_lite import SameConv2d
from tag2box.nets.prediction import PredictionNet
from tag2box.nets.proposer import LEAST, Proposer
from tag2box.nets.roi_head import CHUNK, ConvHead

for package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package)

SIZES = [(96, 64), (64, 96), (97, 65), (131, 203), (640, 480), (61, 400), (33, 21), (1000, 300)]
"""Seen as they are, on their side, slightly and much smaller, held back by the longest side, larger."""


def exported(detector):
    return open_session(detector_model(detector.net, detector.recipe, detector.settings()).SerializeToString())


@pytest.fixture(scope="module")
def aligned(detector, file):
    return detector, open_session(str(file))


@pytest.fixture(scope="module")
def pooled(make_detector):
    detector = make_detector({"head.pooling": "max"})
    return detector, exported(detector)


@pytest.fixture(params=["aligned", "pooled"])
def both(request):
    return request.getfixturevalue(request.param)


def assert_same(both, pixels, proposals, *, least=1, **changes):
    """The same detections in the same order, from the file's own thresholds or from changed ones."""
    detector, session = both
    settings = replace(detector.settings(), **changes)
    ours = [part.numpy() for part in detector.detect(pixels, proposals, settings)]
    boxes, scores, labels = run(session, Sample("", pixels, proposals), settings if changes else None)
    assert (boxes.dtype, scores.dtype, labels.dtype) == (np.float32, np.float32, np.int64)
    assert boxes.shape == ours[0].shape
    np.testing.assert_allclose(scores, ours[1], atol=1e-4)
    np.testing.assert_array_equal(labels, ours[2])
    np.testing.assert_allclose(boxes, ours[0], atol=0.02)
    assert len(scores) >= least


@pytest.mark.parametrize(("parts", "landing"), [(0.5, False), (1.0, False), (0.5, True)])
def test_parts_are_dropped(make_detector, draw, parts, landing):
    """Two nets with the same weights, of which one drops parts."""
    both = {"inference.nms": 0.9, "inference.landing": landing}
    plain, strict = (make_detector({"inference.parts": share, **both}) for share in (0.0, parts))
    pixels, proposals = draw(131, 203)
    counts = [len(one.detect(pixels, proposals, one.settings()).scores) for one in (plain, strict)]
    assert counts[1] < counts[0]
    for one in (plain, strict):
        assert_same((one, exported(one)), pixels, proposals)
        assert_same((one, exported(one)), pixels, proposals, max_detections=3, least=3)
        assert_same((one, exported(one)), pixels, proposals[:0], least=0)


@pytest.mark.parametrize("landed", [200, 25])
def test_what_most_proposals_land_on_stays(make_detector, draw, landed, monkeypatch):
    """Two nets with the same weights, of which one goes by where boxes land; also where only some are compared."""
    for module in ("tag2box.inference", "tag2box.export.graph"):
        monkeypatch.setattr(f"{module}.LANDED", landed)
    plain, by_landing = (make_detector({"inference.landing": value}) for value in (False, True))
    pixels, proposals = draw(131, 203)
    ours = [one.detect(pixels, proposals, one.settings()).boxes.tolist() for one in (plain, by_landing)]
    assert sorted(ours[0]) != sorted(ours[1])
    both = by_landing, exported(by_landing)
    assert_same(both, pixels, proposals, least=5)
    assert_same(both, pixels, proposals, max_detections=3, least=3)
    assert_same(both, pixels, proposals, min_score=0.25, nms=0.5)
    assert_same(both, pixels, proposals[:1])
    assert_same(both, pixels, proposals[:0], least=0)


@pytest.mark.parametrize("size", SIZES)
def test_pictures_of_any_size(size, both, draw):
    assert_same(both, *draw(*size), least=5)


def test_the_detector_still_works_where_exporting_comes_first(detector, draw, tmp_path):
    before = detector.detect(*draw(50, 60), detector.settings())
    offsets._row.cache_clear()  # as in a process that has detected nothing yet
    write_onnx(tmp_path / "d.onnx", detector, detector.settings())
    for own, same in zip(detector.detect(*draw(50, 60), detector.settings()), before, strict=True):
        np.testing.assert_array_equal(own, same)


def test_one_proposal(both, draw):
    assert_same(both, *draw(120, 90, proposals=1))


def test_no_proposals(both, draw):
    pixels, _ = draw(120, 90)
    assert_same(both, pixels, np.zeros((0, 4)), least=0)
    boxes, scores, labels = run(both[1], Sample("", pixels, np.zeros((0, 4))))
    assert (boxes.shape, scores.shape, labels.shape) == ((0, 4), (0,), (0,))


def test_only_the_first_proposals_count(aligned, draw):
    pixels, proposals = draw(120, 90, proposals=300)
    assert aligned[0].recipe.looked_at == 200
    assert_same(aligned, pixels, proposals)
    first = run(aligned[1], Sample("", pixels, proposals[:200]))
    for some, all_ in zip(first, run(aligned[1], Sample("", pixels, proposals)), strict=True):
        np.testing.assert_array_equal(some, all_)


@pytest.mark.parametrize(
    "changes",
    [
        {"min_score": 0.2},
        {"min_score": 0.0},
        {"nms": 0.0},
        {"nms": 0.7},
        {"max_detections": 3},
        {"max_detections": 1000},
    ],
    ids=str,
)
def test_thresholds_at_run_time(changes, aligned, draw):
    assert_same(aligned, *draw(150, 110), **changes)


def test_nothing_reaches_the_score(both, draw):
    assert_same(both, *draw(96, 64), least=0, min_score=1.0)
    assert len(run(both[1], Sample("", *draw(96, 64)), replace(both[0].settings(), min_score=1.0))[0]) == 0


def test_a_score_that_is_just_reached(aligned, draw):
    """NonMaxSuppression would leave it out."""
    sample = Sample("", *draw(96, 64))
    score = float(run(aligned[1], sample)[1][4])
    scores = run(aligned[1], sample, replace(aligned[0].settings(), min_score=score))[1]
    assert scores.min() == np.float32(score)


def test_boxes_of_no_area_and_outside_the_picture(both, draw):
    pixels, proposals = draw(96, 64)
    proposals[::3, :2] += 300
    proposals[::3, 2:] += 300
    proposals[1::3, 2] = proposals[1::3, 0]
    assert_same(both, pixels, proposals, min_score=0.0)


def test_equals_stay_in_order(aligned, draw):
    """Of equal scores the earlier proposal comes first, then the lower class."""
    pixels, proposals = draw(96, 64, proposals=6)
    assert_same(aligned, pixels, np.repeat(proposals, 4, axis=0), least=60, nms=1.0, min_score=0.0)
    assert_same(aligned, pixels, np.repeat(proposals, 4, axis=0), nms=1.0, min_score=0.0, max_detections=10)


# ---- layers that need words of their own


@pytest.fixture(scope="module")
def padded(make_detector):
    """Padding of TensorFlow's kind in a trunk of stride 4, and in a head of convolutions."""
    body = nn.Sequential(
        SameConv2d(3, 8, 3, 2), nn.ReLU6(), SameConv2d(8, 8, 5, 2, bias=False), SameConv2d(8, 8, 3, dilation=2)
    )
    trunk = Trunk(body=body, channels=8, stride=4, mean=(120.0,) * 3, std=(60.0,) * 3)
    head = ConvHead(channels=8, layers=nn.Sequential(SameConv2d(8, 12, 3, 2), nn.ReLU()), dim=12, stride=4, size=3)
    net = PredictionNet(trunk=trunk, head=head, classes=3)
    detector = make_detector({"inference.scales": "66", "data.max_proposals": "3000"}, net=net)
    return detector, exported(detector)


@pytest.mark.parametrize("size", [(96, 66), (97, 66), (98, 66), (99, 66), (66, 97), (400, 149), (400, 151)])
def test_padding_that_depends_on_the_size(size, padded, draw):
    assert_same(padded, *draw(*size), least=5)


def test_more_proposals_than_a_head_takes_at_once(padded, draw):
    assert CHUNK < 2100
    assert_same(padded, *draw(96, 66, proposals=2100), nms=0.1)
    assert_same(padded, *draw(96, 66, proposals=1))


# ---- whole trunks


TRUNKS = [
    {"backbone.name": "vgg11"},
    {"backbone.name": "vgg11_bn", "head.pooling": "align", "backbone.dilated": "true"},
    {"backbone.name": "resnet18"},
    {"backbone.name": "resnet18", "head.kind": "mlp", "head.pooling": "max"},
    {"backbone.name": "mobilenet_v3_small"},
    {"backbone.name": "efficientnet_lite4"},
    {"backbone.name": "efficientnet_lite4", "head.kind": "cut", "head.pixels": "64"},
    {"backbone.name": "efficientnet_lite4", "backbone.dilated": "true", "head.pooling": "max"},
]


@pytest.mark.slow
@pytest.mark.parametrize("fields", TRUNKS, ids=lambda fields: "-".join(fields.values()))
def test_trunks(fields, make_detector, draw, tmp_path):
    """By the comparison, since of these nets' random scores some are equal but for the last digit."""
    detector = make_detector({"inference.scales": "96", **fields})
    write_onnx(tmp_path / "detector.onnx", detector, detector.settings())
    samples = [Sample(f"{size}", *draw(*size)) for size in SIZES]
    found = compare(tmp_path / "detector.onnx", detector, samples, detector.settings())
    assert found.wrong == ""
    assert found.same == found.detections > 100
    rounded = detector.recipe.head.kind == "cut"  # what is seen is, to half precision: the last digit may tip it over
    assert found.worst_score < (1e-3 if rounded else 1e-4)


def test_a_net_that_proposes_takes_a_picture_alone(make_detector, draw, tmp_path):
    """Compared as `tag2box export` does: many of its boxes score the same, to the last digit."""
    detector = make_detector({"inference.landing": True})
    torch.manual_seed(1)
    trunk = detector.net.trunk
    detector.net.proposer = Proposer(channels=trunk.channels, stride=trunk.stride).eval()
    with torch.no_grad():
        for parameter in detector.net.proposer.parameters():
            parameter.mul_(5)
    write_onnx(tmp_path / "d.onnx", detector, detector.settings())
    session = open_session(str(tmp_path / "d.onnx"))
    assert "proposals" not in [one.name for one in session.get_inputs()]
    samples = [Sample(str(size), draw(*size)[0], None) for size in SIZES]
    found = compare(tmp_path / "d.onnx", detector, samples, detector.settings())
    assert not found.wrong
    assert found.same > 100


def test_what_is_exported_of_a_proposer_is_what_it_chooses_from(detector, draw):
    torch.manual_seed(1)
    proposer = Proposer(channels=detector.net.trunk.channels, stride=detector.net.trunk.stride).eval()
    pixels = torch.from_numpy(draw(150, 90)[0]).permute(2, 0, 1)[None]
    with torch.no_grad():
        features = detector.net.trunk.features(pixels)
        (chosen,) = proposer(features, [(150, 90)])
        chances, boxes = proposer.candidates(features)
    boxes = boxes.clamp(min=0).minimum(torch.tensor([150.0, 90, 150, 90]))
    boxes = boxes[(boxes[:, 2:] - boxes[:, :2] >= LEAST).all(1)]
    for box in chosen:
        assert (boxes - box).abs().amax(1).min() < 1e-3
    assert len(chances) == features.shape[2] * features.shape[3] * 15
