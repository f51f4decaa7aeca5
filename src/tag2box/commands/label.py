"""`tag2box label`: a tagged data set with boxes, for other tools to train on or to look over."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from rich.console import Console

from tag2box import __version__
from tag2box.commands.parts import Part, Source, Where, require_known_classes
from tag2box.commands.reviewed import read_reviewed
from tag2box.data import folder_of
from tag2box.detections import Detections
from tag2box.errors import InputError, require_choice
from tag2box.evaluation.label_quality import LabelQuality, label_quality
from tag2box.evaluation.tables import counted
from tag2box.labels.choosing import choose, with_known
from tag2box.labels.output import Output
from tag2box.labels.records import LabelledSet
from tag2box.labels.summary import Summary, summarise, summary_table
from tag2box.progress import progress

if TYPE_CHECKING:
    from tag2box.detector import Detector
    from tag2box.inference import Found
    from tag2box.pair import Pair

SCORES = {"prediction": 0.7, "conditional": 0.1}
"""Which net says where things are, and the score from which its boxes become labels: docs/labels.md has why."""


def label_dataset(
    run: Path,
    data: Path,
    output: Output,
    *,
    split: str | None = None,
    by: str = "prediction",
    score: float | None = None,
    parts: bool = False,
    known: Path | None = None,
    tta: bool = False,
    max_proposals: int | None = None,
    device: str = "auto",
    **where: Unpack[Where],
) -> Summary:
    """Write the labels of a data set; print how many there are of each class and, where it has boxes, how good."""
    _require_sensible(by, score, tta, max_proposals)
    detector, pair = _open_nets(run, by, device)
    detector.look_at_most(max_proposals)
    source = Source(data=data, preset=detector.recipe.data.proposals, **where)
    listed = source.listed(split)
    require_known_classes(listed, detector.classes, run)
    decisions = {} if known is None else read_reviewed(known, listed)
    output.require_room(listed, folder_of(data))
    part = source.open(split)
    found = _find(detector, part, tta, run) if pair is None else _ask_teacher(pair, part)
    least = SCORES[by] if score is None else score
    labelled = with_known(choose(found, part.dataset, least, parts=parts), decisions)
    summary = summarise(labelled, _quality(labelled, part))
    facts = {
        "version": __version__,
        "run": str(run),
        "data": str(data),
        "split": labelled.split,
        "by": by,
        "score": least,
        "parts": parts,
        "max_proposals": detector.recipe.looked_at,
        "known": None if known is None else str(known),
        "labels": summary,
    }
    main, turned = output.write(labelled, facts, **_numbers(part))
    given = sum(len(boxes) for image in decisions.values() for boxes in image.values())
    _report(summary, by, least, main, turned, given)
    return summary


def default_folder(data: Path, format: str) -> Path:
    """Where labels go when nobody says: in the current folder, called after the data set and the format."""
    return Path(f"{folder_of(data).resolve().name or 'data'}-{format}")


def _require_sensible(by: str, score: float | None, tta: bool, max_proposals: int | None) -> None:
    require_choice("--by", by, SCORES)
    if score is not None and not 0 <= score <= 1:
        raise InputError(f"expected --score between 0 and 1, found {score}")
    for option, given in (("--tta", tta), ("--max-proposals", max_proposals is not None)):
        if given and by == "conditional":
            raise InputError(f"expected {option} with --by prediction only, found it with conditional")


def _open_nets(run: Path, by: str, device: str) -> "tuple[Detector, Pair | None]":
    """The detector and, where it is asked for, the net that taught it."""
    from tag2box.detector import open_detector
    from tag2box.pair import open_pair

    if by == "prediction":
        return open_detector(run, device), None
    if not (run / "weights" / "conditional.safetensors").is_file():
        open_detector(run, device)  # it may be no run at all, which says more
        raise InputError(f"expected a run with a conditional net for --by conditional, found none in {run}")
    pair = open_pair(run, device)
    return pair.detector, pair


def _find(detector: "Detector", part: Part, tta: bool, run: Path) -> Detections:
    from tag2box.detector import detect_dataset
    from tag2box.remembered import recall_of

    recall = recall_of(run)  # of the pictures that it learnt from the run knows more than its detector
    return detect_dataset(detector, part.dataset, part.store, tta=tta, best_of_each=True, recall=recall)


def _ask_teacher(pair: "Pair", part: Part) -> Detections:
    """What the samples of the conditional net agree on in each picture."""
    from tag2box.inference import as_detections

    with progress("sampling", len(part.dataset)) as count_one:

        def each() -> "Iterator[Found]":
            for place in range(len(part.dataset)):
                yield _agreed(pair, part, place)
                count_one()

        return as_detections(pair.classes, part.dataset.ids, each())


def _agreed(pair: "Pair", part: Part, place: int) -> "Found":
    import torch

    from tag2box.inference import Found
    from tag2box.labels.consensus import agreed

    image = part.dataset[place]
    study = pair.study_image(image, part.store) if image.tags else None
    if study is None:  # nothing to look for, or not enough to look at
        return Found(torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.long))
    return agreed(study)


def _quality(labelled: LabelledSet, part: Part) -> dict[str, LabelQuality] | None:
    if part.truth is None or not len(part.truth):
        return None
    return label_quality(part.truth, labelled.detections())


def _numbers(part: Part) -> dict[str, dict[str, int]]:
    """The numbers that images and categories of a COCO data set have already."""
    truth = part.truth
    if truth is None or truth.image_numbers is None or truth.category_numbers is None:
        return {}
    return {
        "image_numbers": {id: number for number, id in truth.image_numbers.items()},
        "category_numbers": {truth.classes[label]: number for number, label in truth.category_numbers.items()},
    }


def _report(summary: Summary, by: str, score: float, main: Path, turned: int, given: int) -> None:
    console = Console(highlight=False)
    count = f"{counted(summary['all']['boxes'], 'label')} in {counted(summary['all']['images'], 'image')}"
    count += f", {given:,} of them a person's, the others" if given else ","
    against = "; precision and recall at IoU 0.5, in per cent" if "precision" in summary["all"] else ""
    console.print(f"{count} by the {by} net, score ≥ {score:g} and the best of each tag{against}", soft_wrap=True)
    console.print(summary_table(summary))
    if turned:
        console.print(
            f"{counted(turned, 'linked picture')} to be turned by EXIF tag: boxes are in the picture as seen; for "
            "tools that do not turn pictures, use --images-as copy",
            soft_wrap=True,
        )
    console.print(f"written to {main}", soft_wrap=True, markup=False)
