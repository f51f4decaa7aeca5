"""Contact sheets of a data set: with its annotated objects, and with the proposals that come nearest to them."""

from pathlib import Path

from PIL import Image

from tag2box.boxes import iou
from tag2box.data import Dataset, GroundTruth, TaggedImage, read_image
from tag2box.proposals.store import ProposalStore
from tag2box.report.colours import colours_of
from tag2box.report.fonts import written
from tag2box.report.sheet import Photo, draw_sheet

GOOD, FAIR, MISSED = "#00a651", "#ff8a00", "#e4002b"


def objects_sheet(dataset: Dataset, truth: GroundTruth, out: Path, *, rows: int = 4, columns: int = 6) -> None:
    """The first pictures with their tags and annotated objects, one colour per class."""
    colours, words = colours_of(dataset.classes), written(dataset.classes)

    def photo(image: TaggedImage) -> Photo:
        own = truth.subset([image.id])
        boxes = [(box, colours[truth.classes[c]]) for c, box in zip(own.labels, own.boxes.tolist(), strict=True)]
        return Photo(_open(image), boxes, [(words[tag], colours[tag]) for tag in image.tags])

    draw_sheet([photo(image) for image in dataset.images[: rows * columns]], out, columns=columns)


def proposals_sheet(
    dataset: Dataset, truth: GroundTruth, store: ProposalStore, out: Path, *, rows: int = 3, columns: int = 6
) -> None:
    """Each object's best proposal, on pictures from all over the set: green at IoU ≥ 0.7, orange ≥ 0.5, else red."""

    def colour_of(overlap: float) -> str:
        return GOOD if overlap >= 0.7 else FAIR if overlap >= 0.5 else MISSED

    def photo(image: TaggedImage) -> Photo:
        own, proposals = truth.subset([image.id]), store[image.id]
        if not len(own) or not len(proposals):
            return Photo(_open(image), [], [])
        overlaps = iou(own.boxes, proposals.astype(float))  # [objects, proposals]
        best, value = overlaps.argmax(axis=1), overlaps.max(axis=1)
        boxes = [(proposals[i].tolist(), colour_of(overlap)) for i, overlap in zip(best, value, strict=True)]
        return Photo(_open(image), boxes, [(f"{overlap:.2f}", colour_of(overlap)) for overlap in value[:4]])

    step = max(1, len(dataset) // (rows * columns))
    draw_sheet([photo(image) for image in dataset.images[::step][: rows * columns]], out, columns=columns)


def _open(image: TaggedImage) -> Image.Image:
    return Image.fromarray(read_image(image.path))
