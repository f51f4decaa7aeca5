import io
import json
from pathlib import Path

from rich.console import Console

from tag2box.evaluation.label_quality import LabelQuality
from tag2box.evaluation.scores import as_json
from tag2box.labels.records import Label, LabelledImage, LabelledSet
from tag2box.labels.summary import summarise, summary_table

BOX = (0.0, 0.0, 5.0, 5.0)
LABELLED = LabelledSet(
    ("[red]cat[/]", "dog", "yak"),
    (
        LabelledImage("a", Path("a.jpg"), (9, 9), (Label("[red]cat[/]", BOX, 1.0), Label("[red]cat[/]", BOX, 0.5))),
        LabelledImage("b", Path("b.jpg"), (9, 9), (Label("[red]cat[/]", BOX, 1.0), Label("dog", BOX, 0.5))),
        LabelledImage("c", Path("c.jpg"), (9, 9), ()),
    ),
    "all",
)
QUALITY = {"[red]cat[/]": LabelQuality(3, 1, 2), "dog": LabelQuality(1, 1, 2), "yak": LabelQuality(0, 0, 0)}


def printed(summary):
    console = Console(file=io.StringIO(), width=100)
    console.print(summary_table(summary))
    return [line.split() for line in console.file.getvalue().splitlines()]


def test_counts():
    summary = summarise(LABELLED)
    assert summary["all"] == {"boxes": 4, "images": 2}
    assert list(summary["per_class"].values()) == [
        {"boxes": 3, "images": 2},
        {"boxes": 1, "images": 1},
        {"boxes": 0, "images": 0},
    ]
    assert ["[red]cat[/]", "3", "2"] in printed(summary)


def test_quality():
    summary = summarise(LABELLED, QUALITY)
    assert summary["all"] == {"boxes": 4, "images": 2, "objects": 4, "precision": 50.0, "recall": 50.0}
    lines = printed(summary)
    assert ["[red]cat[/]", "3", "2", "2", "33.3", "50.0"] in lines
    assert ["yak", "0", "0", "0", "–", "–"] in lines
    assert ["all", "4", "2", "4", "50.0", "50.0"] in lines
    written = json.loads(as_json(summary))
    assert written["per_class"]["yak"]["precision"] is None
    assert written["per_class"]["dog"] == {"boxes": 1, "images": 1, "objects": 2, "precision": 100.0, "recall": 50.0}
