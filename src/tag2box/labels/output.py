"""An output of labels in one of the formats: what was asked for, checked, and written."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tag2box.about import ABOUT, write_about
from tag2box.data.records import Dataset
from tag2box.errors import InputError, require_choice
from tag2box.files import make_folder, require_writable
from tag2box.labels.coco import write_coco
from tag2box.labels.folder import FORMAT, require_free, whole_folder
from tag2box.labels.label_studio import write_label_studio
from tag2box.labels.naming import require_text
from tag2box.labels.placing import HOW
from tag2box.labels.records import LabelledSet
from tag2box.labels.voc import write_voc
from tag2box.labels.yolo import split_by_hash, write_yolo

FORMATS = ("coco", "voc", "yolo", "label-studio")
VAL_FRACTION = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What is to be written. Options that only some formats have are None where nobody asked."""

    format: str
    folder: Path
    overwrite: bool = False
    images_as: str | None = None
    """link, copy or none. By default a link, and nothing where an `image_root` says that the pictures are elsewhere."""
    val_fraction: float | None = None
    """Of yolo: the share for validation, 0.2 by default."""
    seed: int | None = None
    """Of yolo: which images those are."""
    image_root: str | None = None
    """Of label-studio: the address below which it finds the pictures."""

    def __post_init__(self) -> None:
        require_choice("--format", self.format, FORMATS)
        if self.images_as is not None:
            require_choice("--images-as", self.images_as, HOW)
        for option, format, value in (
            ("--val-fraction", "yolo", self.val_fraction),
            ("--seed", "yolo", self.seed),
            ("--image-root", "label-studio", self.image_root),
        ):
            if value is not None and format != self.format:
                raise InputError(f"expected {option} with --format {format} only, found it with {self.format}")

    @property
    def placed(self) -> str:
        """How pictures are placed."""
        return self.images_as or ("link" if self.image_root is None else "none")

    def require_room(self, dataset: Dataset, data_folder: Path) -> None:
        """Find out before the work that its result could not be written; makes the folders above it."""
        require_text(dataset.classes)
        if self.format == "yolo":
            split_by_hash(dataset.ids, *self._split)
        out = self.folder.resolve()
        if out.is_relative_to(data_folder.resolve()):
            raise InputError(
                f"expected a folder outside the data set {data_folder}, found {self.folder}; give another --out"
            )
        if any(image.path.absolute().is_relative_to(out) for image in dataset):
            raise InputError(
                f"expected a folder without pictures of the data set, found {self.folder}; give another --out"
            )
        require_free(self.folder, self.overwrite)
        make_folder(self.folder.parent)
        require_writable(self.folder.parent / ABOUT)

    def write(
        self,
        labelled: LabelledSet,
        facts: Mapping[str, Any],
        *,
        image_numbers: Mapping[str, int] | None = None,
        category_numbers: Mapping[str, int] | None = None,
    ) -> tuple[Path, int]:
        """The whole output, in place of an earlier one; `facts` are kept in it. Numbers are for coco.

        Returns the file or folder that other tools are shown, and how many linked pictures their EXIF tag turns.
        """
        with whole_folder(self.folder) as built:
            match self.format:
                case "coco":
                    numbers = {"image_numbers": image_numbers, "category_numbers": category_numbers}
                    main, turned = write_coco(labelled, built, images_as=self.placed, **numbers)
                case "voc":
                    main, turned = write_voc(labelled, built, images_as=self.placed)
                case "yolo":
                    fraction, seed = self._split
                    main, turned = write_yolo(labelled, built, images_as=self.placed, val_fraction=fraction, seed=seed)
                case _:
                    name = self.folder.resolve().name
                    main, turned = write_label_studio(
                        labelled, built, name=name, images_as=self.placed, image_root=self.image_root
                    )
            write_about(built, {"format": FORMAT, "written_as": self.format, **facts})
        return self.folder / main, turned

    @property
    def _split(self) -> tuple[float, int]:
        return VAL_FRACTION if self.val_fraction is None else self.val_fraction, self.seed or 0
