"""What a figure was measured on: stands beside every one of them. And how a benchmark says that it cannot be made."""

import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from tag2box.errors import InputError


def describe_machine(*packages: str) -> str:
    """Processor, versions of Python and the packages, commit."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
    versions = ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in packages)])
    git = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(git, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return f"{model}, one core; {versions}; commit {commit.stdout.strip()}"


def in_one_line(main: Callable[[], int]) -> int:
    """The exit code of a benchmark: 2, and a line, where what it was given cannot be used."""
    try:
        return main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
