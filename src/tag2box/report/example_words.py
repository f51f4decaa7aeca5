"""What is the matter with a detection or a missed object, in words."""

import numpy as np

from tag2box.boxes import iou
from tag2box.data.ground_truth import GroundTruth
from tag2box.detections import Detections
from tag2box.evaluation.mistakes import Judged, Kind
from tag2box.report.words import rounded_down, told_apart


def mistake(truth: GroundTruth, found: Detections, judged: Judged, d: int) -> tuple[str, str]:
    """What is wrong with a detection: in a few words, and in a sentence."""
    name, score, overlap = found.classes[found.labels[d]], found.scores[d], rounded_down(float(judged.iou[d]))
    on = truth.classes[truth.labels[judged.objects[d]]] if judged.objects[d] >= 0 else ""
    match judged.kinds[d]:
        case Kind.AGAIN:
            return "Found twice", f"{name} {score:.2f} is on an object that a better box has found."
        case Kind.MISTAKEN:
            return f"{on} taken for {name}", f"With a score of {score:.2f}, at IoU {overlap}."
        case Kind.GROUP:
            return "Several in one box", f"{name} {score:.2f} is around more than one; IoU {overlap} with the best."
        case Kind.PART:
            return "Only a part", f"{name} {score:.2f} covers too little of the object: IoU {overlap}."
        case Kind.LARGE:
            return "Too large a box", f"{name} {score:.2f} takes in much around the object: IoU {overlap}."
        case Kind.BESIDE:
            return "Off the mark", f"{name} {score:.2f} lies over the object's edge: IoU {overlap}."
        case _:
            return f"No {name} there", f"Yet {name} {score:.2f}: nothing of the class is annotated at this place."


def why_missed(truth: GroundTruth, o: int, everything: Detections, score: float) -> str:
    """What the detector has to say of an object that it missed."""
    here = np.flatnonzero(everything.images == truth.images[o])
    overlaps = iou(everything.boxes[here], truth.boxes[[o]])[:, 0]
    own = everything.labels[here] == truth.labels[o]
    good = here[own & (overlaps >= 0.5)]
    if len(good):
        best_score, asked = told_apart(float(everything.scores[good].max()), score)
        return f"Its best box has a score of {best_score} only, below {asked}."
    others = here[~own & (overlaps >= 0.5) & (everything.scores[here] >= score)]
    if len(others):
        best = others[everything.scores[others].argmax()]
        return f"Taken for {everything.classes[everything.labels[best]]}, {everything.scores[best]:.2f}."
    if own.any() and overlaps[own].max() > 0:
        return f"No box of its class is near enough: IoU {rounded_down(float(overlaps[own].max()))} at best."
    return "No box of its class touches it."
