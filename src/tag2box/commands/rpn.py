"""`tag2box rpn`: the detector of a run learns to propose boxes itself, from those that it finds."""

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np
from rich.console import Console

from tag2box.commands.parts import Part, Source, Where, require_known_classes
from tag2box.data import read_image
from tag2box.errors import InputError
from tag2box.evaluation.recall import proposal_recall
from tag2box.evaluation.tables import counted
from tag2box.files import make_folder, require_writable
from tag2box.labels.choosing import choose
from tag2box.progress import progress

if TYPE_CHECKING:
    from tag2box.detector import Detector

NAME = "rpn.safetensors"
LEAST = 0.3
"""What a box scores at least that is learnt from. Less than a label: here one missed costs more than one too many."""
MEASURED = 500
"""Of more pictures so many, spread evenly, say how much the proposals reach."""


def teach_to_propose(
    run: Path,
    data: Path,
    *,
    out: Path | None = None,
    epochs: float = 8.0,
    split: str | None = None,
    device: str = "auto",
    **where: Unpack[Where],
) -> Path:
    """Write the detector with a region proposal network in it; print what its proposals reach where there are boxes."""
    import torch

    from tag2box.detector import detect_dataset, open_detector, save_detector
    from tag2box.engine.proposing import learn_to_propose
    from tag2box.remembered import recall_of

    if not epochs > 0:
        raise InputError(f"expected --epochs of more than 0, found {epochs:g}")
    detector = open_detector(run, device)
    if detector.recipe.head.kind == "cut":
        raise InputError(
            f"{run}: expected a detector that proposes from a map, found one that has none (head.kind cut)"
        )
    file = out or (run / "weights" / NAME if run.is_dir() else run.with_name(NAME))
    _require_other(file, run)
    make_folder(file.parent)
    require_writable(file)
    source = Source(data=data, preset=detector.recipe.data.proposals, **where)
    require_known_classes(source.listed(split), detector.classes, run)
    part = source.open(split)
    detector.net.proposer = None  # it looks with the proposals of the data set
    found = detect_dataset(detector, part.dataset, part.store, best_of_each=True, recall=recall_of(run))
    labelled = choose(found, part.dataset, LEAST)
    boxes = [torch.tensor([label.box for label in image.labels]).reshape(-1, 4) for image in labelled.images]
    learn_to_propose(detector, part.dataset, boxes, epochs=epochs)
    save_detector(file, detector.net, detector.recipe, detector.classes)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"learnt from {counted(sum(map(len, boxes)), 'label')} in {counted(len(boxes), 'picture')}")
    if part.truth is not None and len(part.truth):
        console.print(_compared(detector, part))
    console.print(f"the detector that proposes itself: {file}")
    return file


def _require_other(file: Path, run: Path) -> None:
    """A run's own files stay as they are."""
    weights = (run / "weights" if run.is_dir() else run.parent).resolve()
    own = file.resolve()
    if own == run.resolve() or (own.parent == weights and own.exists() and own.name != NAME):
        raise InputError(f"out: expected another file than those of the run, found {file}")


def _compared(detector: "Detector", part: Part) -> str:
    """What the detector's own proposals reach of the true boxes, and as many of those that it learnt with."""
    assert part.truth is not None
    some = part.dataset.images[:: -(-len(part.dataset) // MEASURED)]
    truth, own = part.truth.subset([image.id for image in some]), {}
    with progress("proposing", len(some)) as count_one:
        for image in some:
            own[image.id] = detector.propose(read_image(image.path)).astype(np.float64)
            count_one()
    ours = proposal_recall(truth, lambda id: own[id]).overall
    theirs = proposal_recall(truth, lambda id: part.store[id][: len(own[id])]).overall
    return (
        f"its proposals reach {ours.recall_50:.1%} of the objects at IoU 0.5 and {ours.recall_70:.1%} at 0.7; as many "
        f"of {detector.recipe.data.proposals}'s reach {theirs.recall_50:.1%} and {theirs.recall_70:.1%}"
    )
