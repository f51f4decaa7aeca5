"""`tag2box predict`: a detector looks at new pictures and videos; what it finds is drawn on them and kept as JSON."""

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image
from rich.console import Console

from tag2box import __version__
from tag2box.about import read_about, write_about
from tag2box.commands.predict_inputs import Input, find_inputs, passed_over, without_bad
from tag2box.commands.predict_looking import Looking, Shot
from tag2box.commands.predict_video import parse_every, read_frames, write_video
from tag2box.detections import Detections
from tag2box.detector import open_detector
from tag2box.errors import InputError, name_some, require_at_least_one, require_share
from tag2box.evaluation.tables import counted
from tag2box.files import atomic_path, make_folder, require_writable, write_atomically
from tag2box.inference import Found
from tag2box.pipeline import AHEAD, WORTH_A_PROCESS, Pixels, count_workers, worker_pool
from tag2box.progress import progress
from tag2box.report.annotate import annotate
from tag2box.report.colours import colours_of

OUT, RESULTS, FORMAT = "predictions", "predictions.json", "tag2box predictions 1"
Draw = Callable[[Pixels, Found], Image.Image]


def predict(
    run: Path,
    images: Sequence[str],
    *,
    out: Path | None = None,
    score: float = 0.5,
    max_detections: int | None = None,
    tta: bool = False,
    max_proposals: int | None = None,
    batch: int = 1,
    every: str | None = None,
    device: str = "auto",
    workers: int | None = None,
    pictures: bool = True,
    skip_bad_images: bool = False,
) -> Path:
    """Look at files, folders, patterns and videos; the folder with predictions.json and the annotated pictures."""
    frames = parse_every("1" if every is None else every)
    require_share("score", score)
    require_at_least_one("max-detections", max_detections)
    require_at_least_one("batch", batch)
    inputs = find_inputs(images)
    if every is not None and not any(one.is_video for one in inputs):
        raise InputError("every: expected a video to take frames from, found pictures only")
    detector = open_detector(run, device)
    detector.look_at_most(max_proposals)
    inputs, bad = without_bad(inputs, skip=skip_bad_images)
    total = sum(math.ceil(one.frames / frames.step(one.rate)) for one in inputs)
    number = count_workers(workers, total)
    most = detector.recipe.inference.max_detections if max_detections is None else max_detections
    processes = number > 1 and total >= WORTH_A_PROCESS * number
    facts = {"format": FORMAT, "version": __version__, "run": str(run), "score": score, "max_detections": most}
    facts |= {"tta": tta, "max_proposals": detector.recipe.looked_at, "finished": False}
    folder, began = _make_folder(out), time.monotonic()
    write_about(folder, facts)
    if others := passed_over(images, inputs):
        what = f"{counted(len(others), 'video')} in folders: {name_some(map(str, others))}"
        print(f"passed over {what}; name them, and they are looked at", file=sys.stderr)
    try:
        with worker_pool(number, processes=processes) as pool, progress("predicting", total) as count_one:
            looking = Looking(
                detector=detector,
                settings=replace(detector.settings(tta=tta), min_score=score, max_detections=most),
                batch=batch,
                pool=pool,
                ahead=AHEAD * number,
                skip=skip_bad_images,
                count_one=count_one,
                bad=bad,
            )
            draw = _drawer(detector.classes) if pictures else None
            _look_at_pictures(looking, [one for one in inputs if not one.is_video], folder, draw)
            for one in inputs:
                if one.is_video:
                    _look_at_video(looking, one, frames.step(one.rate), folder, draw)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; {folder} holds the pictures so far, and no {RESULTS}") from None
    found = looking.detections()
    write_atomically(folder / RESULTS, as_coco_results(found))
    write_about(folder, {**facts, "finished": True, "pictures": len(found.ids), "detections": len(found)})
    workforce = f"{number} process{'es' * (number > 1)}" if processes else counted(number, "thread")
    _report(folder, found, looking, time.monotonic() - began, workforce, drawn=pictures)
    return folder


