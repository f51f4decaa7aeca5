"""`tag2box predict`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tag2box.cli.parsing import Parser, make_parser


def parser() -> Parser:
    """Its options."""
    made = make_parser(
        "Look for objects in new pictures: the boxes as predictions.json, and the pictures with the boxes on them.\n"
        "RUN is a run directory of `tag2box train` or a detector's file.\n\n"
        "IMAGE is a picture, a folder (every picture in it, at any depth), a pattern in quotes, or a video. Two\n"
        "pictures of one name are told apart by their folders.",
        "predictions.json is a list in the form of COCO results: image_id (the picture's name without extension;\n"
        "of a frame, the video's and the frame's number, clip/000120), category_id (from 1 in the order of the\n"
        "classes), category, bbox (x, y, width, height) and score. `tag2box evaluate --detections` reads it.\n\n"
        "examples:\n"
        "  tag2box predict runs/photos-1 holiday/\n"
        '  tag2box predict runs/photos-1 a.jpg "more/**/*.png" --score 0.8 --out found\n'
        "  tag2box predict runs/photos-1 clip.mp4 --every 0.5s\n"
        "  tag2box predict best.safetensors pictures/ --no-pictures --score 0.001 --batch 8 --tta",
        usage="tag2box predict RUN IMAGE... [options]",
    )
    made.add_argument("run", metavar="RUN", type=Path, help="a run directory or a detector's file")
    made.add_argument("images", metavar="IMAGE", nargs="+", type=str, help="pictures, folders, patterns, videos")
    made.add_argument("--score", metavar="X", type=float, default=0.5, help="the least to be shown (default: 0.5)")
    made.add_argument(
        "--max-detections", metavar="N", type=int, help="of a picture (default: the recipe's, mostly 100)"
    )
    made.add_argument("--tta", action="store_true", help="average over the scales of training and mirrored pictures")
    made.add_argument("--max-proposals", metavar="N", type=int, help="the first so many count (default: the run's)")
    made.add_argument("--batch", metavar="N", type=int, default=1, help="pictures of one size at once (default: 1)")
    made.add_argument("--every", metavar="N", type=str, help="of a video each N-th frame, or Ns: one in N seconds")
    made.add_argument("--out", metavar="DIR", type=Path, help="new or empty (default: predictions, -2, -3, …)")
    made.add_argument("--no-pictures", action="store_true", help="draw none, write predictions.json alone")
    made.add_argument("--device", metavar="NAME", default="auto", help="auto (default), cpu or cuda")
    made.add_argument("--workers", metavar="N", type=int, help="processes for proposals (default: one per core)")
    made.add_argument("--skip-bad-images", action="store_true", help="go on without pictures that cannot be read")
    return made


def run(run: Path, images: Sequence[str], no_pictures: bool, **options: Any) -> None:
    """What was asked for."""
    from tag2box.commands.predict import predict

    predict(run, images, pictures=not no_pictures, **options)
