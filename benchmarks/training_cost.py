"""What training costs: samples in one batch, a step against the matrix product's limit, memory, and the feature cache.

    python benchmarks/training_cost.py --device cuda      # (a) to (c): VGG16, 600 pixels, 2,000 proposals, bf16
    python benchmarks/training_cost.py --device cuda --pooling max      # the same with the paper's pooling
    python benchmarks/training_cost.py --device cpu       # (d): cached features against none, the demo's trunk

Random weights and pictures: the arithmetic is the same. Every figure is a ratio within one run. Exits with 1 where a
target is missed.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from machine import describe_machine
from tag2box.config import Rounds, Warm
from tag2box.engine.forward import conditional_outputs, noise_for, prediction_outputs
from tag2box.engine.steps import ConditionalStep, PredictionStep, WarmStep, pseudo_truths
from tag2box.engine.views import View
from tag2box.nets import build_trunk_and_head
from tag2box.nets.architectures import Pooling
from tag2box.nets.mil import MilNet, conditional_from_mil, prediction_from_mil
from tag2box.nets.roi_head import MlpHead

CLASSES, SAMPLES = 20, 5
TARGET_RATIO, TARGET_GB = 2.2, 8.0


def seconds(function: Callable[[], Any], device: torch.device, repeats: int) -> float:
    """The mean time of a call, after three that are not counted."""
    for _ in range(3):
        function()
    _wait(device)
    began = time.perf_counter()
    for _ in range(repeats):
        function()
    _wait(device)
    return (time.perf_counter() - began) / repeats


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def made_up_view(trunk_stride: int, size: tuple[int, int], proposals: int, device: torch.device) -> View:
    """Random pixels and proposals, two tags."""
    width, height = size
    generator = torch.Generator().manual_seed(0)
    corner = torch.rand(proposals, 2, generator=generator) * torch.tensor([width * 0.7, height * 0.7])
    extent = 16 + torch.rand(proposals, 2, generator=generator) * torch.tensor([width * 0.29, height * 0.29])
    boxes = torch.cat([corner, corner + extent], 1).to(device)
    tags = torch.zeros(CLASSES, dtype=torch.bool)
    tags[[3, 11]] = True
    pixels = (torch.rand(3, height, width, generator=generator) * 255).to(device)
    return View(boxes, tags, size, (-(-height // trunk_stride), -(-width // trunk_stride)), pixels=pixels)


def step_of(
    module: torch.nn.Module, *inputs: Any, precision: torch.dtype | None, device: torch.device
) -> Callable[[], None]:
    """A whole training step: forward, backward, SGD."""
    learnt = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimiser = torch.optim.SGD(learnt, 1e-6, momentum=0.9)

    def step() -> None:
        with torch.autocast(device.type, precision, enabled=precision is not None):
            loss, _ = module(*inputs)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


def matrix_rate(rows: int, inner: int, columns: int, dtype: torch.dtype, device: torch.device) -> float:
    """Floating-point operations a second of a plain matrix product of fc6's size."""
    a, b = torch.randn(rows, inner, dtype=dtype, device=device), torch.randn(inner, columns, dtype=dtype, device=device)
    return 2 * rows * inner * columns / seconds(lambda: a @ b, device, 20)


