"""Whether an exported file does in onnxruntime what the detector does in PyTorch, and how fast either is.

Right at a threshold the last digit decides, and one box that stays can cost another its place, so two lists of
detections may differ a little where nothing is wrong. What must hold: every detection of PyTorch's is among what the
file thinks of its proposals, to the tolerances; out of that the file chooses exactly as PyTorch would; and no more than
one detection in a hundred is of one of them alone.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tag2box.config import Inference
from tag2box.detector import Detector
from tag2box.export.graph import CLASS_BOXES, CLASS_SCORES
from tag2box.inference import select_detections
from tag2box.progress import progress

BOX_TOLERANCE, SCORE_TOLERANCE = 0.5, 1e-3
"""In pixels of the picture; in probability."""
EDGE = 0.01
"""Share of the detections that a threshold may decide."""
ROUNDING = 1e-5
"""Of an IoU, which onnxruntime computes in single precision."""

Array = NDArray[Any]


class Sample(NamedTuple):
    """A picture to compare on."""

    name: str
    pixels: NDArray[np.uint8]
    """[H, W, 3]"""
    proposals: Array | None
    """[B, 4]; None for a detector that proposes itself."""


@dataclass
class Comparison:
    """What was found on a number of pictures."""

    threads: int
    """Of either."""
    pictures: int = 0
    detections: int = 0
    """PyTorch's."""
    same: int = 0
    """So many of them are the file's as well."""
    extra: int = 0
    """The file's that are not PyTorch's."""
    worst_box: float = 0.0
    worst_score: float = 0.0
    torch_seconds: float = 0.0
    onnx_seconds: float = 0.0
    wrong: str = ""
    """The first thing that must not be, in words; empty where there is none."""


def compare(file: Path, detector: Detector, samples: Sequence[Sample], settings: Inference) -> Comparison:
    """Both on each of the pictures, with the same thresholds and on as many threads."""
    run(open_session(str(file)), samples[0])  # as it is, with its own thresholds
    probe, whole = open_session(_with_candidates(file)), Comparison(torch.get_num_threads())
    detector.detect(*samples[0][1:], settings)  # the first is slow: memory is found, code made ready
    run(probe, samples[0], settings)
    with progress("comparing", len(samples), unit="pictures") as count_one:
        for sample in samples:
            began = perf_counter()
            ours = detector.detect(*sample[1:], settings)
            between = perf_counter()
            theirs = run(probe, sample, settings)
            whole.torch_seconds += between - began
            whole.onnx_seconds += perf_counter() - between
            _compare_one(whole, sample, settings, [part.numpy() for part in ours], theirs)
            count_one()
    if not whole.wrong and max(whole.detections - whole.same, whole.extra) > EDGE * whole.detections:
        whole.wrong = f"{whole.same} of {whole.detections} detections are the same, and {whole.extra} more are found"
    return whole


def open_session(model: str | bytes) -> Any:
    """An onnxruntime session on the CPU, on as many threads as PyTorch, quiet about inputs that have defaults."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run(session: Any, sample: Sample, settings: Inference | None = None) -> list[Array]:
    """All outputs of a session on a picture, with the file's own thresholds or others."""
    feeds: dict[str, Array] = {"image": sample.pixels}
    if sample.proposals is not None:
        feeds["proposals"] = np.asarray(sample.proposals, np.float32)
    if settings is not None:
        feeds["score"] = np.array(settings.min_score, np.float32)
        feeds["nms"] = np.array(settings.nms, np.float32)
        feeds["max_detections"] = np.array(settings.max_detections, np.int64)
    outputs: list[Array] = session.run(None, feeds)
    return outputs


def _with_candidates(file: Path) -> bytes:
    """The same model with two more outputs: what it thinks of each proposal and class before it chooses."""
    import onnx

    model, kind = onnx.load(file), onnx.TensorProto.FLOAT
    for name, shape in ((CLASS_SCORES, ("b", "C")), (CLASS_BOXES, ("b", "C", 4))):
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, shape))
    content: bytes = model.SerializeToString()
    return content


def _compare_one(
    whole: Comparison, sample: Sample, settings: Inference, ours: list[Array], theirs: list[Array]
) -> None:
    """Count one picture in."""
    *chosen, scores, boxes = theirs  # …, [B, C], [B, C, 4]
    labels = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    off = differences(ours, [boxes.reshape(-1, 4), scores.ravel(), labels.ravel()])
    whole.pictures += 1
    whole.detections += len(off)
    whole.same += _count_alike(ours, chosen)
    whole.extra += len(chosen[1]) - _count_alike(chosen, ours)
    worst_box, worst_score = map(float, off.max(axis=0, initial=0))
    whole.worst_box, whole.worst_score = max(whole.worst_box, worst_box), max(whole.worst_score, worst_score)
    wrong = ""
    if worst_box > BOX_TOLERANCE or worst_score > SCORE_TOLERANCE:
        wrong = f"a box differs by {worst_box:.3g} pixels and a score by {worst_score:.2g}"
    elif not _chosen_well(chosen, scores, boxes, sample, settings):
        wrong = "it keeps other detections of those it has found"
    if wrong and not whole.wrong:
        height, width = sample.pixels.shape[:2]
        whole.wrong = f"on {sample.name} ({width}×{height}) {wrong}"


def differences(ours: Sequence[Array], theirs: Sequence[Array]) -> Array:
    """How far each of our detections is from the nearest of theirs of its class, in pixels and in score: [D, 2].

    Both are boxes [D, 4], scores [D] and labels [D]. Infinite where they have none of that class.

    >>> box = np.array([[0.0, 0, 9, 9]])
    >>> differences([box, np.array([0.75]), np.array([1])], [box + 0.25, np.array([0.5]), np.array([1])])
    array([[0.25, 0.25]])
    """
    off = np.full((len(ours[1]), 2), np.inf)
    for row, (box, score, label) in enumerate(zip(*ours, strict=True)):
        alike = theirs[2] == label
        if alike.any():
            pairs = np.stack([np.abs(theirs[0][alike] - box).max(axis=1), np.abs(theirs[1][alike] - score)], axis=1)
            off[row] = pairs[(pairs / (BOX_TOLERANCE, SCORE_TOLERANCE)).max(axis=1).argmin()]
    return off


def _count_alike(these: Sequence[Array], those: Sequence[Array]) -> int:
    return int((differences(these, those) <= (BOX_TOLERANCE, SCORE_TOLERANCE)).all(axis=1).sum())


def _chosen_well(chosen: list[Array], scores: Array, boxes: Array, sample: Sample, settings: Inference) -> bool:
    """Whether the file has chosen from its own candidates what PyTorch would have; the order of equals aside."""
    height, width = sample.pixels.shape[:2]
    probabilities = torch.from_numpy(np.pad(scores, ((0, 0), (1, 0))))  # with a background
    moved = torch.from_numpy(np.pad(boxes, ((0, 0), (1, 0), (0, 0))))

    def is_it(nms: float) -> bool:
        found = select_detections(probabilities, moved, replace(settings, nms=nms), size=(width, height))
        return _listed(found) == _listed(chosen)

    return any(is_it(settings.nms + shift) for shift in (0, ROUNDING, -ROUNDING))


def _listed(found: Sequence[Any]) -> Counter[tuple[float, ...]]:
    boxes, scores, labels = found
    return Counter(
        (*box, score, label) for box, score, label in zip(boxes.tolist(), scores.tolist(), labels.tolist(), strict=True)
    )
