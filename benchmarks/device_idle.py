"""How busy the GPU is while training, and whether a step waits for data: some steps of each phase under the profiler.

    python benchmarks/device_idle.py VOCdevkit/VOC2007 --set backbone.weights=efficientnet_lite4.safetensors
    python benchmarks/device_idle.py VOCdevkit/VOC2007 --recipe paper --set data.resident=off

Busy is the union of all kernels' and copies' intervals over the wall time, the profiler's own cost included. Needs a
GPU: exits with 2 where there is none.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console
from torch.profiler import ProfilerActivity, profile

from machine import describe_machine
from tag2box.commands.parts import Source
from tag2box.commands.train import fit_for_training
from tag2box.config import load_recipe
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


def take(run: Run, phase: Phase, module: object, optimiser: object, steps: int) -> tuple[float, float]:
    """So many steps: their seconds, and those spent waiting for data."""
    began, waited = time.perf_counter(), 0.0
    for _ in range(steps):
        run._one_step(phase, module, optimiser)
        run.step += 1
        waited += run.feed.waited
    torch.cuda.synchronize()
    return time.perf_counter() - began, waited


def measure(run: Run, number: int, steps: int, folder: Path) -> str:
    """A row of the table for the plan's `number`-th phase."""
    phase = replace(run.phases[number], steps=WARMUP + steps)
    run.phase, run.step = number, 0
    run._begin(phase)
    module, optimiser = run._set_up(phase)
    run.feed.begin(number, phase, 0)
    take(run, phase, module, optimiser, WARMUP)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        seconds, waited = take(run, phase, module, optimiser, steps)
    profiler.export_chrome_trace(str(folder / "trace.json"))
    busy = covered(on_device(folder / "trace.json")) / 1e6 / seconds
    return f"| {phase.kind} | {1000 * seconds / steps:.1f} | {busy:.0%} | {waited / seconds:.1%} |"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--split")
    parser.add_argument("--proposals", type=Path)
    parser.add_argument("--recipe", default="voc07")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="as --FIELD VALUE of train")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("device_idle: expected a GPU, found none", file=sys.stderr)
        return 2
    recipe = load_recipe(args.recipe, dict(one.split("=", 1) for one in args.set))
    source = Source(data=args.data, preset=recipe.data.proposals, proposals=args.proposals)
    part = fit_for_training(source.open(args.split), recipe.data.max_proposals, Console(quiet=True))
    print(f"{torch.cuda.get_device_name()}; {describe_machine('torch', 'torchvision')}\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = Run(part.dataset, part.store, recipe, folder, evaluate=None, val=None, report=None, device="cuda")
        began = time.perf_counter()
        run.album.settle()
        print(f"pictures ready in {time.perf_counter() - began:.1f} s ({type(run.album._loader).__name__})\n")
        print("| phase | ms a step | device busy | waited for data |\n|---|---:|---:|---:|")
        kinds = [phase.kind for phase in run.phases]
        for kind in dict.fromkeys(kinds):
            print(measure(run, kinds.index(kind), args.steps, folder), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
