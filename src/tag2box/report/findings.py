"""evaluation.json: what the page needs to know of the round that was kept. Small, whatever the size of the data set."""

from dataclasses import dataclass, replace
from pathlib import Path

from tag2box.files import write_atomically
from tag2box.report.plain import from_json, to_json

FILE = "evaluation.json"
PICTURES = "examples"
"""The folder in a run with the pictures that the page shows as best and worst, without boxes on them."""
SHOWN_FROM = 0.5
"""The score from which `predict` shows boxes unless told otherwise."""


@dataclass(frozen=True, slots=True)
class ClassScores:
    """What is known of a class; None where nobody can know."""

    name: str
    pictures: int | None = None
    """Tagged with it, to learn from."""
    objects: int | None = None
    """To be found in the held-out pictures."""
    ap: float | None = None
    """VOC 2007, per cent, on the held-out pictures."""
    corloc: float | None = None
    """Per cent, on the training pictures."""
    reached: float | None = None
    """Per cent of its objects with a proposal of IoU ≥ 0.5."""
    sureness: float | None = None
    """The median, over the training pictures tagged with it, of the best box's score."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Precision against recall of one class, at its true positives, some of them where there are many."""

    name: str
    ap: float | None
    recall: tuple[float, ...]
    precision: tuple[float, ...]
    marks: tuple[tuple[float, float, float], ...] = ()
    """Score, recall and precision where boxes are taken from the score of the counts, and from that of `predict`."""


@dataclass(frozen=True, slots=True)
class AtScore:
    """The held-out detections above a score, sorted into right and kinds of wrong."""

    score: float
    precision: float
    recall: float
    kinds: dict[str, int]
    """How many detections are of each kind (see `evaluation.mistakes`)."""
    objects: int
    found: int
    confusion: tuple[tuple[int, int, int], ...]
    """True class, class found and how often; the number of classes stands for "nothing". The most frequent ones."""


@dataclass(frozen=True, slots=True)
class ShownBox:
    """A box on an example."""

    role: str
    """truth, right, wrong, missed, or found where nobody knows."""
    name: str
    box: tuple[float, float, float, float]
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """A picture worth seeing."""

    group: str
    """best, wrong or missed; sure or unsure where there are no boxes to compare with."""
    id: str
    head: str
    """What it shows, in a word or two."""
    words: str
    boxes: tuple[ShownBox, ...]
    file: str = ""
    """In the folder of pictures."""
    size: tuple[int, int] = (0, 0)
    """Of the picture whose pixels the boxes are in."""


@dataclass(frozen=True, slots=True)
class Reached:
    """What the proposals of a part of the data reach, as shares of 1."""

    part: str
    images: int
    objects: int
    boxes: float
    """An image, on average."""
    recall_50: float | None
    recall_70: float | None
    overlap: float | None
    budgets: tuple[tuple[float, float | None, float | None], ...]
    """Boxes kept, recall at IoU 0.5 and at 0.7."""


@dataclass(frozen=True, slots=True)
class Findings:
    """All of it."""

    stage: str
    images: int
    """Training pictures looked at, which CorLoc is of."""
    test_images: int | None = None
    learnt_from: int | None = None
    """All training pictures: of many, a part is looked at."""
    map: float | None = None
    corloc: float | None = None
    shown: str = ""
    """Which pictures the examples are of: held-out or training."""
    classes: tuple[ClassScores, ...] = ()
    curves: tuple[Curve, ...] = ()
    at_score: AtScore | None = None
    examples: tuple[Example, ...] = ()
    proposals: tuple[Reached, ...] = ()
    finished: str = ""
    """The day, as 2025-12-31."""
    version: str = ""
    """Of tag2box, when this was found out."""

    def part_looked_at(self) -> str:
        """Which part of the training pictures CorLoc is of; nothing where it is of all.

        >>> Findings("round-1", images=836, learnt_from=5011).part_looked_at()
        '836 of 5,011'
        """
        partly = self.learnt_from is not None and self.images < self.learnt_from
        return f"{self.images:,} of {self.learnt_from:,}" if partly else ""


def write_findings(run: Path, findings: Findings) -> None:
    """Keep them in the run directory."""
    write_atomically(run / FILE, to_json(findings))


def read_findings(run: Path) -> Findings | None:
    """What was kept; None where nothing was, or where it is not ours."""
    try:
        found = from_json(Findings, (run / FILE).read_bytes())
    except (OSError, ValueError):
        return None
    count = len(found.classes)
    if found.at_score and any(not 0 <= place <= count for cell in found.at_score.confusion for place in cell[:2]):
        return replace(found, at_score=None)
    return found
