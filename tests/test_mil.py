"""The warm start: every function against a slow loop, and that it learns where it must."""

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from tag2box.disco.offsets import encode
from tag2box.mil import (
    MARGIN,
    Bags,
    Targets,
    mil_losses,
    refined_scores,
    refinement_loss,
    refinement_targets,
    regression_loss,
    wsddn_loss,
    wsddn_scores,
)
from tag2box.nets import build_trunk_and_head
from tag2box.nets.mil import MilHead, MilNet, MilOutputs, conditional_from_mil, prediction_from_mil
from tag2box.voting import coverage, voted_overlaps

IMAGES = torch.randint(0, 256, (2, 3, 48, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
BOXES = [torch.tensor([[0.0, 0, 64, 48], [8, 8, 40, 24], [30, 20, 50, 40]]), torch.tensor([[5.0, 5, 30, 40]])]
NONE = torch.zeros(0, 4)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """The tensors are small: a second thread would only wait for the first."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _random_boxes(count: int, seed: int) -> Tensor:
    corners = 60 * torch.rand(count, 2, 2, generator=torch.Generator().manual_seed(seed))
    return torch.cat([corners.amin(1), corners.amax(1) + 1], dim=1)


@pytest.mark.parametrize("count", [1, 7])
def test_wsddn_scores_against_a_loop(count: int):
    classes, proposals = torch.randn(count, 3), torch.randn(count, 3)
    scores = wsddn_scores(classes, proposals)
    for i in range(count):
        for c in range(3):
            over_classes = math.exp(classes[i, c]) / sum(math.exp(classes[i, k]) for k in range(3))
            over_proposals = math.exp(proposals[i, c]) / sum(math.exp(proposals[k, c]) for k in range(count))
            assert scores[i, c].item() == pytest.approx(over_classes * over_proposals, rel=1e-5)
    assert (scores.sum(0) <= 1).all()


def test_wsddn_loss_against_a_loop():
    scores, tags = wsddn_scores(torch.randn(7, 4), torch.randn(7, 4)), torch.tensor([True, False, True, False])
    loss = 0.0
    for c in range(4):
        image = MARGIN + (1 - 2 * MARGIN) * sum(scores[i, c].item() for i in range(7))
        loss -= math.log(image if tags[c] else 1 - image)
    assert wsddn_loss(scores, tags).item() == pytest.approx(loss, rel=1e-5)


def test_wsddn_loss_pulls_even_where_a_tagged_class_has_vanished():
    logits = torch.tensor([[-40.0, 0.0]], requires_grad=True)  # the tagged class: a score of 4e−18
    loss = wsddn_loss(wsddn_scores(logits, torch.zeros(1, 2)), torch.tensor([True, False]))
    scores = torch.full((3, 2), 1e-9, requires_grad=True)
    wsddn_loss(scores, torch.tensor([True, False])).backward()
    assert loss.isfinite()
    assert (scores.grad[:, 0] < -1e5).all()  # clamped, it would be 0


def test_wsddn_loss_is_finite_at_certainty():
    for certain in (torch.tensor([[1.0 + 1e-6, 0.0]]), torch.tensor([[0.0, 1.0 + 1e-6]])):
        assert wsddn_loss(certain, torch.tensor([True, False])).isfinite()


def targets_of(scores: Tensor, boxes: Tensor, tags: Tensor, votes: bool = False) -> Targets:
    """Of one image, without the dimension of the images."""
    bags, choice = Bags.of([boxes], [tags]), voted_overlaps(scores, coverage(boxes))[None] if votes else None
    return Targets(*(field[0] for field in refinement_targets(scores[None], bags, choice=choice)))


def _slow_targets(scores: Tensor, boxes: Tensor, tags: Tensor) -> tuple[list[int], list[float], list[int]]:
    """OICR with the left-out band, one proposal at a time."""
    tagged = sorted((c for c in range(len(tags)) if tags[c]), key=lambda c: -scores[:, c].max().item())
    tagged = tagged[: len(boxes)]
    seeds: dict[int, int] = {}  # proposal → class, in the order they were chosen
    for c in tagged:
        free = [i for i in range(len(boxes)) if i not in seeds]
        seeds[max(free, key=lambda i: scores[i, c].item())] = c
    labels, weights, nearest = [], [], []
    for box in boxes:
        overlaps = {seed: _iou(box, boxes[seed]) for seed in seeds}
        seed = max(overlaps, key=lambda s: overlaps[s])
        nearest.append(seed)
        labels.append(seeds[seed] + 1 if overlaps[seed] >= 0.5 else 0)
        touches = overlaps[seed] >= 0.1 or _inside(box, boxes[seed]) >= 0.5
        weights.append(scores[seed, seeds[seed]].item() if touches else 0.0)
    return labels, weights, nearest


def _inside(a: Tensor, b: Tensor) -> float:
    """The share of a's area that lies in b."""
    width, height = (max(min(a[2 + i], b[2 + i]) - max(a[i], b[i]), 0) for i in (0, 1))
    return float(width * height / ((a[2] - a[0]) * (a[3] - a[1])))


def _iou(a: Tensor, b: Tensor) -> float:
    width, height = (min(a[2 + i], b[2 + i]) - max(a[i], b[i]) for i in (0, 1))
    shared = float(max(width, 0) * max(height, 0))
    return shared / (float((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])) - shared)


@pytest.mark.parametrize("tags", [(1, 0, 0, 0), (0, 1, 1, 0), (1, 1, 1, 1)])
@pytest.mark.parametrize("count", [1, 2, 60])  # fewer proposals than tags, too
@pytest.mark.parametrize("seed", range(5))
def test_refinement_targets_against_a_loop(tags: tuple[int, ...], count: int, seed: int):
    boxes = _random_boxes(count, seed)
    scores = torch.rand(count, 4, generator=torch.Generator().manual_seed(seed))
    targets = targets_of(scores, boxes, torch.tensor(tags).bool())
    labels, weights, seeds = _slow_targets(scores, boxes, torch.tensor(tags))
    assert targets.labels.tolist() == labels
    torch.testing.assert_close(targets.weights, torch.tensor(weights))
    assert targets.seeds.tolist() == seeds


def test_a_small_part_of_a_seed_is_background_and_what_it_does_not_touch_is_nothing():
    boxes = torch.tensor([[0.0, 0, 100, 100], [40, 40, 50, 50], [200, 200, 210, 210]])
    targets = targets_of(torch.tensor([[0.9], [0.5], [0.4]]), boxes, torch.tensor([True]))
    assert targets.labels.tolist() == [1, 0, 0]
    assert targets.weights.tolist() == pytest.approx([0.9, 0.9, 0])


def test_two_classes_never_share_a_seed_and_the_surer_one_chooses_first():
    scores = torch.tensor([[0.5, 0.9], [0.1, 0.3]])  # both like the first proposal best
    boxes = torch.tensor([[0.0, 0, 10, 10], [50.0, 50, 60, 60]])
    targets = targets_of(scores, boxes, torch.tensor([True, True]))
    assert targets.labels.tolist() == [2, 1]
    torch.testing.assert_close(targets.weights, torch.tensor([0.9, 0.1]))


@pytest.mark.parametrize("tags", [(False, False), (True, True)])
def test_targets_without_proposals(tags: tuple[bool, bool]):
    targets = targets_of(torch.zeros(0, 2), NONE, torch.tensor(tags))
    assert [len(field) for field in targets] == [0, 0, 0, 0]
    assert refinement_loss(torch.zeros(0, 3), targets) == 0
    assert regression_loss(torch.zeros(1, 0, 3, 4), NONE[None], Targets(*(field[None] for field in targets))) == 0


def test_an_image_without_tags_teaches_the_refinement_nothing():
    logits = torch.randn(3, 3, requires_grad=True)
    targets = targets_of(torch.rand(3, 2), BOXES[0], torch.tensor([False, False]))
    loss = refinement_loss(logits, targets)
    loss.backward()
    assert loss == 0
    assert not logits.grad.any()


@pytest.mark.parametrize(
    ("labels", "weights", "share"),
    [
        ([0, 2, 1, 1, 0], [0.3, 0.3, 0.1, 0.1, 0.0], 0.625),  # more than a quarter are objects: as they come
        ([0, 0, 0, 0, 1], [0.3, 0.3, 0.1, 0.1, 0.1], 0.25),  # a ninth is raised to a quarter
        ([0, 0, 0, 0, 1], [0.3, 0.3, 0.1, 0.1, 0.0], 0.0),  # one that does not count
        ([1, 2, 1, 1, 2], [0.3, 0.3, 0.1, 0.1, 0.2], 1.0),
    ],
)
def test_refinement_loss_against_a_loop(labels: list[int], weights: list[float], share: float):
    logits, loss = torch.randn(5, 3), 0.0
    objects = sum(weight for label, weight in zip(labels, weights, strict=True) if label)
    for i in range(5):
        probability = math.exp(logits[i, labels[i]]) / sum(math.exp(logit) for logit in logits[i])
        own = share * weights[i] / (objects or 1) if labels[i] else (1 - share) * weights[i] / (sum(weights) - objects)
        loss -= own * math.log(probability)
    targets = Targets(torch.tensor(labels), torch.tensor(weights), torch.tensor(labels))
    assert refinement_loss(logits, targets).item() == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("scale", [1e-2, 1e-8, 1e-30])
def test_tiny_seed_scores_teach_as_much_as_great_ones(scale: float):
    """WSDDN's top scores are about 1 / (C B) at first."""
    logits, labels, weights = torch.randn(4, 3), torch.tensor([0, 2, 1, 1]), torch.tensor([0.9, 0.9, 0.5, 0.5])
    one, other = (refinement_loss(logits, Targets(labels, factor * weights, labels)) for factor in (1, scale))
    torch.testing.assert_close(one, other)


def test_regression_loss_against_a_loop():
    boxes, offsets = _random_boxes(4, 0), torch.randn(4, 3, 4)
    targets = Targets(torch.tensor([1, 0, 2, 2]), torch.tensor([0.5, 0.5, 0.2, 0.2]), torch.tensor([0, 0, 2, 2]))
    loss = 0.0
    for i in (0, 2, 3):  # the foreground
        wanted = encode(boxes[targets.seeds[i]], boxes[i])
        for k in range(4):
            apart = abs(float(offsets[i, targets.labels[i], k] - wanted[k]))
            loss += targets.weights[i].item() / 0.9 * (apart**2 / 2 if apart < 1 else apart - 0.5)
    batch = Targets(*(field[None] for field in targets[:3]))
    assert regression_loss(offsets[None], boxes[None], batch).item() == pytest.approx(loss, rel=1e-5)


def test_each_branch_learns_from_the_one_before_and_the_last_one_teaches_boxes():
    torch.manual_seed(0)
    outputs = MilHead(dim=6, classes=3, branches=2, regression=True)(100 * torch.randn(20, 6))
    boxes, tags = _random_boxes(20, 1), torch.tensor([True, False, True])
    losses = mil_losses(outputs, [boxes], [tags])
    scores = wsddn_scores(outputs.class_logits, outputs.proposal_logits)
    second = targets_of(outputs.refined[0].softmax(1)[:, 1:], boxes, tags)
    assert losses.wsddn == wsddn_loss(scores, tags)
    assert losses.refined[0] == refinement_loss(outputs.refined[0], targets_of(scores, boxes, tags))
    assert losses.refined[1] == refinement_loss(outputs.refined[1], second)
    assert losses.regression == regression_loss(
        outputs.offsets[None], boxes[None], Targets(*(field[None] for field in second))
    )


def test_targets_are_constants():
    """No gradient flows from a branch's loss into the branch before, whose scores are its weights."""
    head = MilHead(dim=6, classes=3, branches=2)
    losses = mil_losses(head(torch.randn(20, 6)), [_random_boxes(20, 1)], [torch.tensor([True, False, True])])
    losses.refined[1].sum().backward()
    assert head.refinements[1].weight.grad.any()
    assert head.refinements[0].weight.grad is None
    assert head.classification.weight.grad is None


def test_test_time_scores_are_the_mean_of_the_branches():
    outputs = MilHead(dim=6, classes=3)(torch.randn(5, 6))
    by_hand = sum(logits.softmax(1) for logits in outputs.refined) / 3
    torch.testing.assert_close(refined_scores(outputs), by_hand)
    torch.testing.assert_close(refined_scores(outputs).sum(1), torch.ones(5))


@pytest.mark.parametrize("counts", [(3, 2), (0, 5), (5, 0)])
@pytest.mark.parametrize("regression", [True, False])
def test_splitting_by_image(counts: tuple[int, int], regression: bool):
    outputs = MilHead(dim=6, classes=3, regression=regression)(torch.randn(5, 6))
    parts = outputs.split(counts)
    assert [len(part.class_logits) for part in parts] == list(counts)
    assert torch.equal(torch.cat([part.refined[2] for part in parts]), outputs.refined[2])
    assert all((part.offsets is not None) == regression for part in parts)


def test_it_finds_the_object_in_bags():
    """Proposals as vectors, one of which shows the class: WSDDN and its branches learn which, from tags alone."""
    torch.manual_seed(0)
    head, boxes = (
        MilHead(dim=8, classes=3, branches=2),
        torch.arange(10.0)[:, None] * 100 + torch.tensor([0.0, 0, 50, 50]),
    )
    optimiser = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(150):
        outputs, tags, _ = _bag(head)
        losses = mil_losses(outputs, [boxes], [tags])
        optimiser.zero_grad()
        (losses.wsddn + sum(losses.refined)).sum().backward()
        optimiser.step()
    right = 0
    for _ in range(50):
        outputs, tags, at = _bag(head)
        right += int(refined_scores(outputs)[:, 1:][:, tags].flatten().argmax() == at)
    assert right >= 45


def _bag(head: nn.Module) -> tuple[MilOutputs, Tensor, int]:
    label, at = int(torch.randint(3, ())), int(torch.randint(10, ()))
    vectors = 0.3 * torch.randn(10, 8)
    vectors[at, label] += 2
    return head(vectors), torch.arange(3) == label, at


def _warm(name: str = "tiny", pooling: str = "align", regression: bool = False) -> MilNet:
    trunk, head = build_trunk_and_head(name, weights="none", pooling=pooling, width=16)
    return MilNet(trunk=trunk, head=head, classes=3, branches=2, regression=regression).eval()


def test_the_net_s_shapes_and_three_ways_in():
    net = _warm(regression=True)
    outputs = net(IMAGES, BOXES)
    assert outputs.class_logits.shape == outputs.proposal_logits.shape == (4, 3)
    assert [logits.shape for logits in outputs.refined] == [(4, 4), (4, 4)]
    assert outputs.offsets.shape == (4, 4, 4)
    features = net.trunk.features(IMAGES)
    for other in (net.from_features(features, BOXES), net.from_pooled(net.head.pool(features, BOXES))):
        assert torch.equal(other.refined[1], outputs.refined[1])


def test_the_net_without_proposals():
    net = _warm(regression=True)
    for part in net(IMAGES, [NONE, NONE]).split([0, 0]):
        losses = mil_losses(part, [NONE], [torch.tensor([True, False, False])])
        assert losses.wsddn.isfinite()
        assert losses.refined == (0, 0)
        assert losses.regression == 0
        assert refined_scores(part).shape == (0, 4)


def test_gradients_reach_what_learns_and_nothing_else():
    net = _warm(regression=True)
    losses = mil_losses(net(IMAGES, BOXES).split([3, 1])[0], BOXES[:1], [torch.tensor([True, False, True])])
    (losses.wsddn + sum(losses.refined) + losses.regression).sum().backward()
    for name, parameter in net.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, name


@pytest.mark.parametrize("pooling", ["max", "align"])
@pytest.mark.parametrize("regression", [True, False])
@torch.no_grad()
def test_both_nets_start_as_the_last_branch(pooling: str, regression: bool):
    warm = _warm(pooling=pooling, regression=regression)
    prediction, conditional = prediction_from_mil(warm).eval(), conditional_from_mil(warm).eval()
    outputs, wanted = prediction(IMAGES, BOXES), warm(IMAGES, BOXES)
    assert torch.equal(outputs.scores, wanted.refined[-1])
    assert torch.equal(outputs.offsets, wanted.offsets if regression else torch.zeros(4, 4, 4))
    silent = conditional(IMAGES, BOXES, samples=0)
    torch.testing.assert_close(silent.scores[0], outputs.scores, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(silent.offsets[0], outputs.offsets, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_nets_are_copies_and_keep_what_is_frozen():
    warm = _warm()
    prediction, conditional = prediction_from_mil(warm), conditional_from_mil(warm)
    warm.head.fc6.weight.zero_()
    assert prediction.head.fc6.weight.any()
    assert conditional.head.fc6.weight.any()
    assert not prediction.trunk.body.stem[0].weight.requires_grad
    assert prediction.trunk.body.out[0].weight.requires_grad


def test_half_precision_by_autocast():
    net, tags = _warm(regression=True), torch.tensor([True, False, True])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = mil_losses(net(IMAGES, BOXES).split([3, 1])[0], BOXES[:1], [tags])
        (losses.wsddn + sum(losses.refined) + losses.regression).sum().backward()
    full = mil_losses(net(IMAGES, BOXES).split([3, 1])[0], BOXES[:1], [tags])
    torch.testing.assert_close(losses.wsddn, full.wsddn, rtol=0.05, atol=0.05)
    assert losses.wsddn.dtype == torch.float32


def test_what_touches_no_seed_is_of_no_class_but_the_tags():
    """Against a loop: it has the weight of its nearest seed, and any label that the tags allow is as good."""
    logits, tags = torch.randn(4, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([True, False, True])
    labels, weights, apart = [1, 0, 0, 0], [0.6, 0.6, 0.0, 0.0], [0.0, 0.0, 0.6, 0.2]
    targets = Targets(*map(torch.tensor, (labels, weights, labels, apart)))
    chances, loss = logits.double().softmax(1), 0.0
    for i, share in enumerate((0.6 / 2.0, 0.6 / 2.0, 0.6 / 2.0, 0.2 / 2.0)):  # an object has 0.3, its natural share
        allowed = chances[i, labels[i]] if weights[i] else chances[i, 0] + chances[i, 1] + chances[i, 3]
        loss -= share * math.log(allowed)
    assert refinement_loss(logits, targets, tags).item() == pytest.approx(loss, rel=1e-5)
    assert refinement_loss(logits, targets) == refinement_loss(logits[:2], Targets(*(one[:2] for one in targets)))


def test_every_proposal_either_belongs_to_a_seed_or_lies_apart():
    boxes, scores = _random_boxes(60, 3), torch.rand(60, 3, generator=torch.Generator().manual_seed(1))
    targets = targets_of(scores, boxes, torch.tensor([True, False, True]))
    belongs, apart = targets.weights > 0, targets.apart > 0
    assert (belongs ^ apart).all()
    assert belongs.any()
    assert apart.any()


def test_a_loss_of_what_lies_apart_alone_is_finite_and_pulls():
    logits = torch.zeros(3, 3, requires_grad=True)
    none = torch.zeros(3)
    targets = Targets(none.long(), none, none.long(), torch.ones(3))
    refinement_loss(logits, targets, torch.tensor([True, False])).backward()
    assert (logits.grad[:, 2] > 0).all()  # away from the class without a tag
    assert (logits.grad[:, :2] < 0).all()


@pytest.mark.parametrize("aside", [False, True])
def test_wsddn_aside_leaves_the_vectors_alone(aside: bool):
    vectors = torch.randn(5, 6, requires_grad=True)
    head = MilHead(dim=6, classes=3, aside=aside)
    outputs = head(vectors)
    wsddn_loss(
        wsddn_scores(outputs.class_logits, outputs.proposal_logits), torch.tensor([True, False, False])
    ).backward()
    assert (vectors.grad is None) == aside
    assert head.classification.weight.grad.abs().sum() > 0
