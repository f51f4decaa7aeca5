"""How busy the GPU is while training, and whether a step waits for data: some steps of each phase under the profiler.

    python benchmarks/device_idle.py VOCdevkit/VOC2007 --set backbone.weights=efficientnet_lite4.safetensors
    python benchmarks/device_idle.py VOCdevkit/VOC2007 --recipe paper --set data.resident=off

Busy is the union of all kernels' and copies' intervals over the wall time, the profiler's own cost included; without a
GPU it is left out. A teacher looks first where the recipe has one, as in training.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch.profiler import ProfilerActivity, profile

from machine import describe_machine, in_one_line
from tag2box.commands.parts import Source
from tag2box.commands.train import fit_for_training
from tag2box.config import load_recipe
from tag2box.engine.learning import Learner
from tag2box.engine.loop import Run
from tag2box.engine.plan import Phase

ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
WARMUP = 10


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of the union of intervals (begin, end).

    >>> covered([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 1.6)])
    4.0
    """
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def on_device(trace: Path) -> list[tuple[float, float]]:
    """What ran on the device according to a Chrome trace, in microseconds."""
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    return [(one["ts"], one["ts"] + one["dur"]) for one in events if one.get("cat") in ON_DEVICE]


class Watched(Run):
    """A run of a few steps of each kind of phase, whose steps are watched once they have warmed up."""

    def __init__(self, *args: Any, steps: int, **options: Any) -> None:
        super().__init__(*args, evaluate=None, val=None, report=None, **options)
        kinds = [phase.kind for phase in self.phases]
        firsts = [self.phases[kinds.index(kind)] for kind in dict.fromkeys(kinds)]
        self.phases = [replace(phase, steps=WARMUP + steps) for phase in firsts]
        self.rows: list[str] = []

    def _learn(self, phase: Phase) -> None:
        learner, cuda = self.learner(phase), self.fabric.device.type == "cuda"
        self._take(learner, WARMUP)
        with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as profiler:
            seconds, waited = self._take(learner, phase.steps - WARMUP)
        busy = "–"
        if cuda:
            trace = self.weights / "trace.json"
            profiler.export_chrome_trace(str(trace))
            busy = f"{covered(on_device(trace)) / 1e6 / seconds:.0%}"
        each = 1000 * seconds / (phase.steps - WARMUP)
        self.rows.append(f"| {phase.kind} | {each:.1f} | {busy} | {waited / seconds:.1%} |")
        self.nets[phase.net].eval()

    def _take(self, learner: Learner, steps: int) -> tuple[float, float]:
        """So many steps: their seconds, and those spent waiting for data."""
        began, waited = time.perf_counter(), 0.0
        for _ in range(steps):
            learner.take_step()
            waited += self.feed.waited
        if self.fabric.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began, waited


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split")
    parser.add_argument("--proposals", type=Path)
    parser.add_argument("--recipe", default="voc07")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="as --FIELD VALUE of train")
    args = parser.parse_args()
    recipe = load_recipe(args.recipe, dict(one.split("=", 1) for one in args.set))
    source = Source(data=args.data, preset=recipe.data.proposals, proposals=args.proposals)
    part = fit_for_training(source.open(args.split), recipe.data.max_proposals, Console(quiet=True))
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"{where}; {describe_machine('torch', 'torchvision')}\n")
    with tempfile.TemporaryDirectory() as name:
        run = Watched(part.dataset, part.store, recipe, Path(name), device=args.device, steps=args.steps)
        run.go()
    print("| phase | ms a step | device busy | waited for data |\n|---|---:|---:|---:|")
    print("\n".join(run.rows))
    return 0


if __name__ == "__main__":
    sys.exit(in_one_line(main))
