"""Pictures as the page shows them: as our reader sees them, no larger than a screen needs."""

import io
from functools import lru_cache
from pathlib import Path

from PIL import Image

from tag2box.data.images import read_image

LONGEST = 1600
KEPT = 64
"""Pictures in memory, some tens of megabytes: those around the one that is looked at."""


@lru_cache(maxsize=KEPT)
def shown_picture(path: Path) -> bytes:
    """A JPEG of a picture: upright, RGB, the long side at most LONGEST pixels."""
    image = Image.fromarray(read_image(path))
    image.thumbnail((LONGEST, LONGEST), Image.Resampling.LANCZOS, reducing_gap=3.0)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=92, subsampling=0)
    return file.getvalue()
