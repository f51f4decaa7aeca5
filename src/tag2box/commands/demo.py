"""`tag2box demo`: the story so far on built-in data: tagged pictures, proposals, and how many objects they reach."""

import os
from pathlib import Path

from rich.console import Console

from tag2box.commands.proposals import propose_dataset
from tag2box.data import open_dataset, open_ground_truth
from tag2box.data.demo import draw_demo
from tag2box.files import make_folder
from tag2box.progress import progress
from tag2box.report.pictures import objects_sheet


def demo(out: Path, *, seed: int = 0, train: int = 300, test: int = 150) -> None:
    """Leave the drawn devkit in `out`/data and the pictures beside it."""
    console = Console(highlight=False)
    make_folder(out)
    with progress("drawing pictures", train + test) as count_one:
        devkit = draw_demo(
            out / "data", seed=seed, train=train, test=test, workers=os.cpu_count() or 1, tick=lambda *_: count_one()
        )
    dataset, truth = open_dataset(devkit, "trainval"), open_ground_truth(devkit, "trainval")
    tags = ", ".join(dataset.classes)
    console.print(f"{devkit}: {train} pictures to learn from, {test} to test on, tagged with {tags}", soft_wrap=True)
    if truth is not None:
        sheet = out / "pictures.jpg"
        objects_sheet(dataset, truth, sheet)
        console.print(f"pictures and tags, and the boxes that training never sees: {sheet}\n", soft_wrap=True)
    propose_dataset(devkit, split="trainval")
