"""`tag2box export`: a run's detector as one file for deployment, tried before it gets its name."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tag2box.config import Inference
from tag2box.errors import InputError, WorkError, did_you_mean, name_some, require_packages
from tag2box.evaluation.tables import counted
from tag2box.files import atomic_path, make_folder, require_writable

if TYPE_CHECKING:
    from tag2box.export.check import Comparison, Sample

FORMATS = ("onnx",)
SAMPLES = 20
"""Pictures that a file is tried on."""


class ExportError(WorkError):
    """What was made of a detector does not do what the detector does. The message is one line."""


def export_run(
    run: Path,
    *,
    format: str = "onnx",
    out: Path | None = None,
    score: float = 0.5,
    nms: float | None = None,
    max_detections: int | None = None,
    scale: int | None = None,
    max_proposals: int | None = None,
    check: Path | None = None,
    split: str | None = None,
    images: Path | None = None,
    no_check: bool = False,
) -> Path:
    """Write the detector of a run directory or file, compare it with PyTorch unless told not to, and say where it is.

    score, nms, max_detections: what the file takes where it is not told otherwise; by default 0.5 and the recipe's.
    scale: the short side at which it sees pictures; by default the recipe's, which must then be one.
    max_proposals: the first so many count; by default the recipe's.
    check: a data set to compare on, in place of drawn pictures; `split` and `images` say which part of it.
    """
    _require_sense(format, check, split, images, no_check)
    require_packages("onnx", "onnxscript", *([] if no_check else ["onnxruntime"]), extra="export")
    from tag2box.detector import open_detector
    from tag2box.export.check import compare
    from tag2box.export.file import write_onnx

    detector = open_detector(run, "cpu")
    detector.look_at_most(max_proposals)
    recipe = detector.recipe
    settings = _settings(recipe.inference, score, nms, max_detections, scale)
    path = _path(run, out)
    make_folder(path.parent)
    require_writable(path)
    samples = [] if no_check else _samples(None if detector.proposes else recipe.data.proposals, check, split, images)
    console = Console(highlight=False, soft_wrap=True, markup=False)  # paths may have brackets
    with atomic_path(path) as temporary:
        with Console(stderr=True).status("writing the graph"):
            write_onnx(temporary, detector, settings)
        if samples:
            # As many detections as evaluation has, so that there is something to compare.
            much = replace(recipe.inference, scales=settings.scales, flip=False, nms=settings.nms)
            _report(console, compare(temporary, detector, samples, much))
    console.print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, classes {name_some(detector.classes)}")
    return path


def _require_sense(format: str, check: Path | None, split: str | None, images: Path | None, no_check: bool) -> None:
    if format not in FORMATS:
        raise InputError(f"expected a format ({', '.join(FORMATS)}), found '{format}'{did_you_mean(format, FORMATS)}")
    if no_check and check is not None:
        raise InputError("expected --check DATA or --no-check, found both")
    for name, value in (("split", split), ("images", images)):
        if value is not None and check is None:
            raise InputError(f"expected --{name} with --check DATA only, found it without")


def _settings(own: Inference, score: float, nms: float | None, most: int | None, scale: int | None) -> Inference:
    """The recipe's with what was asked for, looked at once: at one scale and not mirrored."""
    if scale is None and len(own.scales) != 1:
        raise InputError(f"expected --scale N, found none, and {', '.join(map(str, own.scales))} in the recipe")
    settings = replace(
        own,
        scales=own.scales if scale is None else (scale,),
        flip=False,
        min_score=score,
        nms=own.nms if nms is None else nms,
        max_detections=own.max_detections if most is None else most,
    )
    for name, share in (("score", settings.min_score), ("nms", settings.nms)):
        if not 0 <= share <= 1:
            raise InputError(f"expected --{name} between 0 and 1, found {share}")
    for name, number in (("max-detections", settings.max_detections), ("scale", settings.scales[0])):
        if number < 1:
            raise InputError(f"expected --{name} of 1 or more, found {number}")
    return settings


def _path(run: Path, out: Path | None) -> Path:
    """Where the file goes: among the run's weights, or beside the detector's file."""
    if out is None:
        return run / "weights" / "detector.onnx" if run.is_dir() else run.with_suffix(".onnx")
    if out.suffix.lower() != ".onnx":
        raise InputError(f"expected --out with the name of an .onnx file, found {out}")
    return out


def _samples(preset: str | None, data: Path | None, split: str | None, images: Path | None) -> "list[Sample]":
    from tag2box.export.samples import dataset_samples, drawn_samples

    if data is None:
        return drawn_samples(SAMPLES, preset)
    return dataset_samples(SAMPLES, preset, data, split=split, images=images)


def _report(console: Console, found: "Comparison") -> None:
    """Say how well the two agree, or refuse the file."""
    if found.wrong:
        raise ExportError(f"the exported model does not agree with PyTorch, so it is not kept: {found.wrong}")
    same = (
        "all the same" if found.same == found.detections else f"{found.same:,} the same, others on a threshold's edge"
    )
    console.print(
        f"compared on {counted(found.pictures, 'picture')}: {counted(found.detections, 'detection')}, {same}; "
        f"boxes differ by at most {found.worst_box:.2g} pixels, scores by {found.worst_score:.1g}"
    )
    ours, theirs = (1000 * seconds / found.pictures for seconds in (found.torch_seconds, found.onnx_seconds))
    console.print(
        f"PyTorch {ours:.1f} ms a picture, onnxruntime {theirs:.1f} ms: {ours / theirs:.1f} times as fast, "
        f"on {counted(found.threads, 'thread')}"
    )
