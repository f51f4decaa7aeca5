"""`tag2box evaluate`: a run's detections, or those of any detector."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tag2box.cli.parsing import DATA_FORMATS, Parser, add_part, make_parser
from tag2box.cli.run_options import add_looking
from tag2box.errors import InputError

_OF_A_RUN = {
    "tta": False,
    "max_proposals": None,
    "device": "auto",
    "proposals": None,
    "workers": None,
    "skip_bad_images": False,
}


def parser() -> Parser:
    """Its options."""
    made = make_parser(
        "Score a detector against a data set that has boxes: average precision to the letter of the VOC devkit,\n"
        "CorLoc, COCO AP. RUN is a run directory of `tag2box train` or a detector's file.\n\n"
        "With --detections the boxes may come from any detector, and the pictures themselves are not needed. FILE is\n"
        "a COCO results JSON (image_id, category_id or category, bbox, score), or VOC comp4_det_*.txt files or a\n"
        "folder of them. image_id is the picture's name without extension, or its number; category_id counts from 1\n"
        "in the data set's class order (for a COCO data set, both are the file's own). Where every entry has a\n"
        "category, the file may count its classes as it likes.",
        "metrics:\n"
        "  voc07   average precision at IoU > 0.5, 11 points (VOC 2007)\n"
        "  voc12   average precision at IoU > 0.5, area under the curve (VOC 2010 and later)\n"
        "  corloc  share of a class's images whose top box is on one of its objects (IoU >= 0.5)\n"
        "  coco    COCO AP over IoU 0.5 to 0.95\n\n"
        f"{DATA_FORMATS}\n\n"
        "examples:\n"
        "  tag2box evaluate runs/voc VOCdevkit/VOC2007 --split test --tta\n"
        "  tag2box evaluate --detections results.json VOCdevkit/VOC2007 --split test\n"
        "  tag2box evaluate --detections comp4/ VOCdevkit/VOC2007 --split test --metrics voc07,voc12 --json s.json",
        usage="tag2box evaluate RUN DATA [options]\n       tag2box evaluate --detections FILE DATA [options]",
    )
    made.add_argument(
        "data", metavar="[RUN] DATA", nargs="+", type=Path, help="the data set (formats below), after the run"
    )
    made.add_argument("--detections", metavar="FILE", type=Path, help="the boxes to score, in place of a RUN's")
    add_part(made)
    made.add_argument("--val-fraction", metavar="F", type=float, help="score only a held-out share, say 0.2")
    made.add_argument("--seed", metavar="N", type=int, default=0, help="which part that is (default: 0)")
    made.add_argument("--metrics", metavar="LIST", default="voc07,corloc", help="default: voc07,corloc")
    made.add_argument("--json", dest="json_out", metavar="FILE", type=Path, help="write unrounded scores as JSON")
    made.add_argument("--pr-curve", metavar="FILE", type=Path, help="draw the precision-recall curves as PNG")
    run = made.add_argument_group("of a RUN")
    run.add_argument("--tta", action="store_true", help="average over the scales of training and mirrored pictures")
    run.add_argument("--max-proposals", metavar="N", type=int, help="the first so many count (default: the run's)")
    add_looking(run)
    return made


def run(data: Sequence[Path], detections: Path | None, metrics: str, **options: Any) -> None:
    """What was asked for."""
    *runs, source = data
    names = [name.strip() for name in metrics.split(",") if name.strip()]
    if detections is None and not runs:
        is_run = source.suffix == ".safetensors" or (source / "args.yaml").is_file() or (source / "weights").is_dir()
        expected = "DATA after the run" if is_run else "a RUN before DATA, or --detections FILE"
        raise InputError(f"expected {expected}, found only {source}")
    if len(runs) != (detections is None):
        raise InputError(f"expected RUN DATA, or --detections FILE DATA, found {' '.join(map(str, data))}: too many")
    from tag2box.commands.evaluate import evaluate_file, evaluate_run

    if detections is None:
        evaluate_run(runs[0], source, metrics=names, **options)
        return
    for name, default in _OF_A_RUN.items():
        if options.pop(name) != default:
            raise InputError(f"expected --{name.replace('_', '-')} with a RUN only, found it beside --detections")
    evaluate_file(source, detections, metrics=names, **options)
