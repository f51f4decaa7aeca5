"""`tag2box demo`: the whole story on built-in data: tagged pictures, proposals, training, and what came of it."""

import os
from pathlib import Path

from rich.console import Console

from tag2box.commands.proposals import propose_dataset
from tag2box.commands.train import train
from tag2box.data import open_dataset, open_ground_truth
from tag2box.data.demo import draw_demo
from tag2box.files import make_folder
from tag2box.progress import progress
from tag2box.report.pictures import objects_sheet


def demo(out: Path, *, seed: int = 0, pictures: int = 300, test: int = 150) -> None:
    """Leave the drawn devkit in `out`/data and the run in `out`/run; what is there already is not made again."""
    make_folder(out)
    devkit = _draw(out, seed, pictures, test)
    propose_dataset(devkit, split="trainval")
    run = out / "run"
    train(
        devkit,
        recipe="demo",
        out=run,
        split="trainval",
        val_split="test",
        overrides={"seed": seed},
        resume=(run / "args.yaml").is_file(),
    )


def _draw(out: Path, seed: int, pictures: int, test: int) -> Path:
    """Draw the pictures, and a sheet of the first of them with tags and boxes."""
    with progress("drawing pictures", pictures + test) as count_one:
        devkit = draw_demo(
            out / "data", seed=seed, train=pictures, test=test, workers=os.cpu_count() or 1, tick=lambda *_: count_one()
        )
    dataset, truth = open_dataset(devkit, "trainval"), open_ground_truth(devkit, "trainval")
    console, tags = Console(highlight=False), ", ".join(dataset.classes)
    console.print(f"{devkit}: {pictures} pictures to learn from, {test} to test on, tagged with {tags}", soft_wrap=True)
    if truth is not None:
        sheet = out / "pictures.jpg"
        objects_sheet(dataset, truth, sheet)
        console.print(f"pictures and tags, and the boxes that training never sees: {sheet}\n", soft_wrap=True)
    return devkit
