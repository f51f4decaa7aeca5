"""Small problems in one line each: rows of numbers in, the package's own types out."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections

MakeTruth = Callable[..., GroundTruth]
MakeDetections = Callable[..., Detections]


def _make_truth(
    rows: Sequence[tuple], classes: Sequence[str] = ("cat", "dog"), ids: Sequence[str] = ("000001", "000002")
) -> GroundTruth:
    """Rows (image, class, x0, y0, x1, y1[, difficult[, crowd]]), images in order."""
    table = np.array([[*row, *[0] * (8 - len(row))] for row in rows], dtype=np.float64).reshape(-1, 8)
    images, labels = table[:, :2].astype(np.int64).T
    flags = table[:, 6:].astype(bool)
    return GroundTruth(tuple(classes), tuple(ids), images, labels, table[:, 2:6], flags[:, 0], flags[:, 1])


def _make_detections(truth: GroundTruth, rows: Sequence[tuple]) -> Detections:
    """Rows (image, class, score, x0, y0, x1, y1)."""
    table = np.array(rows, dtype=np.float64).reshape(-1, 7)
    images, labels = table[:, :2].astype(np.int64).T
    return Detections(truth.classes, truth.ids, images, labels, table[:, 2], table[:, 3:])


@pytest.fixture(scope="session")
def make_truth() -> MakeTruth:
    return _make_truth


@pytest.fixture(scope="session")
def make_detections() -> MakeDetections:
    return _make_detections


def _random_problem(
    seed: int, images: int = 200, classes: int = 5, difficult: float = 0.195
) -> tuple[GroundTruth, Detections]:
    """Objects like those of VOC 2007 (three an image, a fifth of them difficult and small) and a fair detector.

    It finds most objects, a little off, some of them twice, and raises many false alarms with lower scores.
    """
    rng = np.random.default_rng(seed)
    count = 3 * images
    hard = rng.random(count) < difficult
    truth = GroundTruth(
        classes=tuple(f"class {c}" for c in range(classes)),
        ids=tuple(f"{i + 1:06d}" for i in range(images)),
        images=np.sort(rng.integers(0, images, count)),
        labels=rng.integers(0, classes, count),
        boxes=_random_boxes(rng, np.where(hard, 43, 131)),  # the medians of VOC 2007 trainval
        difficult=hard,
        crowd=np.zeros(count, dtype=bool),
    )
    seen = np.concatenate([np.flatnonzero(rng.random(count) < share) for share in (0.8, 0.25)])
    size = truth.boxes[seen, 2:] - truth.boxes[seen, :2]
    near = truth.boxes[seen] + np.tile(size, 2) * rng.uniform(-0.2, 0.2, (len(seen), 4))
    noise = _random_boxes(rng, np.full(4 * count, 131))
    return truth, Detections(
        truth.classes,
        truth.ids,
        images=np.concatenate([truth.images[seen], rng.integers(0, images, len(noise))]),
        labels=np.concatenate([truth.labels[seen], rng.integers(0, classes, len(noise))]),
        scores=np.concatenate([rng.beta(3, 2, len(near)), rng.beta(1, 4, len(noise))]),
        boxes=np.concatenate([near, noise]),
    )


def _random_boxes(rng: np.random.Generator, side: np.ndarray) -> np.ndarray:
    """Boxes in pictures of 500 × 375 around a typical side [N, 4]."""
    size = np.minimum(side[:, None] * rng.lognormal(0, 0.7, (len(side), 2)), (500, 375))
    corner = rng.random((len(side), 2)) * ((500, 375) - size)
    return np.concatenate([corner, corner + size], axis=1)


@pytest.fixture(scope="session")
def random_problem() -> Callable[..., tuple[GroundTruth, Detections]]:
    return _random_problem