def as_coco_results(found: Detections) -> str:
    """COCO results as JSON, a line for each detection; classes by number, from 1, and by name."""
    rows = zip(found.images, found.labels, found.scores.tolist(), found.boxes.tolist(), strict=True)
    entries = [
        {
            "image_id": found.ids[image],
            "category_id": int(label) + 1,
            "category": found.classes[label],
            "bbox": [round(side, 2) for side in (x0, y0, x1 - x0, y1 - y0)],
            "score": round(score, 5),
        }
        for image, label, score, (x0, y0, x1, y1) in rows
    ]
    lines = ",\n".join(_line(entry) for entry in entries)
    return f"[\n{lines}\n]\n" if entries else "[]\n"


def _line(entry: dict[str, Any]) -> str:
    """As people read it, in UTF-8; a file name may have bytes that are none, and is then escaped."""
    line = json.dumps(entry, ensure_ascii=False)
    return line if line == line.encode(errors="replace").decode() else json.dumps(entry)


def _make_folder(out: Path | None) -> Path:
    """The folder asked for, new or empty, since it may not be that of the pictures, or one of a `predict` that was
    stopped, which is begun anew. Else the next free one.
    """
    folder, number = out or Path(OUT), 1
    while out is None and folder.exists():
        number += 1
        folder = Path(f"{OUT}-{number}")
    stopped = read_about(folder).get("finished") is False
    if folder.is_dir() and any(folder.iterdir()) and not stopped:
        raise InputError(f"out: expected a new or an empty folder, found files in {folder}")
    make_folder(folder)
    require_writable(folder / RESULTS)
    return folder


def _drawer(classes: Sequence[str]) -> Draw:
    colours = colours_of(classes)

    def draw(pixels: Pixels, found: Found) -> Image.Image:
        rows = zip(found.labels.tolist(), found.scores.tolist(), found.boxes.tolist(), strict=True)
        return annotate(pixels, [(classes[label], score, tuple(box)) for label, score, box in rows], colours)

    return draw


def _look_at_pictures(looking: Looking, inputs: Sequence[Input], folder: Path, draw: Draw | None) -> None:
    def keep(shot: Shot, pixels: Pixels, found: Found) -> None:
        if draw is None:
            return
        path = folder / inputs[shot.place].out
        make_folder(path.parent)
        with atomic_path(path) as temporary:
            draw(pixels, found).save(temporary, quality=92, subsampling=0)  # full colour resolution: lines are thin

    looking.look((Shot(one.id, one.path, place) for place, one in enumerate(inputs)), keep)


def _look_at_video(looking: Looking, video: Input, step: int, folder: Path, draw: Draw | None) -> None:
    """Frame ids are the video's with the frame's number; the annotated frames play at the video's own pace."""
    shots = (Shot(f"{video.id}/{number:06d}", pixels, number) for number, pixels in read_frames(video.path, step))
    if draw is None:
        looking.look(shots, lambda *_: None)
        return
    with write_video(folder / video.out, video.rate / step) as add:
        looking.look(shots, lambda shot, pixels, found: add(shot.place, draw(pixels, found)))


def _report(folder: Path, found: Detections, looking: Looking, seconds: float, workforce: str, *, drawn: bool) -> None:
    if looking.bad:
        print(f"skipped {counted(len(looking.bad), 'bad image')}: {', '.join(looking.bad)}", file=sys.stderr)
    number, least = len(found.ids), looking.settings.min_score
    by_class = [f"{found.classes[label]} {count}" for label, count in Counter(found.labels.tolist()).most_common()]
    what = f": {name_some(by_class, 8)}" if by_class else f" with a score of {least:g} or more (--score lowers it)"
    net, drawing = looking.seconds["net"], looking.seconds["drawing"]
    waiting = max(0.0, seconds - net - drawing)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{counted(len(found), 'detection')} in {counted(number, 'picture')}{what}")
    console.print(
        f"{number / max(seconds, 1e-9):.1f} pictures/s: of {seconds:.1f} s the net took {net:.1f}, "
        f"drawing {drawing:.1f}, waiting for {'pictures' if looking.detector.proposes else 'proposals'} {waiting:.1f} "
        f"({workforce})"
    )
    console.print(f"in {folder}: {RESULTS}{' and the annotated pictures' if drawn else ''}")
