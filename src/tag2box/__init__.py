"""Photos with tags in, an object detector out."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tag2box.detector import Detector

__version__ = "0.1.0"
__all__ = ["__version__", "load", "train"]


def train(
    data: Path | str,
    recipe: Path | str | None = None,
    *,
    out: Path | str | None = None,
    split: str | None = None,
    val_split: str | None = None,
    val_fraction: float | None = None,
    images: Path | str | None = None,
    proposals: Path | str | None = None,
    reviewed: Path | str | None = None,
    warm_start: Path | str | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    device: str = "auto",
    workers: int | None = None,
    skip_bad_images: bool = False,
) -> Path:
    """Train a detector on tagged pictures; the run directory, which `load` takes. `tag2box train` does the same.

    data: a VOC devkit, a COCO file, a folder per class, or a folder with tags.csv or metadata.jsonl.
    recipe: `"fast"` (when nothing is said), for a CPU; `"voc07"` and `"paper"`, for GPUs; `"demo"`, or a YAML file.
    out: the run directory; by default the next free one under runs/. With `resume` a run there goes on.
    split: which part of the data to learn from; val_split or val_fraction: what to score each stage on, where the data
        has boxes, which are used for nothing else. The fraction held out is the same whatever the seed.
    images: where a COCO file's pictures are; proposals: a file of them, to be used instead of computing any.
    reviewed: boxes that a person has given, boxes.json or the review.sqlite of `tag2box review`, to learn from as well.
    warm_start: another run of the same pictures and settings: this one learns the rounds alone, from the warm start
        that the other has kept; other rounds, or the same with what was `reviewed`.
    overrides: fields of the recipe by full name, as in `{"rounds.number": 3, "seed": 1}`.
    device: `"auto"`, `"cpu"` or `"cuda"`; workers: processes for proposals.
    skip_bad_images: go on without pictures that cannot be read.

    The data set here is far too small to learn from:

    >>> import tempfile, numpy as np
    >>> from PIL import Image
    >>> folder, draw = Path(tempfile.mkdtemp()), np.random.default_rng(0)
    >>> for name in ("cat/1.png", "cat/2.png", "dog/3.png", "dog/4.png"):
    ...     (folder / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
    ...     Image.fromarray(draw.integers(0, 256, (48, 64, 3), dtype=np.uint8)).save(folder / "photos" / name)
    >>> small = {"backbone.weights": "none", "data.scales": 48, "inference.scales": 48}
    >>> quick = {**small, "warm.epochs": 1, "rounds.number": 1}
    >>> run = train(folder / "photos", "demo", out=folder / "run", overrides=quick, device="cpu", workers=1)
    ... # doctest: +ELLIPSIS
    learning 2 classes from the tags of 4 images
    ...
    >>> load(run).classes
    ('cat', 'dog')
    """
    from tag2box.commands.train import train as run_training

    return run_training(
        Path(data),
        recipe=recipe,
        out=None if out is None else Path(out),
        split=split,
        val_split=val_split,
        val_fraction=val_fraction,
        images=None if images is None else Path(images),
        proposals=None if proposals is None else Path(proposals),
        reviewed=None if reviewed is None else Path(reviewed),
        warm_start=None if warm_start is None else Path(warm_start),
        overrides=overrides,
        resume=resume,
        device=device,
        workers=workers,
        skip_bad_images=skip_bad_images,
    )


def load(run_or_file: Path | str, device: str = "auto") -> "Detector":
    """The detector of a run directory, the best it has, or of a detector's file; `"auto"` is the GPU if there is one.

    >>> import tempfile, numpy as np
    >>> from tag2box.config import load_recipe
    >>> from tag2box.detector import build_prediction_net, save_detector
    >>> recipe = load_recipe("demo", {"backbone.weights": "none"})  # random weights: it has learnt nothing
    >>> file = Path(tempfile.mkdtemp()) / "detector.safetensors"
    >>> save_detector(file, build_prediction_net(recipe, classes=2), recipe, ["cat", "dog"])
    >>> detector = load(file, device="cpu")
    >>> detector
    Detector(tiny: cat, dog; on cpu)
    >>> picture = np.zeros((60, 80, 3), dtype=np.uint8)
    >>> found = detector.predict(picture, proposals=np.array([[10, 10, 50, 40]]), score=0.0)
    >>> found.classes, found.ids, found.boxes.shape
    (('cat', 'dog'), ('0',), (2, 4))
    """
    from tag2box.detector import open_detector

    return open_detector(run_or_file, device)
