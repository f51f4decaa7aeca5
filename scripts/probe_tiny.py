"""How good a trunk is for the demo, without training it: two probes on its frozen features.

    python scripts/probe_tiny.py DEVKIT [--weights pretrained none FILE …] [--seeds 3]

DEVKIT is the demo's VOCdevkit/VOC2007 after `tag2box proposals`. *Linear*: a linear classifier on the features of the
training objects' own boxes, its accuracy on the test objects: do the features know the classes apart? *CorLoc*: WSDDN
on the cached features of the proposals, from tags alone: can the classes be found with them?
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torchvision.ops import box_iou

from tag2box.data import GroundTruth, open_dataset, open_ground_truth, read_image
from tag2box.detections import Detections
from tag2box.evaluation.corloc import corloc
from tag2box.mil import mil_losses, refined_scores, wsddn_scores
from tag2box.nets import RoIHead, Trunk, build_trunk_and_head
from tag2box.nets.mil import MilNet
from tag2box.proposals.store import ProposalStore

STORE = ".tag2box/proposals-trainval-fast.safetensors"


def main() -> None:
    """Both probes for each of the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devkit", type=Path)
    parser.add_argument("--weights", nargs="+", default=["none", "pretrained"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--proposals", type=int, default=200, help="the first so many of each image")
    options = parser.parse_args()
    for weights in options.weights:
        torch.manual_seed(0)
        trunk, head = build_trunk_and_head("tiny", weights=weights, frozen="all", dropout=0.2)
        print(f"{weights}: linear {100 * linear_probe(trunk, head, options.devkit):.1f}", flush=True)
        pooled = pooled_proposals(trunk, head, options.devkit, options.proposals)
        for seed in range(options.seeds):
            shares = corloc_probe(trunk, pooled, options, weights, seed)
            print(f"{weights}, seed {seed}: " + "; ".join(f"{name} {text}" for name, text in shares), flush=True)


def _truth(devkit: Path, split: str) -> GroundTruth:
    truth = open_ground_truth(devkit, split)
    if truth is None:
        raise SystemExit(f"{devkit}: expected annotated objects in {split}, found none")
    return truth


@torch.no_grad()
def _objects(trunk: Trunk, head: RoIHead, devkit: Path, split: str) -> tuple[Tensor, Tensor]:
    """Pooled features and labels of a split's objects [N, 2048], [N]; difficult ones are left out."""
    dataset, truth = open_dataset(devkit, split), _truth(devkit, split)
    found = []
    for number, image in enumerate(dataset):
        boxes = truth.boxes[(truth.images == number) & ~truth.difficult]
        found.append(_pooled(trunk, head, image.path, torch.from_numpy(boxes)).flatten(1).float())
    return torch.cat(found), torch.from_numpy(truth.labels[~truth.difficult])


def _pooled(trunk: Trunk, head: RoIHead, path: Path, boxes: Tensor) -> Tensor:
    pixels = torch.from_numpy(np.array(read_image(path))).movedim(2, 0)[None]
    return head.pool(trunk.features(pixels), [boxes.float()])


def linear_probe(trunk: Trunk, head: RoIHead, devkit: Path) -> float:
    """Accuracy on the test objects."""
    (x, y), (x_test, y_test) = (_objects(trunk, head, devkit, split) for split in ("trainval", "test"))
    mean, std = x.mean(0), x.std(0) + 0.1 * x.std()
    x, x_test = (x - mean) / std, (x_test - mean) / std
    layer = torch.nn.Linear(x.shape[1], int(y.max()) + 1)
    optimiser = torch.optim.AdamW(layer.parameters(), lr=1e-3, weight_decay=0.3)
    for _ in range(300):
        optimiser.zero_grad()
        functional.cross_entropy(layer(x), y).backward()
        optimiser.step()
    return float((layer(x_test).argmax(1) == y_test).float().mean())


@torch.no_grad()
def pooled_proposals(trunk: Trunk, head: RoIHead, devkit: Path, most: int) -> list[tuple[Tensor, Tensor]]:
    """Boxes and pooled features of each training image, in half precision."""
    store = ProposalStore(devkit / STORE)
    found = []
    for image in open_dataset(devkit, "trainval"):
        boxes = torch.from_numpy(np.array(store[image.id][:most])).float()
        found.append((boxes, _pooled(trunk, head, image.path, boxes).half()))
    return found


def corloc_probe(
    trunk: Trunk, pooled: list[tuple[Tensor, Tensor]], options: argparse.Namespace, weights: str, seed: int
) -> list[tuple[str, str]]:
    """Mean CorLoc of WSDDN and of its refinement, and of the tags by WSDDN's image scores."""
    torch.manual_seed(seed)
    dataset, truth = open_dataset(options.devkit, "trainval"), _truth(options.devkit, "trainval")
    _, head = build_trunk_and_head("tiny", weights=weights, frozen="all", dropout=0.2)
    net = MilNet(trunk=trunk, head=head, classes=len(dataset.classes), branches=3)
    tags = torch.from_numpy(dataset.tag_matrix())
    _train(net, pooled, tags, options.epochs)
    net.eval()
    with torch.no_grad():
        outputs = [net.from_pooled(features.float()) for _, features in pooled]
    first = [wsddn_scores(output.class_logits, output.proposal_logits) for output in outputs]
    last = [refined_scores(output)[:, 1:] for output in outputs]
    told = torch.stack([scores.sum(0) for scores in first])
    right = float(((told > 0.5) == tags).float().mean())
    rows = [("tags right", f"{100 * right:.1f}")]
    for name, scores in (("wsddn CorLoc", first), ("refined CorLoc", last)):
        best = _best(dataset.classes, dataset.ids, scores, [boxes for boxes, _ in pooled])
        shares = 100 * corloc(truth, best)
        rows.append((name, f"{shares.mean():.1f} ({' '.join(f'{share:.0f}' for share in shares)})"))
    rows.append(("wrong ones", _faults(truth, last, pooled, tags)))
    return rows


def _train(net: MilNet, pooled: list[tuple[Tensor, Tensor]], tags: Tensor, epochs: int) -> None:
    parameters = [*net.head.parameters(), *net.mil.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=1e-2)
    steps = epochs * -(-len(pooled) // 4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-3, total_steps=steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(pooled)).split(4):
            outputs = net.from_pooled(torch.cat([pooled[i][1].float() for i in rows]))
            losses = mil_losses(outputs, [pooled[i][0] for i in rows], [tags[i] for i in rows])
            optimiser.zero_grad()
            (losses.wsddn + torch.stack(losses.refined).sum(dim=0)).mean().backward()
            optimiser.step()
            schedule.step()


def _best(classes: tuple[str, ...], ids: tuple[str, ...], scores: list[Tensor], boxes: list[Tensor]) -> Detections:
    """The top-scoring box of each class in each image."""
    count = len(classes)
    tops = [score.max(0) for score in scores]
    chosen = torch.cat([box[top.indices] for box, top in zip(boxes, tops, strict=True)])
    return Detections(
        classes,
        ids,
        images=np.repeat(np.arange(len(ids)), count),
        labels=np.tile(np.arange(count), len(ids)),
        scores=torch.cat([top.values for top in tops]).double().numpy(),
        boxes=chosen.double().numpy(),
    )


def _faults(truth: GroundTruth, scores: list[Tensor], pooled: list[tuple[Tensor, Tensor]], tags: Tensor) -> str:
    """Of the wrong best boxes: how many lie within an object of the class, hold one, or are elsewhere."""
    kinds = {"inside": 0, "around": 0, "elsewhere": 0}
    for image, row in enumerate(tags):
        for label in row.nonzero()[:, 0].tolist():
            objects = torch.from_numpy(truth.boxes[(truth.images == image) & (truth.labels == label)]).float()
            box = pooled[image][0][scores[image][:, label].argmax()][None]
            overlap, nearest = box_iou(box, objects).max(1)
            if overlap >= 0.5:
                continue
            thing = objects[nearest]
            shared = (torch.minimum(box[:, 2:], thing[:, 2:]) - torch.maximum(box[:, :2], thing[:, :2])).clamp(min=0)
            area = [float((b[:, 2:] - b[:, :2]).prod()) for b in (box, thing)]
            share = float(shared.prod())
            kinds["inside" if share > 0.7 * area[0] else "around" if share > 0.7 * area[1] else "elsewhere"] += 1
    return " ".join(f"{name} {count}" for name, count in kinds.items())


if __name__ == "__main__":
    main()
