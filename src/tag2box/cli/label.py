"""`tag2box label`: a tagged data set with boxes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tag2box.cli.parsing import DATA_FORMATS, Parser, add_part, make_parser
from tag2box.cli.run_options import add_looking, add_run_and_data, run_and_data
from tag2box.errors import InputError


def parser() -> Parser:
    """Its options."""
    made = make_parser(
        "Write a tagged data set with boxes, for other tools to train on or to look over. Every tagged class has at\n"
        "least one box in its picture, and no class has one that is not tagged. RUN is a run directory of\n"
        "`tag2box train` or a detector's file. Where DATA has boxes, the labels are scored against them.",
        "formats (in the folder --out):\n"
        "  coco          annotations/instances_SPLIT.json, images/: pycocotools, Detectron2, CVAT, FiftyOne\n"
        "  voc           Annotations/, ImageSets/Main/, JPEGImages/: a VOC devkit\n"
        "  yolo          data.yaml, images/, labels/, split into train and val: Ultralytics\n"
        "  label-studio  tasks.json with predictions to correct, config.xml, images/\n\n"
        f"{DATA_FORMATS}\n\n"
        "examples:\n"
        "  tag2box label runs/photos-1 photos/ --format yolo\n"
        "  tag2box label runs/photos-1 photos/ --format label-studio --known boxes.json --out to-check\n"
        "  tag2box label runs/voc VOCdevkit/VOC2007 --split trainval --format coco --score 0.9 --images-as none",
        usage="tag2box label RUN DATA --format FORMAT [options]",
    )
    add_run_and_data(made)
    made.add_argument("--format", metavar="NAME", help="coco, voc, yolo or label-studio")
    made.add_argument("--out", metavar="DIR", type=Path, help="where to (default: a new folder DATA-FORMAT here)")
    made.add_argument("--overwrite", action="store_true", help="replace labels that tag2box has written there")
    add_part(made)
    made.add_argument(
        "--known", metavar="FILE", type=Path, help="boxes that a person has given (review.sqlite, or boxes.json)"
    )
    made.add_argument(
        "--by",
        metavar="NET",
        default="prediction",
        help="prediction (default), or conditional: what its samples agree on",
    )
    made.add_argument(
        "--score",
        metavar="X",
        type=float,
        help="the least that a label must have, but for the best of each tag (default: 0.7, conditional: 0.1)",
    )
    made.add_argument("--parts", action="store_true", help="keep boxes that lie inside a larger one of their class")
    made.add_argument("--images-as", metavar="HOW", help="link (default), copy or none: the pictures beside the labels")
    made.add_argument("--val-fraction", metavar="F", type=float, help="yolo: the share for validation (default: 0.2)")
    made.add_argument("--seed", metavar="N", type=int, help="yolo: which images that is (default: 0)")
    made.add_argument(
        "--image-root", metavar="URL", help="label-studio: where it finds the pictures, if not as local files"
    )
    made.add_argument("--tta", action="store_true", help="average over the scales of training and mirrored pictures")
    made.add_argument("--max-proposals", metavar="N", type=int, help="the first so many count (default: the run's)")
    add_looking(made)
    return made


def run(
    data: Sequence[Path],
    format: str | None,
    out: Path | None,
    overwrite: bool,
    images_as: str | None,
    val_fraction: float | None,
    seed: int | None,
    image_root: str | None,
    **options: Any,
) -> None:
    """What was asked for."""
    source, dataset = run_and_data(data)
    if format is None:
        raise InputError("expected --format coco, voc, yolo or label-studio, found none")
    from tag2box.commands.label import default_folder, label_dataset
    from tag2box.labels.output import Output

    output = Output(
        format=format,
        folder=default_folder(dataset, format) if out is None else out,
        overwrite=overwrite,
        images_as=images_as,
        val_fraction=val_fraction,
        seed=seed,
        image_root=image_root,
    )
    label_dataset(source, dataset, output, **options)
