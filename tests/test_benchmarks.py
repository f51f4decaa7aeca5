"""Benchmarks that reach into the engine still run; mypy sees to the names that they use."""

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
