"""Of boxes that nearly coincide keep one, and count how many it stands for."""

import numpy as np
from numpy.typing import NDArray

from tag2box.proposals.jit import compiled


@compiled
def _thin(
    boxes: NDArray[np.int64], votes: NDArray[np.int64], overlap: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`boxes` come by falling area: those kept last are the only ones that one can coincide with."""
    kept = np.empty(len(boxes), np.int64)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    count = 0
    for i in range(len(boxes)):
        twin = -1
        for q in range(count - 1, -1, -1):
            j = kept[q]
            if areas[i] < overlap * areas[j]:
                break
            width = min(boxes[i, 2], boxes[j, 2]) - max(boxes[i, 0], boxes[j, 0])
            height = min(boxes[i, 3], boxes[j, 3]) - max(boxes[i, 1], boxes[j, 1])
            if width > 0 and height > 0:
                shared = width * height
                if shared >= overlap * (areas[i] + areas[j] - shared):
                    twin = j
                    break
        if twin >= 0:
            votes[twin] += votes[i]
        else:
            kept[count] = i
            count += 1
    return kept[:count], votes[kept[:count]]


def thin(
    boxes: NDArray[np.int64], counts: NDArray[np.int64], overlap: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The boxes that stay [M, 4], by falling area, and how often each or its likes were found [M].

    A box goes when a larger one that stays overlaps it by an IoU of at least `overlap`.

    >>> boxes, votes = thin(np.array([[0, 0, 10, 9], [0, 0, 10, 10], [20, 0, 25, 5]]), np.array([1, 2, 1]), 0.8)
    >>> boxes.tolist(), votes.tolist()
    ([[0, 0, 10, 10], [20, 0, 25, 5]], [3, 1])
    """
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    order = np.argsort(-areas, kind="stable")
    boxes = np.ascontiguousarray(boxes[order])
    kept, votes = _thin(boxes, counts[order].astype(np.int64), overlap)
    return boxes[kept], votes
