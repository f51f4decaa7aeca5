"""Boxes as rows (x0, y0, x1, y1): 0-based pixels, half-open, so a width is x1 − x0.

One convention everywhere. A VOC box (xmin, ymin, xmax, ymax), 1-based and inclusive, is (xmin − 1, ymin − 1, xmax,
ymax) here, and the plain IoU below then equals the devkit's, which counts inclusive pixels.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float64]
Box = tuple[float, float, float, float]


def as_box(sides: Iterable[float]) -> Box:
    """One row as a tuple.

    >>> as_box([0, 1.5, 20, 30])
    (0.0, 1.5, 20.0, 30.0)
    """
    x0, y0, x1, y1 = map(float, sides)
    return x0, y0, x1, y1


def area(boxes: Boxes) -> NDArray[np.float64]:
    """Areas of boxes [N, 4] → [N]."""
    return np.asarray((boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1]))


def intersection(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """Shared area of each pair of rows, broadcast over leading dimensions: [..., 4] and [..., 4] → [...]."""
    width = np.minimum(a[..., 2], b[..., 2]) - np.maximum(a[..., 0], b[..., 0])
    height = np.minimum(a[..., 3], b[..., 3]) - np.maximum(a[..., 1], b[..., 1])
    return np.asarray(np.maximum(width, 0) * np.maximum(height, 0))


def iou(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """Intersection over union of every box of a with every box of b: [N, 4], [M, 4] → [N, M].

    >>> iou(np.array([[0.0, 0, 10, 10]]), np.array([[0.0, 0, 10, 5], [20, 20, 30, 30]]))
    array([[0.5, 0. ]])
    """
    shared = intersection(a[:, None], b[None])  # [N, M]
    union = area(a)[:, None] + area(b)[None] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
