"""How many of the boxes that a warm start learns from are right: one for each tag, judged by boxes that it never sees.

    python benchmarks/seeds.py VOCdevkit/VOC2007 --run runs/voc --parts kept
    python benchmarks/seeds.py VOCdevkit/VOC2007 --weights efficientnet_lite4.safetensors --parts hints
    python benchmarks/seeds.py VOCdevkit/VOC2007 --run runs/warm --parts kept,found

Parts:

    kept    the seeds in a run's weights/hints.safetensors: those that its last warm start has learnt from
    hints   what the teacher sees gives seeds (`engine.hints`), by other seeds of the nets on it and by several together
    found   what the warm start of --run, one of --rounds.number 0, finds in its pictures, looking once and more often

A detector is trained in minutes, seeds are judged in seconds: so it is here that ideas about them are tried. A fifth of
the split is held out, as in `tag2box train --val-fraction 0.2`. Right is an IoU of a half with an object of the class,
be it a difficult one.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from machine import describe_machine, in_one_line
from tag2box import remembered
from tag2box.commands.parts import Part, Source, held_out
from tag2box.config import Recipe, load_recipe
from tag2box.detections import Detections
from tag2box.engine.checkpoint import load_net, read_state
from tag2box.engine.findings import find_again
from tag2box.engine.hints import find_places
from tag2box.engine.making import build_warm, make_fabric
from tag2box.engine.measure import refined_scorer
from tag2box.engine.teacher import TeacherNet, look
from tag2box.engine.views import Album
from tag2box.errors import InputError, did_you_mean
from tag2box.evaluation.corloc import corloc
from tag2box.evaluation.mistakes import Kind, judge

SHOWN = (Kind.GROUP, Kind.LARGE, Kind.PART, Kind.BESIDE, Kind.MISTAKEN, Kind.NOTHING)


def row(name: str, part: Part, chosen: Sequence[Tensor], seconds: float) -> str:
    """What is right and wrong with a box for each tag, its classes in their order: N times [T_i, 4]."""
    assert part.truth is not None
    dataset = part.dataset
    tags = [[dataset.classes.index(tag) for tag in one.tags] for one in dataset]
    images = np.repeat(np.arange(len(dataset)), [len(own) for own in chosen])
    labels = np.concatenate([np.sort(own)[: len(boxes)] for own, boxes in zip(tags, chosen, strict=True)]).astype(int)
    boxes = torch.cat(list(chosen)).numpy().astype(float)
    found = Detections(dataset.classes, dataset.ids, images, labels, np.ones(len(boxes)), boxes)
    truth = part.truth.of_tags({one.id: one.tags for one in dataset})
    shares = corloc(truth, found)
    kinds = Counter(judge(truth, found).kinds)
    number = sum(map(len, tags))
    wrong = " | ".join(f"{100 * kinds[kind] / number:.1f}" for kind in SHOWN)
    over_tags = 100 * (kinds[Kind.RIGHT] + kinds[Kind.UNCOUNTED]) / number
    return f"| {name} | {100 * np.nanmean(shares):.1f} | {over_tags:.1f} | {wrong} | {seconds:.0f} |"


def print_head(part: Part) -> None:
    """Of the table."""
    number = sum(len(one.tags) for one in part.dataset)
    print(f"{number:,} tags of {len(part.dataset):,} pictures, in per cent\n")
    print("| seeds | right, mean of classes | of tags | " + " | ".join(SHOWN) + " | seconds |")
    print("|---|" + "---:|" * (3 + len(SHOWN)))


def best_places(places: Sequence[Tensor], boxes: Sequence[Tensor], tags: Tensor) -> list[Tensor]:
    """The region for which most speaks, of each tag: N times [R_i, C], [R_i, 4], bool [N, C] → N times [T_i, 4]."""
    return [
        rows[own.float()[:, tagged].argmax(dim=0)].float().cpu() if len(own) else torch.zeros(0, 4)
        for own, rows, tagged in zip(places, boxes, tags, strict=True)
    ]


def kept(args: argparse.Namespace, recipe: Recipe) -> None:
    """Those in a run's file."""
    if args.most:
        raise InputError("expected --most without the part kept, which is of all pictures, found both")
    part = part_of(args, recipe)
    remembered.require_regions(args.run / "weights" / remembered.FILE, [part.store[id] for id in part.dataset.ids])
    places, found = remembered.load_places(args.run / "weights" / remembered.FILE)
    if found is None:
        most = recipe.teacher.regions
        boxes = [torch.from_numpy(np.array(part.store[one.id][:most])) for one in part.dataset]
        found = best_places(places, boxes, torch.from_numpy(part.dataset.tag_matrix()))
    print_head(part)
    print(row("kept by the run", part, found, 0.0))


