"""`tag2box export`: the detector for deployment."""

from pathlib import Path
from typing import Any

from tag2box.cli.parsing import DATA_FORMATS, Parser, make_parser


def parser() -> Parser:
    """Its options."""
    made = make_parser(
        "Write the detector of a run as one ONNX file that needs neither PyTorch nor tag2box. RUN is a run directory\n"
        "of `tag2box train` or a detector's file.\n\n"
        "The file takes a picture of any size and proposals (that of a detector which proposes itself, see `tag2box\n"
        "rpn`, takes a picture alone), and gives boxes, scores and labels: resizing, the net\n"
        "and non-maximum suppression are inside, class names and recipe in its metadata. Before it gets its name it\n"
        "is compared with PyTorch on twenty pictures: boxes to half a pixel, scores to 0.001. What does not agree is\n"
        "not kept (exit code 1). Needs pip install 'tag2box[export]', or '.[export]' in the folder of tag2box. How to\n"
        "use the file: docs/deploy.md",
        f"{DATA_FORMATS}\n\n"
        "examples:\n"
        "  tag2box export runs/photos-1\n"
        "  tag2box export runs/photos-1 --out detector.onnx --score 0.5 --max-detections 20\n"
        "  tag2box export runs/voc --scale 600 --check VOCdevkit/VOC2007 --split test",
        usage="tag2box export RUN [options]",
    )
    made.add_argument("run", metavar="RUN", type=Path, help="a run directory or a detector's file")
    made.add_argument("--format", metavar="NAME", default="onnx", help="onnx (default)")
    made.add_argument("--out", metavar="FILE", type=Path, help="default: RUN/weights/detector.onnx")
    made.add_argument(
        "--scale", metavar="N", type=int, help="short side that pictures are seen at (default: the run's)"
    )
    made.add_argument("--max-proposals", metavar="N", type=int, help="the first so many count (default: the run's)")
    usual = made.add_argument_group("what the file takes where it is not told otherwise")
    usual.add_argument("--score", metavar="F", type=float, default=0.5, help="least of a detection (default: 0.5)")
    usual.add_argument(
        "--nms", metavar="F", type=float, help="IoU above which the lesser box goes (default: the run's)"
    )
    usual.add_argument("--max-detections", metavar="N", type=int, help="of a picture (default: the run's)")
    check = made.add_argument_group("the comparison with PyTorch")
    check.add_argument("--check", metavar="DATA", type=Path, help="on pictures of this data set (default: drawn ones)")
    check.add_argument(
        "--split", metavar="NAME", help="which part of it: trainval, test, … (default: the training part)"
    )
    check.add_argument("--images", metavar="DIR", type=Path, help="where a COCO file's pictures are, if not beside it")
    check.add_argument("--no-check", action="store_true", help="write without comparing")
    return made


def run(run: Path, **options: Any) -> None:
    """What was asked for."""
    from tag2box.commands.export import export_run

    export_run(run, **options)
