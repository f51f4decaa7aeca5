"""PASCAL VOC 2007 and what a run on it is good for: the figures of RESULTS.md, a part at a time.

    python benchmarks/voc07.py VOCdevkit/VOC2007 --weights efficientnet_lite4.safetensors --out runs/voc07
    python benchmarks/voc07.py VOCdevkit/VOC2007 --out runs/voc07 --run runs/voc --parts file,labels,rank

Parts, in their order:

    warm    the warm start alone, in OUT/warm
    table4  the paper's ablations, rounds from that warm start: OUT/both, PW_c, PW_p, neither
    file    what the detector's file costs and gains: half precision, fewer bits, several scales and mirrored (--tta)
    labels  precision and recall of `tag2box label`'s boxes, by class, on what was learnt from and on what was held out
    rank    how well doubts of `tag2box rank` know which boxes are wrong, on the same two

The last three are of --run, by default OUT/both. Runs that are there already are taken as they are, and those that were
stopped go on. A fifth of trainval is held out, as in `tag2box train --val-fraction 0.2`.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from active import print_scores
from machine import describe_machine, in_one_line
from tag2box import train
from tag2box.commands.label import SCORES
from tag2box.commands.parts import Part, Source, held_out
from tag2box.commands.rank import rank_part, score_ranking
from tag2box.config import load_recipe
from tag2box.detector import Detector, build_prediction_net, detect_dataset, open_detector
from tag2box.engine.checkpoint import load_net, read_state
from tag2box.errors import InputError, did_you_mean
from tag2box.evaluation.label_quality import in_all, label_quality
from tag2box.evaluation.scores import evaluate
from tag2box.labels.choosing import choose
from tag2box.pair import open_pair
from tag2box.remembered import recall_of
from tag2box.report.results import number, read_results

HELD_OUT = 0.2
ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "both": {},
    "PW_c": {"rounds.noise": False},
    "PW_p": {"rounds.self_diversity": False},
    "neither": {"rounds.noise": False, "rounds.self_diversity": False},
}
BITS = (8, 6, 5, 4)


def ensure_run(args: argparse.Namespace, name: str, rounds: int, **options: Any) -> Path:
    """A run with so many rounds, begun or gone on with unless it is finished; its directory."""
    run: Path = args.out / name
    if (run / "report.html").is_file() and read_results(run / "results.csv")[-1]["stage"] == f"round-{rounds}":
        return run
    overrides = {"rounds.number": rounds, "seed": args.seed} | options.pop("overrides", {})
    if args.weights is not None:
        overrides["backbone.weights"] = str(args.weights)
    overrides |= dict(one.split("=", 1) for one in args.set)
    with redirect_stdout(sys.stderr):
        return train(
            args.data,
            args.recipe,
            out=run,
            split="trainval",
            val_fraction=HELD_OUT,
            proposals=args.proposals,
            overrides=overrides,
            resume=(run / "args.yaml").is_file(),
            **options,
        )


def warm(args: argparse.Namespace) -> None:
    """Learn it, and say what its stages came to."""
    print_stages(ensure_run(args, "warm", 0))


def table4(args: argparse.Namespace) -> None:
    """Rounds from one warm start, with and without each of the two terms."""
    start = args.warm_start or ensure_run(args, "warm", 0)
    print("| | " + " | ".join(f"round {one + 1}" for one in range(args.rounds)) + " | CorLoc | DISC |")
    print("|---|" + "---:|" * (args.rounds + 2))
    for name, overrides in ABLATIONS.items():
        run = ensure_run(args, name, args.rounds, warm_start=start, overrides=dict(overrides))
        rows = [row for row in read_results(run / "results.csv") if str(row["stage"]).startswith("round-")]
        maps = " | ".join(f"{number(row, 'map'):.1f}" for row in rows)
        print(f"| {name} | {maps} | {number(rows[-1], 'corloc'):.1f} | {number(rows[-1], 'disc'):.4f} |", flush=True)


def file(args: argparse.Namespace) -> None:
    """The last round's detector: as it was learnt, as it is kept, in fewer bits still, and looking more than once."""
    _, other = parts_of(args)
    detector = open_detector(args.run / "weights" / "last.safetensors")
    print(f"{(args.run / 'weights' / 'last.safetensors').stat().st_size / 1e6:.1f} MB\n")
    print("| the last round's detector | mAP | seconds |\n|---|---:|---:|")
    scored("", detector, other)  # a GPU's first look takes longer
    state = args.run / "weights" / "state.safetensors"
    if state.is_file():
        print(scored("weights in single precision", learnt(state, detector), other), flush=True)
    print(scored("half precision, the file", detector, other), flush=True)
    print(scored("every scale of training, mirrored too (--tta)", detector, other, tta=True), flush=True)
    for bits in BITS:
        print(scored(f"{bits} bits a weight", in_bits(args, bits), other), flush=True)


def learnt(state: Path, like: Detector) -> Detector:
    """The prediction net of a run's checkpoint, in single precision."""
    net = build_prediction_net(like.recipe, len(like.classes), weights="none")
    load_net(net, "prediction", read_state(state)[0])
    return Detector(net=net, recipe=like.recipe, classes=like.classes)


