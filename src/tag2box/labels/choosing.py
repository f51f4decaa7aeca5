"""Which boxes become labels: those of the tagged classes, at least one of each, and what a person has said."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import Box, Boxes, area, as_box, intersection
from tag2box.data.records import Dataset, TaggedImage
from tag2box.detections import Detections
from tag2box.known import Known
from tag2box.labels.naming import flat_names
from tag2box.labels.records import Label, LabelledImage, LabelledSet, inside

PART = 0.8
"""A box with this share of its area inside a larger one of its class shows a part of the same thing."""


def choose(found: Detections, dataset: Dataset, score: float, *, parts: bool = False) -> LabelledSet:
    """Of each picture's tagged classes the boxes with at least that score, and the best one whatever its score.

    Of these a box inside a larger one of its class is dropped, unless `parts` are wanted: a detector that has learnt
    from tags is as sure of the part that tells a class, an owl's eyes, as of the whole. Both are found where
    non-maximum suppression, by IoU, does not hold the one against the other.

    Where nothing at all was found of a tagged class, the whole picture is its box, with a score of 0: the tag says that
    it is there, and nobody knows where.
    """
    rows = _rows_of_each(found)

    def label(image: TaggedImage) -> LabelledImage:
        labels = [
            one for tag in image.tags for one in _of_tag(found, rows[image.id, tag], tag, image.size, score, parts)
        ]
        return LabelledImage(image.id, image.path, image.size, tuple(labels))

    (split,) = flat_names([dataset.split])  # a tag file may call it anything, and it becomes part of file names
    return LabelledSet(dataset.classes, tuple(label(image) for image in dataset), split)


def with_known(labelled: LabelledSet, known: Known) -> LabelledSet:
    """A person's boxes in place of ours for every image and class that they have decided on, with a score of 1.

    An empty list takes the class out of the image, and boxes of a class that was not tagged bring it in.
    """
    images = [
        _decided(image, known[image.id], labelled.classes) if image.id in known else image for image in labelled.images
    ]
    return replace(labelled, images=tuple(images))


def _rows_of_each(found: Detections) -> Mapping[tuple[str, str], list[int]]:
    """The detections of each class in each image, the best first, of equals the one that came first."""
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in np.argsort(-found.scores, kind="stable").tolist():
        rows[found.ids[found.images[row]], found.classes[found.labels[row]]].append(row)
    return rows


def _of_tag(
    found: Detections, rows: Sequence[int], tag: str, size: tuple[int, int], score: float, parts: bool
) -> list[Label]:
    """The labels of one tagged class from its detections, which come best first."""
    if not rows:
        return [Label(tag, (0.0, 0.0, float(size[0]), float(size[1])), 0.0)]
    kept = np.array([row for rank, row in enumerate(rows) if rank == 0 or found.scores[row] >= score])
    boxes = inside(found.boxes[kept], size)
    whole = np.ones(len(kept), dtype=bool) if parts else whole_ones(boxes)
    pairs = zip(boxes[whole].tolist(), found.scores[kept[whole]].tolist(), strict=True)
    return [Label(tag, as_box(box), one) for box, one in pairs]


def whole_ones(boxes: Boxes) -> NDArray[np.bool_]:
    """Which of the boxes [N, 4] do not lie in a larger one that does not itself; of equals the first stays.

    >>> whole_ones(np.array([[1.0, 1, 3, 3], [0, 0, 9, 9], [8, 0, 12, 9]])).tolist()
    [False, True, True]
    """
    areas, keep = area(boxes), np.zeros(len(boxes), dtype=bool)
    for row in np.argsort(-areas, kind="stable"):
        keep[row] = not (intersection(boxes[row], boxes[keep]) >= PART * areas[row]).any()
    return keep


def _decided(image: LabelledImage, decisions: Mapping[str, Sequence[Box]], classes: Sequence[str]) -> LabelledImage:
    given = [
        Label(name, as_box(box), 1.0)
        for name, boxes in decisions.items()
        for box in inside(np.array(boxes, dtype=np.float64).reshape(-1, 4), image.size).tolist()
    ]
    ours = [label for label in image.labels if label.name not in decisions]
    labels = tuple(sorted([*ours, *given], key=lambda label: classes.index(label.name)))
    return replace(image, labels=labels, reviewed=bool(decisions) and not ours)  # of every tag there was one of ours
