"""The README's story, from a folder of tagged photos to reviewed labels, as it is typed there."""

import json
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tag2box.data.demo_picture import draw_picture

for package in ("fastapi", "uvicorn"):
    pytest.importorskip(package)

README = Path(__file__).parents[1] / "README.md"
SMALL = ["--warm.least_steps", "20", "--warm.epochs", "2", "--rounds.number", "1", "--device", "cpu"]
"""What is changed of the default recipe: how long it learns."""


def story():
    """The commands under the headline, as lists of words; what a shell sets before a command is left out."""
    text = README.read_text(encoding="utf-8").partition("## From a folder of tagged photos to reviewed labels")[2]
    (block,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[:1]
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    return [[word for word in line if not re.match("[A-Z_]+=", word)] for line in lines]


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder per class with a dozen drawn pictures, and we are in the folder above."""
    for number in range(12):
        picture = draw_picture(np.random.Generator(np.random.PCG64([number])))
        path = tmp_path / "photos" / picture.things[0].name / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture.pixels).save(path)
    monkeypatch.chdir(tmp_path)
    return Path("photos")


def run(words, *more):
    done = subprocess.run([sys.executable, "-m", *words, *more], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(address, method="GET", **body):
    content = json.dumps(body).encode() if body else None
    request = urllib.request.Request(address, content, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def review(words, pictures):
    """Accept what the page shows first of all pictures but the last, as its keys do."""
    command = [sys.executable, "-m", *words, "--no-browser", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/\S+/", server.stdout.readline())[0]
            for number in range(pictures - 1):
                for label in ask(f"{address}api/images/{number}")["classes"]:
                    where = f"{address}api/images/{number}/classes/{label['number']}"
                    ask(where, "PUT", status="accepted", boxes=[[1, 1, 60, 50]], based_on=0)
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=60)


def test_it_takes_six_commands():
    assert [words[0] for words in story()] == ["pip", "tag2box", "tag2box", "tag2box", "tag2box", "label-studio"]


@pytest.mark.slow
def test_from_photos_to_reviewed_labels(photos):
    _, train, look, again, label, _ = story()
    run(train, *SMALL)
    review(look, 12)
    run(again, "--device", "cpu")
    run(label, "--device", "cpu")
    tasks = json.loads(Path("photos-label-studio/tasks.json").read_text(encoding="utf-8"))
    assert sum("annotations" in task for task in tasks) == 11
    assert sum(len(task["predictions"]) for task in tasks) == 1
    assert Path("photos-label-studio/config.xml").is_file()
