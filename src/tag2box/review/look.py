"""What a reviewer is shown of a picture, as plain values that are kept in the database and sent to the page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypedDict

import numpy as np
from torch import Tensor

from tag2box.boxes import Boxes
from tag2box.data.records import Dataset, TaggedImage
from tag2box.inference import Found, as_detections, select_detections
from tag2box.labels.choosing import choose
from tag2box.labels.consensus import agreed
from tag2box.labels.records import inside
from tag2box.pair import Pair, Study
from tag2box.ranking import BY, Doubts, doubts_of

Box = list[float]
"""x0, y0, x1, y1 in the picture's own pixels, inside it, to a tenth."""
LEAST, MOST = 0.2, 5
"""Of the prediction net's boxes of a class those are shown that have this score, at most so many, and the best."""


class ClassLook(TypedDict):
    """One tagged class in a picture."""

    confidence: float
    dissimilarity: float
    self_diversity: float
    predicted: list[tuple[float, Box]]
    """The prediction net's boxes, each after its score, best first."""
    samples: list[list[Box]]
    """Those of each sample of the conditional net."""
    suggested: list[Box]
    """What `tag2box label` would write by the prediction net: where a reviewer starts from."""
    agreed: list[Box]
    """The same by the conditional net."""


class Look(TypedDict):
    """One picture."""

    doubts: dict[str, dict[str, float]]
    """Of each tag, and of all together under `PICTURE`, by every score that pictures can be ordered by.

    Empty: the nets have had nothing to look at, and no class has boxes.
    """
    classes: dict[str, ClassLook]


PICTURE = ""
"""No class has this name."""
NOTHING: Look = {"doubts": {}, "classes": {}}
"""Of a picture that the nets cannot be shown."""


def uncertainty(doubts: Mapping[str, Mapping[str, float]], by: str, only: Sequence[str] = ()) -> float | None:
    """Of a picture, or of the most doubtful of some tags of it; None where the nets have had nothing to look at.

    >>> of_picture = {"": {"doubt": 0.4}, "cat": {"doubt": 0.4}, "owl": {"doubt": 0.1}}
    >>> uncertainty(of_picture, "doubt"), uncertainty(of_picture, "doubt", only=["owl", "yak"])
    (0.4, 0.1)
    """
    return max((doubts[name][by] for name in only or (PICTURE,) if name in doubts), default=None)


def in_turn(
    names: Sequence[str], doubts: Mapping[str, Mapping[str, float]], by: str, only: Sequence[str] = ()
) -> list[str]:
    """A picture's classes as they are to be decided: those that it is shown for, then others, the most doubtful first.

    What the nets have not been asked about, a class without a tag say, comes last.

    >>> of_picture = {"": {"doubt": 0.9}, "cat": {"doubt": 0.1}, "owl": {"doubt": 0.9}}
    >>> in_turn(["cat", "fox", "owl"], of_picture, "doubt"), in_turn(["cat", "owl"], of_picture, "doubt", only=["cat"])
    (['owl', 'cat', 'fox'], ['cat', 'owl'])
    """

    def key(name: str) -> tuple[bool, float]:
        return (bool(only) and name not in only, -doubts[name][by] if name in doubts else float("inf"))

    return sorted(names, key=key)


def look_at(pair: Pair, study: Study, image: TaggedImage, scores: Mapping[str, float]) -> Look:
    """What the nets say of a picture. `scores` are the least of a label by the prediction and the conditional net."""
    whatever = replace(pair.recipe.inference, parts=0.0)  # of parts it is for labels to say
    found = select_detections(study.choice, study.boxes, whatever, size=image.size, best_of_each=True)
    suggested = _labels(pair, found, image, scores["prediction"])
    by_samples = _labels(pair, agreed(study), image, scores["conditional"])
    doubted = doubts_of(pair, image, study)  # as `tag2box rank` orders pictures
    measures = {one.name: one.doubts.labels for one in doubted.classes}

    def of_class(name: str) -> ClassLook:
        label, own = pair.classes.index(name) + 1, measures[name]
        return {
            "confidence": own.confidence,
            "dissimilarity": own.dissimilarity,
            "self_diversity": own.self_diversity,
            "predicted": _predicted(found, label, image.size),
            "samples": [_plain(boxes[labels == label], image.size) for boxes, labels in study.truths],
            "suggested": suggested[name],
            "agreed": by_samples[name],
        }

    assert doubted.doubts is not None  # as there is a study
    by_tag = {one.name: one.doubts for one in doubted.classes}
    return {
        "doubts": {name: _by_all(doubts) for name, doubts in ({PICTURE: doubted.doubts} | by_tag).items()},
        "classes": {name: of_class(name) for name in image.tags},
    }


def _by_all(doubts: Doubts) -> dict[str, float]:
    return {name: doubts.by(name) for name in BY}


def _labels(pair: Pair, found: Found, image: TaggedImage, score: float) -> dict[str, list[Box]]:
    """The boxes of each tag that `tag2box label` would choose from these."""
    alone = Dataset(pair.classes, (image,))
    (chosen,) = choose(as_detections(pair.classes, [image.id], [found]), alone, score).images
    return {
        tag: _rounded([label.box for label in chosen.labels if label.name == tag], image.size) for tag in image.tags
    }


def _predicted(found: Found, label: int, size: tuple[int, int]) -> list[tuple[float, Box]]:
    rows = (found.labels == label - 1).nonzero().flatten().tolist()[:MOST]
    shown = [row for rank, row in enumerate(rows) if rank == 0 or found.scores[row] >= LEAST]
    return list(zip(found.scores[shown].tolist(), _plain(found.boxes[shown], size), strict=True))


def _plain(boxes: Tensor, size: tuple[int, int]) -> list[Box]:
    return _rounded(boxes.double().nan_to_num(0).numpy(), size)


def _rounded(boxes: Boxes | Sequence[Sequence[float]], size: tuple[int, int]) -> list[Box]:
    rows: list[Box] = inside(np.asarray(boxes, dtype=np.float64).reshape(-1, 4), size).round(1).tolist()
    return rows
