"""VOC annotations: one XML file per picture, with every object in it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element, ParseError

import numpy as np
from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from tag2box.data.files import unreadable
from tag2box.data.ground_truth import GroundTruth, require_inside
from tag2box.errors import InputError, did_you_mean

_CORNERS = ("xmin", "ymin", "xmax", "ymax")


class Object(NamedTuple):
    """One object of an annotation."""

    name: str
    box: tuple[float, float, float, float]
    difficult: bool


@dataclass(frozen=True, slots=True)
class Annotation:
    """What one XML file says."""

    file: Path
    size: tuple[int, int]
    """Width and height; (0, 0) where the file does not tell."""
    objects: tuple[Object, ...]

    def require_known(self, classes: Iterable[str]) -> None:
        """Every object has to be of a class of the data set."""
        for item in self.objects:
            if item.name not in classes:
                hint = did_you_mean(item.name, classes)
                raise InputError(f"{self.file}: found an object '{item.name}', which no class list has{hint}")

    def sure_names(self) -> set[str]:
        """What the picture is tagged with: names of objects, those marked difficult left out."""
        return {item.name for item in self.objects if not item.difficult}


def read_annotation(file: Path) -> Annotation:
    """Read one XML file. Entity tricks (billion laughs, outside files) are refused."""
    try:
        root: Element = fromstring(file.read_bytes())
        objects = tuple(_read_object(element) for element in root.iterfind("object"))
        return Annotation(file, _read_size(root.find("size")), objects)
    except DefusedXmlException as error:
        raise InputError(f"{file}: expected a plain annotation, found XML entities ({type(error).__name__})") from error
    except ParseError as error:
        raise InputError(f"{file}: expected well-formed XML, found {error}") from error  # which names line and column
    except ValueError as error:
        raise InputError(f"{file}: {error}") from error
    except OSError as error:
        raise unreadable(file, error) from error


def _read_object(element: Element) -> Object:
    """Direct children only: the people of 2012 have parts (hands, heads) with names and boxes of their own."""
    name = (element.findtext("name") or "").strip()
    if not name:
        raise ValueError("expected a name in each object, found one without")
    box = element.find("bndbox")
    xmin, ymin, xmax, ymax = (_number(box, corner, name) for corner in _CORNERS)
    difficult = (element.findtext("difficult") or "0").strip() not in ("0", "")
    return Object(name, (xmin - 1, ymin - 1, xmax, ymax), difficult)


def _number(parent: Element | None, tag: str, name: str) -> float:
    text = None if parent is None else parent.findtext(tag)
    try:
        return float(text or "")  # 2012 has some that are not whole
    except ValueError:
        raise ValueError(f"expected a number as {tag} of the object '{name}', found {text!r}") from None


def _read_size(element: Element | None) -> tuple[int, int]:
    if element is None:
        return 0, 0
    return int(_number(element, "width", "size")), int(_number(element, "height", "size"))


def gather(classes: tuple[str, ...], ids: Sequence[str], annotations: Sequence[Annotation]) -> GroundTruth:
    """The annotations of a split as one ground truth."""
    for annotation in annotations:
        annotation.require_known(classes)
    number = {name: label for label, name in enumerate(classes)}
    counts = [len(annotation.objects) for annotation in annotations]
    objects = [item for annotation in annotations for item in annotation.objects]
    images = np.repeat(np.arange(len(ids)), counts)
    boxes = np.array([item.box for item in objects], dtype=np.float64).reshape(-1, 4)
    sizes = np.array([annotation.size for annotation in annotations], dtype=np.int64).reshape(-1, 2)
    require_inside(boxes, sizes[images], lambda row: str(annotations[images[row]].file))
    return GroundTruth(
        classes=classes,
        ids=tuple(ids),
        images=images,
        labels=np.array([number[item.name] for item in objects], dtype=np.int64),
        boxes=boxes,
        difficult=np.array([item.difficult for item in objects], dtype=bool),
        crowd=np.zeros(len(objects), dtype=bool),
        sizes=sizes if sizes.all() else None,
    )