def in_bits(args: argparse.Namespace, bits: int) -> Detector:
    """The detector with every matrix and convolution in so many bits, a scale for each of its rows."""
    detector = open_detector(args.run / "weights" / "last.safetensors")
    with torch.no_grad():
        for layer in detector.net.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.weight.copy_(rounded(layer.weight, bits))
    return detector


def rounded(weight: Tensor, bits: int) -> Tensor:
    """Each row [N, ...] in steps of its own: as many to either side of 0 as there are numbers of so many bits.

    >>> rounded(torch.tensor([[1.0, 0.4, -0.26], [0.3, 0.0, 0.1]]), bits=2)
    tensor([[1.0000, 0.0000, -0.0000],
            [0.3000, 0.0000, 0.0000]])
    """
    most = 2 ** (bits - 1) - 1
    step = weight.flatten(1).abs().amax(dim=1).clamp(min=torch.finfo(weight.dtype).tiny) / most
    step = step.view(-1, *[1] * (weight.dim() - 1))
    nearest: Tensor = (weight / step).round() * step
    return nearest


def scored(name: str, detector: Detector, part: Part, *, tta: bool = False) -> str:
    """A row of the table: mAP on a part, and how long looking at it took."""
    assert part.truth is not None
    began = time.perf_counter()
    found = detect_dataset(detector, part.dataset, part.store, tta=tta)
    seconds = time.perf_counter() - began
    return f"| {name} | {evaluate(part.truth, found, ['voc07'])['voc07']['mean']:.2f} | {seconds:.1f} |"


def labels(args: argparse.Namespace) -> None:
    """What `tag2box label` would write, against the boxes."""
    detector, shown = open_detector(args.run), []
    parts = parts_of(args)
    for part in parts:
        assert part.truth is not None
        recall = recall_of(args.run)
        found = detect_dataset(detector, part.dataset, part.store, best_of_each=True, recall=recall)
        labelled = choose(found, part.dataset, SCORES["prediction"])
        shown.append(label_quality(part.truth, labelled.detections()))
    numbers = [f"{len(part.dataset):,} pictures" for part in parts]
    print(f"| class | learnt from ({numbers[0]}): precision | recall | held out ({numbers[1]}): precision | recall |")
    print("|---|---:|---:|---:|---:|")
    for name in (*detector.classes, "all"):
        each = [in_all(of.values()) if name == "all" else of[name] for of in shown]
        print(f"| {name} | " + " | ".join(f"{100 * q.precision:.1f} | {100 * q.recall:.1f}" for q in each) + " |")


def rank(args: argparse.Namespace) -> None:
    """AUROC and the area under the risk–coverage curve of every score."""
    pair = open_pair(args.run, "auto")
    for name, part in zip(("held out", "learnt from"), reversed(parts_of(args)), strict=True):
        scores = score_ranking(rank_part(pair, part), part.truth)
        assert scores is not None
        print_scores(f"pictures {name}", scores)


def parts_of(args: argparse.Namespace) -> tuple[Part, Part]:
    """What a run has learnt from, and what it was scored on."""
    preset = load_recipe(args.run / "args.yaml").data.proposals
    own, other = held_out(Source(data=args.data, preset=preset, proposals=args.proposals).open("trainval"), HELD_OUT)
    if args.most:
        own, other = (part.subset([place < args.most for place in range(len(part.dataset))]) for part in (own, other))
    return own, other


def print_stages(run: Path) -> None:
    """The table of a run."""
    print("| stage | mAP | CorLoc | seconds |\n|---|---:|---:|---:|")
    for row in read_results(run / "results.csv"):
        figures = (number(row, "map"), number(row, "corloc"), number(row, "seconds"))
        print(f"| {row['stage']} | " + " | ".join(f"{one:.1f}" for one in figures) + " |")


PARTS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "warm": warm,
    "table4": table4,
    "file": file,
    "labels": labels,
    "rank": rank,
}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/voc07"), help="where the runs go")
    parser.add_argument("--run", type=Path, help="of which file, labels and rank are (default: OUT/both)")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--recipe", default="voc07")
    parser.add_argument("--weights", type=Path, help="of the trunk (--backbone.weights)")
    parser.add_argument("--proposals", type=Path)
    parser.add_argument("--rounds", type=int, default=6, help="of the ablations (default: 6)")
    parser.add_argument("--warm-start", type=Path, help="of table4: another run's (default: OUT/warm)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, help="pictures of each part that file, labels and rank look at")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="as --FIELD VALUE of train")
    args = parser.parse_args()
    args.run = args.run or args.out / "both"
    names = args.parts.split(",")
    for name in names:
        if name not in PARTS:
            raise InputError(f"expected --parts out of {', '.join(PARTS)}, found '{name}'{did_you_mean(name, PARTS)}")
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"{where}; {describe_machine('torch', 'torchvision')}")
    for name in names:
        began = time.perf_counter()
        print(f"\n## {name}\n", flush=True)
        PARTS[name](args)
        print(f"\n{time.perf_counter() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(in_one_line(main))
