"""Benchmarks that reach into the engine still run; mypy sees to the names that they use."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
SMALL = {
    "backbone.name": "tiny",
    "backbone.weights": "none",
    "head.kind": "mlp",
    "head.pooling": "max",
    "head.size": "2",
    "head.width": "16",
    "data.scales": "48",
    "inference.scales": "48",
    "precision": "32-true",
}


@pytest.mark.slow
def test_device_idle_watches_every_kind_of_phase(make_devkit):
    devkit = make_devkit({f"t{i}": [(("cat", "dog")[i % 2], (11, 11, 60, 60))] for i in range(6)})
    options = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, BENCHMARKS / "device_idle.py", devkit, "--device", "cpu", "--steps", "2", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    kinds = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("| ")]
    assert kinds == ["phase", "warm", "conditional", "prediction"]


def test_labels_that_are_right_are_counted(make_devkit, tmp_path):
    """The best of each tag alone: here right, then a part, then beside a less likely right one."""
    objects = [("cat", (11, 11, 60, 60)), ("dog", (61, 11, 100, 80))]
    devkit = make_devkit({"a": objects, "b": objects[:1], "c": [("dog", (1, 1, 100, 80))]})
    boxes = [
        (0, 0, [12, 12, 45, 45], 0.5),
        (0, 1, [70, 20, 10, 10], 0.5),
        (1, 0, [0, 0, 5, 5], 0.9),
        (1, 0, [10, 10, 50, 50], 0.8),
        (2, 1, [0, 0, 99, 79], 0.1),
    ]
    labels = {
        "categories": [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}],
        "images": [
            {"id": number, "file_name": f"{id}.jpg", "width": 100, "height": 80} for number, id in enumerate("abc")
        ],
        "annotations": [
            {"image_id": image, "category_id": category, "bbox": box, "score": score}
            for image, category, box, score in boxes
        ],
    }
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    command = [sys.executable, BENCHMARKS / "photographs.py", "count", tmp_path / "labels.json", devkit]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "labels right 2 of 4; whole pictures 1\n"
