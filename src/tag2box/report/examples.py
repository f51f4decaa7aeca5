"""Which pictures are worth seeing: where the detector does best and worst, each with what is the matter in words."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from tag2box.boxes import Box, Boxes, area, as_box
from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.evaluation.mistakes import Judged, Kind
from tag2box.report.example_words import mistake, why_missed
from tag2box.report.findings import Example, ShownBox

EACH = 6
"""Pictures of a group."""
MOST_BOXES = 24
"""On one picture."""

T = TypeVar("T")


def best_pictures(truth: GroundTruth, found: Detections, judged: Judged) -> list[Example]:
    """Those with the highest Σ IoU / (right + ½ wrong + ½ missed): panoptic quality (Kirillov et al. 2019)."""
    images, counted = len(truth.ids), ~(truth.difficult | truth.crowd)
    right = np.array([kind is Kind.RIGHT for kind in judged.kinds], dtype=bool)
    wrong = ~right & np.array([kind is not Kind.UNCOUNTED for kind in judged.kinds], dtype=bool)
    overlap = np.bincount(found.images[right], judged.iou[right], images)
    hits, alarms = (np.bincount(found.images[these], minlength=images) for these in (right, wrong))
    objects = np.bincount(truth.images[counted], minlength=images)
    quality = overlap / np.maximum(hits + alarms / 2 + (objects - hits) / 2, 0.5)
    main = {int(found.images[d]): int(found.labels[d]) for d in np.flatnonzero(right)[::-1]}  # the surest is the last

    def example(image: int) -> Example:
        words = f"IoU {overlap[image] / hits[image]:.2f}{' on average' * bool(hits[image] > 1)}."
        if alarms[image]:
            words += f" {_counted(int(alarms[image]), 'box is', 'boxes are')} wrong."
        several, name = objects[image] > 1, truth.classes[main[image]]
        head = f"{hits[image]} of {objects[image]} found" if several else f"{name} found"
        return Example("best", truth.ids[image], head, words, _boxes_on(image, truth, found, judged))

    ranked = [int(image) for image in np.argsort(-quality, kind="stable") if int(image) in main]
    flawless = [image for image in ranked if hits[image] == objects[image] and not alarms[image]]
    ranked = flawless if len(flawless) >= EACH else ranked
    return [example(image) for image in varied(ranked, lambda image: main[image], EACH)]


def wrong_pictures(truth: GroundTruth, found: Detections, judged: Judged) -> list[Example]:
    """The wrong detections that the detector is surest of, one of a picture."""
    wrong = [d for d, kind in enumerate(judged.kinds) if kind not in (Kind.RIGHT, Kind.UNCOUNTED)]
    ranked = sorted(wrong, key=lambda d: -found.scores[d])
    first = list({int(found.images[d]): d for d in reversed(ranked)}.values())
    chosen = varied(sorted(first, key=lambda d: -found.scores[d]), lambda d: int(found.labels[d]), EACH)
    return [
        Example(
            "wrong",
            truth.ids[found.images[d]],
            *mistake(truth, found, judged, d),
            _boxes_on(int(found.images[d]), truth, found, judged, first=d),
        )
        for d in chosen
    ]


def missed_pictures(
    truth: GroundTruth, found: Detections, judged: Judged, everything: Detections, score: float
) -> list[Example]:
    """The largest objects that no detection is on, one of a picture; `everything` has those below the score too."""
    missed = ~(truth.difficult | truth.crowd)
    missed[[o for o, kind in zip(judged.objects, judged.kinds, strict=True) if kind is Kind.RIGHT]] = False
    size = area(truth.boxes) / (1 if truth.sizes is None else np.maximum(truth.sizes[truth.images].prod(axis=1), 1))
    ranked = sorted(np.flatnonzero(missed).tolist(), key=lambda o: -size[o])
    first = list({int(truth.images[o]): o for o in reversed(ranked)}.values())
    chosen = varied(sorted(first, key=lambda o: -size[o]), lambda o: int(truth.labels[o]), EACH)
    return [
        Example(
            "missed",
            truth.ids[truth.images[o]],
            f"{truth.classes[truth.labels[o]]} missed",
            why_missed(truth, o, everything, score),
            _boxes_on(int(truth.images[o]), truth, found, judged, missed=o),
        )
        for o in chosen
    ]


def sure_and_unsure(top: Detections) -> list[Example]:
    """Where there are no boxes to compare with: the pictures whose tag is placed most and least surely.

    `top` has the best box of each tag of each picture.
    """
    order = np.argsort(-top.scores, kind="stable").tolist()
    sure = varied(order[: (len(order) + 1) // 2], lambda d: int(top.labels[d]), EACH)
    shown = {int(top.images[d]) for d in sure}
    rest = [d for d in reversed(order[(len(order) + 1) // 2 :]) if int(top.images[d]) not in shown]
    unsure = varied(rest, lambda d: int(top.labels[d]), EACH, unlike=lambda d: int(top.images[d]))
    return [
        *(_unjudged("sure", top, d, "") for d in sure),
        *(_unjudged("unsure", top, d, "Its best box; is it there, and in view?") for d in unsure),
    ]


def varied(
    ranked: Iterable[T], kind: Callable[[T], int], most: int, unlike: Callable[[T], int] | None = None
) -> list[T]:
    """The first of every kind, then the second of every kind, …: in all so many, in the order given.

    With `unlike` no two of the same value.

    >>> varied(["a1", "a2", "a3", "b1", "c1"], lambda word: ord(word[0]), 4)
    ['a1', 'a2', 'b1', 'c1']
    """
    turns: dict[int, int] = {}
    seen: set[int] = set()
    placed = []
    for place, one in enumerate(ranked):
        if unlike is not None:
            if unlike(one) in seen:
                continue
            seen.add(unlike(one))
        turns[kind(one)] = turns.get(kind(one), -1) + 1
        placed.append((turns[kind(one)], place, one))
    chosen = sorted(placed, key=lambda item: item[:2])[:most]
    return [one for _, _, one in sorted(chosen, key=lambda item: item[1])]


def _boxes_on(
    image: int, truth: GroundTruth, found: Detections, judged: Judged, first: int = -1, missed: int = -1
) -> tuple[ShownBox, ...]:
    """All there is to see on a picture, what it is about last: on top."""
    annotated = [
        ShownBox("missed" if o == missed else "truth", truth.classes[truth.labels[o]], _box(truth.boxes[o]))
        for o in np.flatnonzero(truth.images == image)
    ]
    detections = sorted(np.flatnonzero(found.images == image).tolist(), key=lambda d: (d == first, found.scores[d]))
    boxes = [
        ShownBox(_role(judged.kinds[d]), found.classes[found.labels[d]], _box(found.boxes[d]), _score(found.scores[d]))
        for d in detections
    ]
    shown = sorted(annotated, key=lambda box: box.role == "missed")[-MOST_BOXES // 2 :]
    return (*shown, *boxes[-MOST_BOXES // 2 :])


def _role(kind: Kind) -> str:
    return "right" if kind is Kind.RIGHT else "found" if kind is Kind.UNCOUNTED else "wrong"


def _unjudged(group: str, top: Detections, d: int, words: str) -> Example:
    name, image = top.classes[top.labels[d]], top.images[d]
    others = [e for e in np.flatnonzero(top.images == image).tolist() if e != d]
    boxes = [
        ShownBox("found", top.classes[top.labels[e]], _box(top.boxes[e]), _score(top.scores[e])) for e in (*others, d)
    ]
    return Example(group, top.ids[image], f"{name} {top.scores[d]:.2f}", words, tuple(boxes[-MOST_BOXES:]))


def _box(sides: Boxes) -> Box:
    return as_box(round(float(side), 1) for side in sides)


def _score(score: float) -> float:
    return round(float(score), 4)


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def top_of_each(detections: Detections) -> Detections:
    """The best detection of each class in each image, image after image."""
    order = np.lexsort((-detections.scores, detections.labels, detections.images))
    group = detections.images[order] * len(detections.classes) + detections.labels[order]
    return detections.take(order[np.flatnonzero(np.diff(group, prepend=-1))])
