"""What a figure was measured on: stands beside every one of them."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path


def describe_machine(*packages: str) -> str:
    """Processor, versions of Python and the packages, commit."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
    versions = ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in packages)])
    git = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(git, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return f"{model}, one core; {versions}; commit {commit.stdout.strip()}"