def on_gpu(device: torch.device, proposals: int = 2000, side: int = 600, pooling: Pooling = "align") -> int:
    """(a) to (c)."""
    dtype, rounds = torch.bfloat16, Rounds()
    trunk, head = build_trunk_and_head("vgg16", weights="none", dilated=True, pooling=pooling)
    warm = MilNet(trunk=trunk, head=head, classes=CLASSES, regression=True).to(device).train()
    conditional = conditional_from_mil(warm).to(device).train()
    prediction = prediction_from_mil(warm).to(device).train()
    view = made_up_view(trunk.stride, (side * 4 // 3, side), proposals, device)
    noise = noise_for([view], SAMPLES, torch.Generator().manual_seed(0))

    def forward(one: Tensor) -> Any:
        with torch.no_grad(), torch.autocast(device.type, dtype):
            return conditional_outputs(conditional, [view], one)

    single = seconds(lambda: forward(noise[:1]), device, 20)
    together = seconds(lambda: forward(noise), device, 20)
    apart = seconds(lambda: [forward(noise[k : k + 1]) for k in range(SAMPLES)], device, 10)
    print(f"| (a) forward, VGG16, pooling {pooling} | ms | to one sample |\n|---|---:|---:|")
    for name, value in (("one sample", single), ("K = 5 in one batch", together), ("K = 5, five passes", apart)):
        print(f"| {name} | {1000 * value:.1f} | {value / single:.2f} |")

    with torch.no_grad(), torch.autocast(device.type, dtype):
        predicted = prediction_outputs(prediction, [view])
        truths = [
            pseudo_truths(view, outputs, rounds)[1] for outputs in conditional_outputs(conditional, [view], noise)
        ]
    steps: dict[str, tuple[Any, ...]] = {
        "warm start": (WarmStep(warm, Warm()), [view]),
        "prediction net": (PredictionStep(prediction, rounds), [view], truths),
        "conditional net, K = 5": (ConditionalStep(conditional, rounds), [view], noise, predicted),
    }
    assert isinstance(head, MlpHead)
    rate = matrix_rate(proposals, head.fc6.in_features, head.fc6.out_features, dtype, device)
    fc6 = f"{proposals} × {head.fc6.in_features} × {head.fc6.out_features}"
    print(f"\nplain bf16 product {fc6}: {rate / 1e12:.0f} TFLOP/s\n")
    print("| (b) training step | ms | TFLOP | at the product's rate, ms | share of the limit | (c) peak GB |")
    print("|---|---:|---:|---:|---:|---:|")
    worst = 0.0
    for name, (module, *inputs) in steps.items():
        step = step_of(module, *inputs, precision=dtype, device=device)
        step()
        torch.cuda.reset_peak_memory_stats(device)
        taken = seconds(step, device, 10)
        peak = torch.cuda.max_memory_allocated(device) / 1e9
        with FlopCounterMode(display=False) as counter:
            step()
        limit = counter.get_total_flops() / rate
        print(
            f"| {name} | {1000 * taken:.1f} | {counter.get_total_flops() / 1e12:.2f} | {1000 * limit:.1f} "
            f"| {limit / taken:.0%} | {peak:.1f} |"
        )
        worst = max(worst, peak)
    ok = together / single <= TARGET_RATIO and worst < TARGET_GB
    verdict = "met" if ok else "MISSED"
    print(
        f"\ntargets: K = 5 at most {TARGET_RATIO} × one sample; under {TARGET_GB:g} GB with all nets there: {verdict}"
    )
    return 0 if ok else 1


def on_cpu(device: torch.device, proposals: int = 400, side: int = 192) -> int:
    """(d)."""
    trunk, head = build_trunk_and_head("tiny", weights="none", frozen="all")
    warm = MilNet(trunk=trunk, head=head, classes=6, regression=True).train()
    plain = replace(made_up_view(trunk.stride, (side * 4 // 3, side), proposals, device), tags=torch.arange(6) < 2)
    with torch.no_grad():
        pooled = head.pool(trunk.features(plain.pixels[None]), [plain.boxes]).half()  # type: ignore[index]
    kept = replace(plain, pixels=None, pooled=pooled)
    print("| (d) warm start step, the demo's trunk frozen | ms | speed |\n|---|---:|---:|")
    base = 0.0
    for name, view in (("from pixels", plain), ("from cached features", kept)):
        step = step_of(WarmStep(warm, Warm()), [view], precision=None, device=device)
        taken = seconds(step, device, 20)
        base = base or taken
        print(f"| {name} | {1000 * taken:.1f} | {base / taken:.1f} × |")
    return 0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--proposals", type=int)
    parser.add_argument("--side", type=int)
    parser.add_argument("--pooling", choices=("align", "max"), help="RoIAlign, or RoIPool as in the paper")
    args = parser.parse_args()
    device = torch.device(args.device)
    given = {"proposals": args.proposals, "side": args.side, "pooling": args.pooling}
    sizes = {name: value for name, value in given.items() if value}
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"{name}; {describe_machine('torch', 'torchvision')}\n")
    return (on_gpu if device.type == "cuda" else on_cpu)(device, **sizes)


if __name__ == "__main__":
    sys.exit(main())
