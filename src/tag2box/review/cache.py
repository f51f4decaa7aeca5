"""What the nets have said of pictures, kept in the review file so that a second start has it at once."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tag2box.data.records import TaggedImage
from tag2box.review.database import Database

if TYPE_CHECKING:
    from tag2box.review.look import Look


class LookCache:
    """Looks by image. One that was made from anything else than this time is not found."""

    def __init__(self, database: Database, made_from: Sequence[Any]) -> None:
        self._database, self._made_from = database, made_from

    def get(self, image: TaggedImage) -> "Look | None":
        """What the nets say, if it is known."""
        asked = "SELECT look FROM looks WHERE image = ? AND made_from = ?"
        rows = self._database.read(asked, image.id, self._key(image))
        return json.loads(rows[0][0]) if rows else None

    def put(self, image: TaggedImage, look: "Look") -> None:
        """Keep it."""
        with self._database.write():
            row = (image.id, self._key(image), json.dumps(look))
            self._database.change("INSERT OR REPLACE INTO looks VALUES (?, ?, ?)", *row)

    def doubts(self, images: Sequence[TaggedImage]) -> dict[str, dict[str, dict[str, float]]]:
        """Those of the looks at all the images that have been looked at."""
        rows = self._database.read("SELECT image, made_from, json_extract(look, '$.doubts') FROM looks")
        found = {image: (key, value) for image, key, value in rows}
        return {
            image.id: json.loads(found[image.id][1])
            for image in images
            if image.id in found and found[image.id][0] == self._key(image)
        }

    def _key(self, image: TaggedImage) -> str:
        return json.dumps([*self._made_from, fingerprint(image), image.tags])


def fingerprint(image: TaggedImage) -> str:
    """Tells a picture from another one of its name, without reading it."""
    return "{}×{} pixels, {} bytes".format(*image.size, image.path.stat().st_size)


def file_mark(path: Path) -> list[int]:
    """Tells a file from a later one in its place, without reading it."""
    about = path.stat()
    return [about.st_size, about.st_mtime_ns]


def note_pictures(database: Database, images: Sequence[TaggedImage]) -> list[str]:
    """Remember which pictures are reviewed; the ids of those whose decisions were made on another picture."""
    marks = {image.id: fingerprint(image) for image in images}
    with database.write():
        known: Mapping[str, str] = dict(database.read("SELECT image, fingerprint FROM pictures"))
        decided = {image for (image,) in database.read("SELECT DISTINCT image FROM decisions")}
        other = [id for id, mark in marks.items() if id in decided and known.get(id, mark) != mark]
        for id, mark in marks.items():
            if not other and known.get(id) != mark:
                database.change("INSERT OR REPLACE INTO pictures VALUES (?, ?)", id, mark)
    return other
