"""Boxes are for evaluation only: what training holds does not lead to them, and training code does not import them.

Boxes that a person has given for the purpose (`train --reviewed`) are an input of their own. They come from the file
that the user names, as the engine's argument `known`, and from nowhere else.
"""

import ast
import gc
import inspect
import types
from pathlib import Path

import numpy as np
import pytest

import tag2box
from tag2box.data import GroundTruth, open_dataset, open_ground_truth

BOX = (13, 17, 71, 73)
MAY_SEE_BOXES = ("data/", "evaluation/", "commands/", "report/")
NAMES_OF_BOXES = {"ground_truth", "open_ground_truth", "GroundTruth", "voc_boxes", "coco_json"}
FROM_A_PERSON = ("known.py", "engine/known.py", "commands/reviewed.py", "review/decided.py", "review/store.py")
"""All that known boxes pass through on their way into training."""


def reachable(root):
    """Every object that a data set leads to; modules and classes are code, which the second test is about."""
    found, waiting = {}, [root]
    while waiting:
        item = waiting.pop()
        if id(item) in found or isinstance(item, type | types.ModuleType | types.FunctionType | types.MethodType):
            continue
        found[id(item)] = item
        waiting += gc.get_referents(item)
    return list(found.values())


def test_the_walk_would_find_boxes(make_devkit):
    truth = open_ground_truth(make_devkit({"a": [("cat", BOX)]}))
    assert any(isinstance(item, np.ndarray) for item in reachable(truth))


@pytest.mark.parametrize("class_lists", [True, False])
def test_a_data_set_leads_to_no_box(make_devkit, class_lists):
    year = make_devkit({"a": [("cat", BOX)], "b": [("dog", BOX)]}, class_lists=class_lists)
    items = reachable(open_dataset(year))
    assert not any(isinstance(item, np.ndarray | float | GroundTruth) for item in items)
    assert not {value for value in items if isinstance(value, int)} & set(BOX)
    assert not any("Annotations" in item or ".xml" in item for item in items if isinstance(item, str))


def imported_names(tree):
    """Every part of the names that a module imports, and its attributes: `data.open_ground_truth` counts too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (part for alias in node.names for part in alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "").split(".")
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield node.attr


@pytest.mark.parametrize(
    "text", ["import tag2box.data.ground_truth", "from tag2box.data import open_ground_truth as f"]
)
def test_the_scan_would_find_an_import(text):
    assert set(imported_names(ast.parse(text))) & NAMES_OF_BOXES


def test_training_code_does_not_import_ground_truth():
    root = Path(tag2box.__file__).parent
    files = {file.relative_to(root).as_posix(): file for file in root.rglob("*.py")}
    assert "data/opening.py" in files
    offenders = [
        name
        for name, file in files.items()
        if not name.startswith(MAY_SEE_BOXES)
        and NAMES_OF_BOXES & set(imported_names(ast.parse(file.read_text(encoding="utf-8"))))
    ]
    assert offenders == []


def test_a_training_data_set_needs_no_annotations(make_devkit):
    year = make_devkit({"a": [("cat", BOX)]})
    (year / "Annotations" / "a.xml").write_text("never opened: not even XML")
    assert open_dataset(year)[0].tags == ("cat",)


@pytest.mark.parametrize("name", FROM_A_PERSON)
def test_known_boxes_come_from_no_ground_truth(name):
    file = Path(tag2box.__file__).parent / name
    assert not NAMES_OF_BOXES & set(imported_names(ast.parse(file.read_text(encoding="utf-8"))))


def test_known_boxes_are_an_argument_of_their_own_and_there_are_none_unless_given():
    from tag2box.commands.train import train
    from tag2box.engine.loop import train_run

    assert inspect.signature(train_run).parameters["known"].default is None
    assert inspect.signature(train).parameters["reviewed"].default is None
    assert inspect.signature(tag2box.train).parameters["reviewed"].default is None
