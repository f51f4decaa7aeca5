"""From a round's detections, and the boxes where there are any, to what is kept of it for the page."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tag2box import __version__
from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.evaluation.confusion import OperatingPoint, confusion, operating_point
from tag2box.evaluation.corloc import corloc
from tag2box.evaluation.mistakes import Judged, Kind, judge
from tag2box.evaluation.recall import RecallReport
from tag2box.evaluation.voc_ap import PrecisionRecall, average_precision_11_points, precision_recall
from tag2box.report.examples import best_pictures, missed_pictures, sure_and_unsure, top_of_each, wrong_pictures
from tag2box.report.findings import SHOWN_FROM, AtScore, ClassScores, Curve, Example, Findings, Reached

MOST_JUDGED = 10_000
"""Training pictures among which the best and the worst are looked for."""
MOST_POINTS, MOST_CURVES, MOST_CELLS = 60, 100, 4000
"""Of a curve, of curves and of the confusion matrix that are kept."""


def sum_up(
    stage: str,
    own_truth: GroundTruth | None,
    own: Detections,
    other_truth: GroundTruth | None,
    other: Detections | None,
    tags: Mapping[str, Collection[str]] | None = None,
) -> Findings:
    """What is known of a round from its boxes on the training pictures, where tags are known, and on held-out ones.

    tags: of the training pictures; CorLoc is then over them, and not over all that is annotated.
    """
    own_truth, other_truth = _in_order(own_truth, own.classes), _in_order(other_truth, own.classes)
    tested = None if other is None else len(other.ids)
    findings = Findings(stage, len(own.ids), tested, shown="training", version=__version__)
    classes = _sureness(top_of_each(own))
    if own_truth is not None:
        own = own.numbered_as(own.classes, own_truth.ids)
        places = _percent(corloc(own_truth if tags is None else own_truth.of_tags(tags), own))
        classes = [replace(one, corloc=value) for one, value in zip(classes, places, strict=True)]
        findings = replace(findings, corloc=_mean(places))
    if other_truth is not None and other is not None:
        other = other.numbered_as(own.classes, other_truth.ids)
        curves = precision_recall(other_truth, other)
        scores = _percent([average_precision_11_points(curve) for curve in curves])
        classes = [
            replace(one, ap=score, objects=curve.positives)
            for one, score, curve in zip(classes, scores, curves, strict=True)
        ]
        point = operating_point(curves)
        at_score, examples = _at_score(other_truth, other, point)
        findings = replace(findings, map=_mean(scores), shown="held-out", at_score=at_score, examples=tuple(examples))
        findings = replace(findings, curves=_curves(classes, curves, None if point is None else point.score))
    else:
        findings = replace(findings, examples=tuple(_of_training(own_truth, top_of_each(own))))
    return replace(findings, classes=tuple(classes))


def reached(part: str, report: RecallReport) -> Reached:
    """What the proposals of a part of the data reach."""
    overall = report.overall
    return Reached(
        part=part,
        images=report.images,
        objects=overall.objects,
        boxes=report.boxes_per_image,
        recall_50=_known(overall.recall_50),
        recall_70=_known(overall.recall_70),
        overlap=_known(overall.average_best_overlap),
        budgets=tuple((kept, _known(reach.recall_50), _known(reach.recall_70)) for kept, reach in report.budgets),
    )


def _in_order(truth: GroundTruth | None, classes: tuple[str, ...]) -> GroundTruth | None:
    """Boxes with their classes counted as everywhere else; None where there is not one box."""
    if truth is None or not len(truth) or truth.classes == classes:
        return truth or None
    places = np.array([classes.index(name) for name in truth.classes])
    return replace(truth, classes=classes, labels=places[truth.labels])


def _sureness(top: Detections) -> list[ClassScores]:
    """Each class with the median score of its best boxes."""
    scores = [top.scores[top.labels == c] for c in range(len(top.classes))]
    medians = [round(float(np.median(own)), 4) if len(own) else None for own in scores]
    return [ClassScores(name, sureness=median) for name, median in zip(top.classes, medians, strict=True)]


def _of_training(truth: GroundTruth | None, top: Detections) -> list[Example]:
    """Without held-out boxes: the best box of each tag, as CorLoc has it, or what the detector itself is sure of."""
    if truth is None:
        return sure_and_unsure(top)
    step = -(-len(truth.ids) // MOST_JUDGED)
    top = top.take(top.images % step == 0)
    truth = truth.subset(truth.ids[::step])
    top = top.numbered_as(truth.classes, truth.ids)
    judged = judge(truth, top)
    return [*best_pictures(truth, top, judged), *wrong_pictures(truth, top, judged)]


def _at_score(
    truth: GroundTruth, everything: Detections, point: OperatingPoint | None
) -> tuple[AtScore | None, list[Example]]:
    """The detections that people would be shown, sorted; without one that is right there is no such score."""
    if point is None:
        point = OperatingPoint(float(everything.scores.max(initial=0.0)), 0.0, 0.0)
    found = everything.take(everything.scores >= point.score)
    judged = judge(truth, found)
    right = judged.kinds.count(Kind.RIGHT)
    summed = AtScore(
        score=point.score,
        precision=point.precision,
        recall=point.recall,
        kinds={kind.value: judged.kinds.count(kind) for kind in Kind},
        objects=int((~(truth.difficult | truth.crowd)).sum()),
        found=right,
        confusion=_cells(confusion(truth, found)),
    )
    return summed, _examples(truth, found, judged, everything, point.score)


def _examples(
    truth: GroundTruth, found: Detections, judged: Judged, everything: Detections, score: float
) -> list[Example]:
    wrong = wrong_pictures(truth, found, judged)
    missed = missed_pictures(truth, found, judged, everything, score)
    return [*best_pictures(truth, found, judged), *wrong, *missed]


def _cells(table: NDArray[np.int64]) -> tuple[tuple[int, int, int], ...]:
    """The cells that are not 0, the largest first."""
    cells = [(int(i), int(j), int(table[i, j])) for i, j in np.argwhere(table)]
    return tuple(sorted(cells, key=lambda cell: -cell[2])[:MOST_CELLS])


def _curves(
    classes: Sequence[ClassScores], curves: Sequence[PrecisionRecall], score: float | None
) -> tuple[Curve, ...]:
    """Those of the classes with most objects, in the order of the classes."""
    chosen = sorted(np.argsort([-curve.positives for curve in curves], kind="stable")[:MOST_CURVES].tolist())
    asked = (SHOWN_FROM,) if score is None else (score, SHOWN_FROM)
    return tuple(_curve(classes[c], curves[c], asked) for c in chosen if curves[c].positives)


def _curve(one: ClassScores, curve: PrecisionRecall, asked: Sequence[float]) -> Curve:
    """Points where recall grows: between them precision only falls."""
    hits = np.flatnonzero(np.diff(curve.found, prepend=0))
    if len(hits) > MOST_POINTS:
        hits = hits[np.linspace(0, len(hits) - 1, MOST_POINTS).round().astype(np.int64)]
    recall, precision = (tuple(np.round(values[hits], 4).tolist()) for values in (curve.recall, curve.precision))
    taken = [(score, int((curve.scores >= score).sum())) for score in asked]
    marks = [(score, float(curve.recall[n - 1]), float(curve.precision[n - 1])) for score, n in taken if n]
    return Curve(
        one.name, one.ap, recall, precision, tuple((round(s, 4), round(r, 4), round(p, 4)) for s, r, p in marks)
    )


def _percent(shares: NDArray[np.float64] | Sequence[float]) -> list[float | None]:
    return [_known(100 * float(share)) for share in shares]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
