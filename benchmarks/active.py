"""Does the ranking pay? Boxes for a few training images, chosen in several ways, and what each way does for a new run.

    tag2box train DATA --recipe demo --val-split test --out RUN
    python benchmarks/active.py DATA RUN --out runs/active --seeds 0,1

First: how well each score of a finished run knows which of its best boxes are wrong. Then the loop that the paper names
as future work, simulated: a person gives the boxes of the first 5 % of the training images (those annotated, without
objects marked difficult), and the same recipe starts anew with them. With --warm-start only its rounds do, from the
warm start that RUN has kept. `none` starts anew without, `all` has the boxes of every image: what there is to gain at
most.

mAP is that of the last round on the held-out part, so nothing was chosen by it. CorLoc is that of the last round on the
training images that no way of choosing has chosen: all are judged on the same images, none of which had boxes (but for
`all`). Runs that are there already are taken as they are, and those that were stopped go on.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

from machine import describe_machine, in_one_line
from tag2box import train
from tag2box.commands.parts import Part, Source, held_out
from tag2box.commands.rank import rank_part, score_ranking
from tag2box.config import load_recipe
from tag2box.data.ground_truth import GroundTruth
from tag2box.detector import detect_dataset, open_detector
from tag2box.errors import InputError, did_you_mean
from tag2box.evaluation.ranking import DoubtScores
from tag2box.evaluation.scores import evaluate
from tag2box.files import make_folder
from tag2box.known import Known, write_known
from tag2box.labels.records import inside
from tag2box.pair import open_pair
from tag2box.ranking import BY, DoubtedImage, in_order
from tag2box.report.results import number, read_results

WAYS = ("none", *BY, "random", "all")


def choose(way: str, ranked: Sequence[DoubtedImage], share: float, seed: int) -> list[str]:
    """The ids of the images that a person looks at."""
    count = max(1, round(share * len(ranked)))
    if way in BY:
        return [one.image.id for one in in_order(ranked, way)[:count]]
    ids = sorted(one.image.id for one in ranked)
    chosen = {"none": 0, "all": len(ids), "random": count}[way]
    return sorted(np.random.default_rng(seed).permutation(ids)[:chosen].tolist())


def given_boxes(part: Part, truth: GroundTruth, ids: Sequence[str]) -> Known:
    """All that a person would say of these images: the boxes of every tagged class."""
    known: dict[str, dict[str, list[tuple[float, float, float, float]]]] = {}
    counted = ~(truth.difficult | truth.crowd)
    for image in part.dataset:
        if image.id not in ids:
            continue
        own = truth.images == truth.ids.index(image.id)
        for tag in image.tags:
            rows = own & counted & (truth.labels == truth.classes.index(tag))
            boxes = inside(truth.boxes[rows], image.size)
            known.setdefault(image.id, {})[tag] = [(x0, y0, x1, y1) for x0, y0, x1, y1 in boxes.tolist()]
    return known


def retrain(args: argparse.Namespace, way: str, seed: int, known: Known) -> Path:
    """A run with these boxes, from scratch or from the warm start; the run directory."""
    name = f"{way}-{seed}" + "-warm" * args.warm_start
    run: Path = args.out / name
    boxes = args.out / f"{name}.json"
    if known:
        write_known(boxes, known)
    last = args.rounds or load_recipe(args.run / "args.yaml").rounds.number
    if (run / "results.csv").is_file() and read_results(run / "results.csv")[-1]["stage"] == f"round-{last}":
        return run
    return train(
        args.data,
        args.run / "args.yaml",
        out=run,
        split=args.split,
        val_split=args.val_split,
        val_fraction=args.val_fraction,
        proposals=args.proposals,
        reviewed=boxes if known else None,
        warm_start=args.run if args.warm_start else None,
        overrides={"seed": seed, "rounds.number": last},
        device=args.device,
        resume=(run / "args.yaml").is_file(),
    )


def corloc_on(run: Path, part: Part, ids: set[str], device: str) -> float:
    """CorLoc of the last round on some images, in per cent."""
    own = part.subset([image.id in ids for image in part.dataset])
    assert own.truth is not None
    detector = open_detector(run / "weights" / "last.safetensors", device)
    found = detect_dataset(detector, own.dataset, own.store, best_of_each=True)
    return float(evaluate(own.truth, found, ["corloc"])["corloc"]["mean"])


def print_scores(name: str, scores: DoubtScores) -> None:
    """AUROC and AURC of every score."""
    share = 100 * scores.wrong / scores.boxes
    print(f"\n{name}: {scores.boxes:,} best boxes of tags, {share:.1f} % wrong\n")
    print("| score | AUROC | AURC, % |\n|---|---:|---:|")
    for score, curve in scores.curves.items():
        print(f"| {score} | {scores.auroc[score]:.3f} | {100 * curve.area:.1f} |")
    print(f"| no order | 0.500 | {share:.1f} |\n| perfect order | 1.000 | {100 * scores.perfect:.1f} |")


def share_wrong(part: Part, ranked: Sequence[DoubtedImage], ids: Sequence[str]) -> float:
    """Of the best boxes in these images, the share that is wrong: what there was to correct."""
    scores = score_ranking([one for one in ranked if one.image.id in ids], part.truth)
    return float("nan") if scores is None else 100 * scores.wrong / scores.boxes


def compare(args: argparse.Namespace, part: Part, ranked: Sequence[DoubtedImage]) -> None:
    """Retrain with each way of choosing and print what came of it."""
    truth = part.truth
    assert truth is not None
    chosen = {(way, seed): choose(way, ranked, args.share, seed) for seed in args.seeds for way in args.ways}
    seen = {id for (way, _), ids in chosen.items() if way != "all" for id in ids}
    rest = {image.id for image in part.dataset} - seen
    results: dict[str, list[tuple[float, float, float, int]]] = {way: [] for way in args.ways}
    for seed in args.seeds:
        for way in args.ways:
            known = given_boxes(part, truth, chosen[way, seed])
            with redirect_stdout(sys.stderr):
                run = retrain(args, way, seed, known)
            row = read_results(run / "results.csv")[-1]
            boxes = sum(len(own) for one in known.values() for own in one.values())
            wrong = share_wrong(part, ranked, chosen[way, seed])
            results[way].append((number(row, "map"), corloc_on(run, part, rest, args.device), wrong, boxes))
            print(f"done: {way}, seed {seed}: {results[way][-1]}", file=sys.stderr)
    count = max(1, round(args.share * len(part.dataset)))
    print(f"\nboxes of {count} of {len(part.dataset)} images given; seeds {', '.join(map(str, args.seeds))}\n")
    print(f"| chosen by | boxes | wrong before, % | mAP | CorLoc on the other {len(rest)} images |")
    print("|---|---:|---:|---|---|")
    for way, rows in results.items():
        maps, corlocs, shares, numbers = zip(*rows, strict=True)
        given = f"{np.mean(numbers):.0f} | {np.nanmean(shares):.1f}" if way != "none" else "0 | –"
        print(f"| {way} | {given} | {_shown(maps)} | {_shown(corlocs)} |")


def _shown(values: Sequence[float]) -> str:
    each = ", ".join(f"{value:.1f}" for value in values)
    return f"**{np.mean(values):.1f}** ({each})" if len(values) > 1 else each


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/active"), help="where the new runs go")
    parser.add_argument("--split")
    parser.add_argument("--val-split")
    parser.add_argument("--val-fraction", type=float)
    parser.add_argument("--proposals", type=Path)
    parser.add_argument("--warm-start", action="store_true", help="begin with the rounds, from RUN's warm start")
    parser.add_argument("--rounds", type=int, help="of the new runs (default: RUN's)")
    parser.add_argument("--share", type=float, default=0.05, help="of the training images (default: 0.05)")
    parser.add_argument("--seeds", default="0", help="of the new runs, and of the random choice (default: 0)")
    parser.add_argument("--ways", default="none,dissimilarity,confidence,random", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--scores-only", action="store_true", help="do not train")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    args.seeds, args.ways = [int(seed) for seed in args.seeds.split(",")], args.ways.split(",")
    for way in args.ways:
        if way not in WAYS:
            raise InputError(f"expected --ways out of {', '.join(WAYS)}, found '{way}'{did_you_mean(way, WAYS)}")
    if args.val_split is None and args.val_fraction is None:
        args.val_split = "test"
    make_folder(args.out)
    print(describe_machine("torch", "torchvision"))
    pair = open_pair(args.run, args.device)
    source = Source(data=args.data, preset=pair.recipe.data.proposals, proposals=args.proposals)
    part = source.open(args.split)
    part, other = held_out(part, args.val_fraction) if args.val_fraction else (part, source.open(args.val_split))
    parts: Mapping[str, Part] = {"training images": part, "held-out images": other}
    ranked = {name: rank_part(pair, own) for name, own in parts.items()}
    for name, own in parts.items():
        scores = score_ranking(ranked[name], own.truth)
        if scores is None:
            raise InputError(f"{args.data}: expected boxes to simulate a person with, found none")
        print_scores(name, scores)
    if not args.scores_only:
        compare(args, part, ranked["training images"])
    return 0


if __name__ == "__main__":
    sys.exit(in_one_line(main))
