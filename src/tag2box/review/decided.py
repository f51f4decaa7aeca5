"""What has been decided, in the form that `train` and `label` take."""

from collections.abc import Sequence

from tag2box.data.records import TaggedImage
from tag2box.known import Known
from tag2box.review.store import Store


def known_of(store: Store, classes: Sequence[str], images: Sequence[TaggedImage]) -> Known:
    """The decisions on these classes in these images, in their order."""
    known, found = store.known(), {}
    for image in images:
        boxes = known.get(image.id, {})
        own = {name: [(x0, y0, x1, y1) for x0, y0, x1, y1 in boxes[name]] for name in classes if name in boxes}
        if own:
            found[image.id] = own
    return found
