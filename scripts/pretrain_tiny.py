"""Pretrain the demo's trunk (`tag2box.nets.tiny`) to tell apart drawn categories that the demo does not contain.

    python scripts/pretrain_tiny.py --device cuda --out src/tag2box/nets/tiny.safetensors
    python scripts/pretrain_tiny.py --device cpu --steps 5 --instances 4 --backdrops 8 --out /tmp/tiny.safetensors

Draws a bank of cut-outs and backdrops (about a minute on two cores; `--bank FILE` keeps it), composes a fresh batch of
pictures of them at every step on the training device, and writes the trunk with its batch norms folded in, in half
precision, with its provenance in the file's header. docs/tiny-trunk.md says what came of it.
"""

import argparse
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import torch
from safetensors.torch import save_file
from tiny_bank import Bank, draw_bank, load_bank
from tiny_objectives import OBJECTIVES, Objective
from tiny_scenes import Composer

from tag2box.nets.tiny import fold_batch_norm

HELD_OUT = 8
"""Instances of each category that training never sees."""


def main() -> None:
    """Draw or read the bank, train, write."""
    options = _options()
    bank = _bank(options)
    torch.manual_seed(options.seed)
    device = torch.device(options.device)
    composer = Composer(bank, device, options.seed, min(HELD_OUT, options.instances // 2))
    objective = OBJECTIVES[options.objective](len(bank.names)).to(device).to(memory_format=torch.channels_last)
    train(objective, composer, options)
    accuracy = held_out_accuracy(objective, composer, options.batch, options.checks)
    print(f"held out: {accuracy:.3f}", flush=True)
    write(objective, options.out, provenance(options, bank, accuracy))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the .safetensors file to write")
    parser.add_argument("--bank", type=Path, help="read the drawings from this .npz, or write them there")
    parser.add_argument("--objective", choices=OBJECTIVES, default="regions")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=3500)
    parser.add_argument("--batch", type=int, default=384)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--instances", type=int, default=56, help="cut-outs of each category")
    parser.add_argument("--backdrops", type=int, default=300)
    parser.add_argument("--checks", type=int, default=16, help="batches that the held-out accuracy is taken over")
    parser.add_argument("--draw-only", action="store_true", help="stop when the bank is written")
    return parser.parse_args()


def _bank(options: argparse.Namespace) -> Bank:
    begin = time.perf_counter()
    if options.bank is not None and options.bank.exists():
        bank = load_bank(options.bank)
    else:
        workers = os.cpu_count() or 1
        bank = draw_bank(options.seed, instances=options.instances, backdrops=options.backdrops, workers=workers)
        if options.bank is not None:
            bank.save(options.bank)
    seconds = time.perf_counter() - begin
    print(f"{len(bank.names)} categories, {len(bank.sprites)} cut-outs, {seconds:.0f} s", flush=True)
    if options.draw_only:
        raise SystemExit(0)
    return bank


def train(objective: Objective, composer: Composer, options: argparse.Namespace) -> None:
    """AdamW with a one-cycle cosine rate, in bfloat16 where the device is a GPU."""
    kind = composer.device.type
    fast = kind == "cuda"
    optimiser = torch.optim.AdamW(objective.parameters(), lr=options.rate, weight_decay=0.05, fused=fast)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, options.rate, total_steps=options.steps, pct_start=0.1)
    objective.train()
    begin = time.perf_counter()
    for step in range(options.steps):
        with torch.no_grad():
            scenes = objective.compose(composer, options.batch)
        with torch.autocast(kind, torch.bfloat16, enabled=fast):
            loss = objective.loss(scenes, composer)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 250 == 0 or step == options.steps - 1:
            value, rate = loss.item(), (step + 1) / (time.perf_counter() - begin)
            if not torch.isfinite(loss):
                raise SystemExit(f"step {step}: expected a finite loss, found {value}")
            print(f"step {step}: loss {value:.3f}, {rate:.1f} steps a second", flush=True)


@torch.no_grad()
def held_out_accuracy(objective: Objective, composer: Composer, batch: int, checks: int) -> float:
    """The share of things told right in fresh pictures of instances that training has not seen."""
    objective.eval()
    right, seen = 0, 0
    for _ in range(checks):
        hits = objective.hits(objective.compose(composer, batch, "held out"))
        right, seen = right + int(hits.sum()), seen + len(hits)
    return right / max(seen, 1)


def provenance(options: argparse.Namespace, bank: Bank, accuracy: float) -> dict[str, str]:
    """What the file's header says of where the weights came from."""
    settings = {name: getattr(options, name) for name in ("seed", "steps", "batch", "rate", "instances", "backdrops")}
    return {
        "format": "pt",
        "what": "trunk of tag2box's demo: tag2box.nets.tiny.tiny_body(), batch norm folded in",
        "script": "scripts/pretrain_tiny.py",
        "objective": OBJECTIVES[options.objective].__doc__ or "",
        "settings": json.dumps(settings),
        "seed": str(options.seed),
        "categories": ", ".join(bank.names),
        "held_out_accuracy": f"{accuracy:.3f}",
        "torch": torch.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "licence": "Apache-2.0",
    }


def write(objective: Objective, path: Path, metadata: dict[str, str]) -> None:
    """The trunk alone, folded, in half precision."""
    tensors = fold_batch_norm(objective.body.cpu()).state_dict()
    save_file({name: tensor.half().contiguous() for name, tensor in tensors.items()}, path, metadata=metadata)


if __name__ == "__main__":
    main()
