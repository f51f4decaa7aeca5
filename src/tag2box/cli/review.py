"""`tag2box review`: the nets' boxes looked over on a local web page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tag2box.cli.parsing import DATA_FORMATS, Parser, add_part, make_parser
from tag2box.cli.run_options import add_by, add_looking, add_only, add_run_and_data, run_and_data
from tag2box.errors import InputError


def parser() -> Parser:
    """Its options."""
    made = make_parser(
        "Look over what a run has found, on a web page that only this machine can reach: accept boxes, correct, draw\n"
        "or delete them, or say that a tag is wrong. Pictures come in order of uncertainty, so that the first minutes\n"
        "count most; --by is that of `tag2box rank`. RUN is a run directory of `tag2box train` with both nets. Ctrl-C\n"
        "ends the review.\n\n"
        "Every decision is kept at once in RUN/review.sqlite; the same command goes on from there. `train --reviewed`\n"
        "learns from them, and --export writes them as boxes.json for `label --known`.\n"
        "Needs pip install 'tag2box[review]', or '.[review]' in the folder of tag2box.",
        f"{DATA_FORMATS}\n\n"
        "examples:\n"
        "  tag2box review runs/photos-1 photos/\n"
        "  tag2box review runs/voc VOCdevkit/VOC2007 --split trainval --most 250 --port 8000 --no-browser\n"
        "  tag2box review runs/photos-1 photos/ --only sheep --only chair\n"
        "  tag2box review runs/photos-1 photos/ --by self-diversity --most 100\n"
        "  tag2box review runs/photos-1 photos/ --export boxes.json",
        usage="tag2box review RUN DATA [options]\n       tag2box review RUN DATA --export FILE",
    )
    add_run_and_data(made)
    add_part(made)
    made.add_argument("--most", metavar="N", type=int, help="review so many pictures in all, the most uncertain ones")
    add_by(made)
    add_only(made, "review pictures with this tag, ordered by it")
    made.add_argument("--db", metavar="FILE", type=Path, help="where decisions are kept (default: RUN/review.sqlite)")
    made.add_argument("--export", metavar="FILE", type=Path, help="write the decisions as boxes.json and exit")
    made.add_argument("--port", metavar="N", type=int, default=0, help="of the page (default: a free one)")
    made.add_argument("--no-browser", action="store_true", help="print the address only")
    add_looking(made)
    return made


def run(data: Sequence[Path], export: Path | None, no_browser: bool, **options: Any) -> None:
    """What was asked for."""
    source, dataset = run_and_data(data)
    from tag2box.commands.review import export_decisions, review

    if export is not None:
        if options["only"]:
            raise InputError("expected --export alone, which writes all decisions, found --only beside it")
        place = {name: options[name] for name in ("db", "split", "images")}
        export_decisions(source, dataset, export, **place)
        return
    review(source, dataset, browser=not no_browser, **options)