def hints(args: argparse.Namespace, recipe: Recipe) -> None:
    """The teacher looks once; small nets on what it saw are learnt several times."""
    part, fabric = part_of(args, recipe), make_fabric("auto", recipe.precision)
    album, settings = album_of(part, recipe, fabric.device), recipe.teacher
    teacher = TeacherNet(settings.name, settings.weights, settings.size).to(fabric.device)
    album.settle()
    began = time.perf_counter()
    looks = look(teacher, album, settings.regions, recipe.seed, fabric.autocast)
    if fabric.device.type == "cuda":
        torch.cuda.synchronize()
    print(f"the look: {time.perf_counter() - began:.1f} s")
    boxes = [album.proposals(index)[: settings.regions] for index in range(len(album))]
    print_head(part)
    each: list[list[Tensor]] = []

    def places(seed: int, epochs: float = settings.hint_epochs) -> list[Tensor]:
        return find_places(looks, boxes, album.tags, epochs=epochs, seed=seed, device=fabric.device)

    def say(name: str, values: Sequence[Tensor], began: float) -> None:
        chosen = best_places(values, [one.cpu() for one in boxes], album.tags)
        print(row(name, part, chosen, time.perf_counter() - began), flush=True)

    for seed in range(args.nets):
        began = time.perf_counter()
        each.append(places(seed))
        say(f"seed {seed}", each[-1], began)
    together = [torch.stack(own).float().mean(dim=0) for own in zip(*each, strict=True)]
    say(f"these {args.nets} together", together, time.perf_counter())
    began = time.perf_counter()
    say("seed 0, twice the epochs", places(0, 2 * settings.hint_epochs), began)


def found(args: argparse.Namespace, recipe: Recipe) -> None:
    """What a finished warm start finds, by the ways in which it may look."""
    part, fabric = part_of(args, recipe), make_fabric("auto", recipe.precision)
    album = album_of(part, recipe, fabric.device)
    net = build_warm(recipe, len(part.dataset.classes)).to(fabric.device).eval()
    load_net(net, "warm", read_state(args.run / "weights" / "state.safetensors")[0])
    album.settle()
    print_head(part)
    own, scales = recipe.inference, recipe.data.scales
    ways = {
        f"once, at {own.scales[0]}": own,
        "and mirrored": replace(own, flip=True),
        f"at {', '.join(map(str, scales))}": replace(own, scales=scales),
        "and mirrored, each": replace(own, scales=scales, flip=True),
        f"once, at {max(scales)}": replace(own, scales=(max(scales),)),
    }
    for name, way in ways.items():
        began = time.perf_counter()
        boxes = find_again(refined_scorer(net), album, replace(recipe, inference=way), fabric.autocast).boxes
        print(row(name, part, boxes, time.perf_counter() - began), flush=True)


def part_of(args: argparse.Namespace, recipe: Recipe) -> Part:
    """What is learnt from."""
    source = Source(data=args.data, preset=recipe.data.proposals, proposals=args.proposals)
    own, _ = held_out(source.open(args.split), 0.2)
    return own.subset([place < args.most for place in range(len(own.dataset))]) if args.most else own


def album_of(part: Part, recipe: Recipe, device: torch.device) -> Album:
    """Its pictures, as training has them."""
    net = build_warm(recipe, len(part.dataset.classes)).to(device)
    return Album(part.dataset, part.store, recipe.data, device, net.trunk, net.head)


PARTS: Mapping[str, Callable[[argparse.Namespace, Recipe], None]] = {"kept": kept, "hints": hints, "found": found}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--run", type=Path, help="of which seeds are judged, and whose recipe it is")
    parser.add_argument("--parts", default="kept", help=f"of {', '.join(PARTS)} (default: kept)")
    parser.add_argument("--recipe", default="voc07", help="where there is no --run (default: voc07)")
    parser.add_argument("--weights", type=Path, help="of the trunk (--backbone.weights)")
    parser.add_argument("--split", default="trainval")
    parser.add_argument("--proposals", type=Path)
    parser.add_argument("--nets", type=int, default=3, help="hints: so many, and together (default: 3)")
    parser.add_argument("--most", type=int, help="pictures")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="as --FIELD VALUE of train")
    args = parser.parse_args()
    names = args.parts.split(",")
    for name in names:
        if name not in PARTS:
            raise InputError(f"expected --parts out of {', '.join(PARTS)}, found '{name}'{did_you_mean(name, PARTS)}")
        if args.run is None and name != "hints":
            raise InputError(f"expected --run RUN for {name}, found none")
    overrides = dict(one.split("=", 1) for one in args.set)
    if args.weights is not None:
        overrides["backbone.weights"] = str(args.weights)
    recipe = load_recipe(args.recipe if args.run is None else args.run / "args.yaml", overrides)
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"{where}; {describe_machine('torch', 'torchvision')}")
    for name in names:
        print(f"\n## {name}\n", flush=True)
        PARTS[name](args, recipe)
    return 0


if __name__ == "__main__":
    sys.exit(in_one_line(main))
