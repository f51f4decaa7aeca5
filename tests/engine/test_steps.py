"""One training step of each net against loops anyone can read."""

import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from tag2box.config import Rounds, Warm
from tag2box.disco.offsets import FAST_RCNN, decode, encode
from tag2box.disco.prediction_loss import balanced_weights
from tag2box.disco.sampling import constrained_argmax
from tag2box.engine.forward import conditional_outputs, noise_for, prediction_outputs, warm_outputs
from tag2box.engine.plan import generator_for
from tag2box.engine.steps import (
    ConditionalStep,
    PredictionStep,
    WarmStep,
    all_pseudo_truths,
    assign,
    of_samples,
    pseudo_truths,
    with_promise,
)
from tag2box.engine.tags import TagStep, regions
from tag2box.mil import mil_losses
from tag2box.nets.prediction import Outputs

ROUNDS = Rounds(samples=3)


@pytest.fixture
def nets(world, make_recipe, make_nets):
    return make_nets(world, make_recipe())


def views_of(nets, *indices):
    return [nets.album.view(index, 48) for index in indices]


def conditional_inputs(nets, views, samples=3):
    noise = noise_for(views, samples, generator_for(1))
    with torch.no_grad():
        return noise, prediction_outputs(nets.prediction, views)


def truths_for(nets, views, samples=3, rounds=ROUNDS):
    with torch.no_grad():
        outputs = conditional_outputs(nets.conditional, views, noise_for(views, samples, generator_for(1)))
    return [pseudo_truths(view, one, rounds)[1] for view, one in zip(views, outputs, strict=True)]


def test_the_warm_step_is_the_mean_of_the_pictures_losses(nets):
    views, weight = views_of(nets, 0, 1, 2), 0.7
    loss, logs = WarmStep(nets.warm, Warm(refinement=weight))(views)
    total, tags = 0.0, 0.0
    for view in views:
        losses = mil_losses(warm_outputs(nets.warm, [view]), [view.boxes], [view.tags], FAST_RCNN)
        total += losses.wsddn.item() + weight * (sum(one.item() for one in losses.refined) + losses.regression.item())
        tags += losses.wsddn.item()
    assert loss.item() == pytest.approx(total / 3, rel=1e-5)
    assert logs["loss_tags"].item() == pytest.approx(tags / 3, rel=1e-5)


@pytest.mark.parametrize(("first", "votes"), [(3.0, False), (0.0, False), (1.0, True), (2.0, True)])
def test_the_first_branch_may_weigh_more_and_seeds_be_voted(nets, first, votes):
    (view,) = views_of(nets, 1)
    loss, _ = WarmStep(nets.warm, Warm(first_refinement=first, votes=votes))([view])
    losses = mil_losses(warm_outputs(nets.warm, [view]), [view.boxes], [view.tags], FAST_RCNN, votes=votes)
    one, two = (branch.item() for branch in losses.refined)
    expected = losses.wsddn.item() + first * one + two + losses.regression.item()
    assert loss.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("images", [2, 4, 8])
@torch.no_grad()
def test_a_batch_of_pixels_has_the_mean_loss_of_its_pictures(make_world, make_recipe, make_nets, tmp_path, images):
    """Of one size, to rounding. Others are padded, which is felt near the border: see test_views."""
    world = make_world(tmp_path, images=images, sizes=((96, 80),), proposals=(12, 7, 9))
    own = make_nets(world, make_recipe(backbone={"frozen": "early"}))
    views = [own.album.view(index, 80, index % 2 == 0) for index in range(images)]
    assert all(view.pixels is not None for view in views)
    noise, predictions = conditional_inputs(own, views)
    truths = truths_for(own, views)
    warm = WarmStep(own.warm, Warm(votes=True))
    conditional, prediction = ConditionalStep(own.conditional, ROUNDS), PredictionStep(own.prediction, ROUNDS)
    boxes = [regions(view.size, generator_for(number)) for number, view in enumerate(views)]
    alone = [
        (
            warm([view])[0],
            conditional([view], noise[:, i : i + 1], predictions[i : i + 1])[0],
            prediction([view], truths[i : i + 1])[0],
            TagStep(own.warm)([view], boxes[i : i + 1])[0],
        )
        for i, view in enumerate(views)
    ]
    together = (
        warm(views)[0],
        conditional(views, noise, predictions)[0],
        prediction(views, truths)[0],
        TagStep(own.warm)(views, boxes)[0],
    )
    for whole, parts in zip(together, zip(*alone, strict=True), strict=True):
        assert whole.item() == pytest.approx(sum(part.item() for part in parts) / images, rel=1e-3, abs=1e-4)


def test_the_conditional_step_teaches_its_own_net_only(nets):
    views = views_of(nets, 0, 1, 2, 3)
    before = copy.deepcopy(nets.prediction.state_dict())
    loss, logs = ConditionalStep(nets.conditional, ROUNDS)(views, *conditional_inputs(nets, views))
    loss.backward()
    assert nets.conditional.mix.weight.grad[:, -1].any()  # w_z, the noise's
    assert nets.conditional.head.fc6.weight.grad.any()
    assert nets.conditional.predictor.scores.weight.grad.any()
    assert nets.conditional.predictor.offsets.weight.grad.any()
    assert all(parameter.grad is None for parameter in nets.prediction.parameters())
    assert all(torch.equal(value, before[name]) for name, value in nets.prediction.state_dict().items())
    assert set(logs) >= {"loss_direct", "loss_apart", "score_spread"}


def test_the_prediction_step_teaches_its_own_net_only(nets):
    views = views_of(nets, 0, 1)
    loss, logs = PredictionStep(nets.prediction, ROUNDS)(views, truths_for(nets, views))
    loss.backward()
    assert all(one.grad is not None for one in nets.prediction.parameters() if one.requires_grad)
    assert all(one.grad is None for one in nets.conditional.parameters())
    assert set(logs) >= {"loss_labels", "loss_boxes"}


def _iou(a: list[float], b: list[float]) -> float:
    width, height = (max(min(a[2 + i], b[2 + i]) - max(a[i], b[i]), 0) for i in (0, 1))
    shared = width * height
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def _inside(a: list[float], b: list[float]) -> float:
    """The share of a's area that lies in b."""
    width, height = (max(min(a[2 + i], b[2 + i]) - max(a[i], b[i]), 0) for i in (0, 1))
    return width * height / ((a[2] - a[0]) * (a[3] - a[1]))


def slow_assign(proposals: Tensor, boxes: Tensor, classes: Tensor) -> list[tuple[int, bool, int]]:
    """Of each proposal: its label, whether it counts, and the box it belongs to."""
    found = []
    for proposal in proposals.tolist():
        overlaps = [_iou(proposal, box) for box in boxes.tolist()]
        nearest = max(range(len(overlaps)), key=lambda t: overlaps[t])
        label = int(classes[nearest]) if overlaps[nearest] >= 0.5 else 0
        touches = overlaps[nearest] >= 0.1 or _inside(proposal, boxes[nearest].tolist()) >= 0.5
        found.append((label, touches, nearest))
    return found


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6), proposals=st.integers(1, 30), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3)
)
def test_assignment_against_a_loop(seed: int, proposals: int, sizes: list[int]):
    generator = torch.Generator().manual_seed(seed)
    corners = 60 * torch.rand(proposals + sum(sizes), 2, 2, generator=generator)
    every = torch.cat([corners.amin(1), corners.amax(1) + 1], dim=1)
    own, others = every[:proposals], every[proposals:]
    near = min(proposals, len(others))
    own[:near] = others[:near] + torch.rand(near, 4, generator=generator)  # some that are foreground
    truths = [(boxes, torch.randint(1, 4, (len(boxes),), generator=generator)) for boxes in others.split(sizes)]
    assigned = zip(truths, *assign(own, truths), strict=True)
    for (boxes, classes), labels, counts, wanted in assigned:
        for i, (label, counted, nearest) in enumerate(slow_assign(own, boxes, classes)):
            assert (int(labels[i]), bool(counts[i])) == (label, counted)
            if label:
                torch.testing.assert_close(decode(wanted[i], own[i], FAST_RCNN), boxes[nearest], rtol=1e-4, atol=1e-3)


def test_the_bounds_of_assignment():
    """Foreground from an IoU of 0.5 on, left out below 0.1, but for parts; of two boxes the nearer one counts."""
    truth = torch.tensor([[0.0, 0, 10, 10]]), torch.tensor([2])
    proposals = torch.tensor(
        [
            [0.0, 0, 10, 10],
            [0, 0, 10, 20],
            [0, 0, 10, 21],
            [0, 0, 0.5, 10],  # a part, however small
            [9.5, 0, 10.5, 10],  # half of it in the box
            [9.4, 0, 10.5, 10],
            [9.6, 0, 10.5, 10],  # less than half, and an IoU of 0.04
            [50, 50, 60, 60],
        ]
    )
    ((labels,), (counts,), _) = assign(proposals, [truth])
    assert labels.tolist() == [2, 2, 0, 0, 0, 0, 0, 0]
    assert counts.tolist() == [True, True, True, True, True, True, False, False]


def test_the_prediction_step_against_a_loop(nets):
    """Brier scores and smooth L1 by hand, foreground with a quarter of the weight where there is any."""
    seen = set()
    for index in range(len(nets.album)):
        (view,) = views_of(nets, index)
        (truths,) = truths_for(nets, [view])
        _, logs = PredictionStep(nets.prediction, ROUNDS)([view], [truths])
        (outputs,) = prediction_outputs(nets.prediction, [view])
        parts = [slow_losses(view, outputs, truth, seen) for truth in truths]
        brier, apart = (sum(values) / len(truths) for values in zip(*parts, strict=True))
        assert logs["loss_labels"].item() == pytest.approx(brier, rel=1e-4)
        assert logs["loss_boxes"].item() == pytest.approx(apart, rel=1e-4)
    assert seen == {"object", "background", "untouched"}


def slow_losses(view, outputs, truth, seen):
    """Of one sample: the weighted Brier score and smooth L1."""
    boxes, classes = truth
    assigned, probabilities = slow_assign(view.boxes, boxes, classes), outputs.scores.softmax(-1)
    objects = [i for i, (label, _, _) in enumerate(assigned) if label]
    others = [i for i, (label, _, _) in enumerate(assigned) if not label]
    total = 0.25 * bool(objects) + 0.75 * bool(others)
    brier = apart = 0.0
    for i, (label, counts, nearest) in enumerate(assigned):
        seen.add("object" if label else "background" if counts else "untouched")
        weight = (0.25 / len(objects) if label else 0.75 / len(others)) / total
        if not counts:  # any label will do that the tags allow
            brier += weight * probabilities[i, 1:][~view.tags].sum().item() ** 2
            continue
        wanted = functional.one_hot(torch.tensor(label), 4)
        brier += weight * (probabilities[i] - wanted).square().sum().item() / 2
        if label:
            target = encode(boxes[nearest], view.boxes[i], FAST_RCNN)
            apart += weight * functional.smooth_l1_loss(outputs.offsets[i, label], target, reduction="sum").item()
    return brier, apart


def test_pseudo_truth_has_every_tagged_class_and_no_other(nets):
    for index in range(len(nets.album)):
        (view,) = views_of(nets, index)
        for threshold in (0.2, 0.99):  # a tagged class keeps its best however unsure
            (truths,) = truths_for(nets, [view], rounds=Rounds(samples=3, threshold=threshold))
            assert len(truths) == 3
            tagged = {c + 1 for c, there in enumerate(view.tags) if there}
            assert all(set(classes.tolist()) == tagged for _, classes in truths)
            assert all(boxes.shape == (len(classes), 4) for boxes, classes in truths)


@pytest.mark.parametrize("regressed", [False, True])
def test_pseudo_truth_boxes_are_the_picked_proposals_or_their_regressed_boxes(nets, regressed):
    (view,) = views_of(nets, 1)
    with torch.no_grad():
        (outputs,) = conditional_outputs(nets.conditional, [view], noise_for([view], 2, generator_for(1)))
    samples, truths = pseudo_truths(view, outputs, replace(ROUNDS, regressed=regressed))
    assert torch.equal(samples, constrained_argmax(outputs.scores, view.tags))
    for k, (boxes, classes) in enumerate(truths):
        moved = decode(of_samples(outputs.offsets, samples)[k], view.boxes, FAST_RCNN) if regressed else view.boxes
        known = {(int(label), *box) for label, box in zip(samples[k], moved.tolist(), strict=True)}
        assert all((int(c), *box) in known for c, box in zip(classes, boxes.tolist(), strict=True))


@pytest.mark.parametrize("rounds", [ROUNDS, replace(ROUNDS, parts=0.5, threshold=0.0, regressed=True)])
def test_views_thinned_together_are_thinned_as_each_by_itself(nets, rounds):
    first, second, third = views_of(nets, 0, 1, 2)
    views = [first, replace(second, boxes=second.boxes[:7]), without_tags(third)]
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, len(view.boxes), len(view.tags) + 1) for view in views]
    outputs = [Outputs(*(torch.randn(*one, generator=generator) for one in (shape, (*shape, 4)))) for shape in shapes]
    together = all_pseudo_truths(views, outputs, rounds)
    for view, own, (samples, truths) in zip(views, outputs, together, strict=True):
        alone, expected = pseudo_truths(view, own, rounds)
        assert torch.equal(samples, alone)
        for found, wanted in zip(truths, expected, strict=True):
            assert torch.equal(found[0], wanted[0])
            assert torch.equal(found[1], wanted[1])


def test_promise_chooses_what_is_taught_and_not_the_samples(nets):
    (view,) = views_of(nets, 1)
    with torch.no_grad():
        (outputs,) = conditional_outputs(nets.conditional, [view], noise_for([view], 2, generator_for(1)))
    plain, promised = (pseudo_truths(view, outputs, replace(ROUNDS, promise=weight)) for weight in (0.0, 1000.0))
    assert torch.equal(plain[0], promised[0])
    early = view.boxes[:10].tolist()  # with such a weight nothing but the order counts
    assert len(view.boxes) > 10
    assert all(box in early for boxes, _ in promised[1] for box in boxes.tolist())


def all_three(nets, views):
    """The losses of the three steps on these views."""
    warm, _ = WarmStep(nets.warm, Warm())(views)
    conditional, _ = ConditionalStep(nets.conditional, ROUNDS)(views, *conditional_inputs(nets, views))
    prediction, _ = PredictionStep(nets.prediction, ROUNDS)(views, truths_for(nets, views))
    return warm, conditional, prediction


def without_tags(view):
    return replace(view, tags=torch.zeros_like(view.tags))


def cut(view, proposals):
    return replace(view, boxes=view.boxes[:proposals], pooled=view.pooled[:proposals])


@pytest.mark.parametrize("change", [without_tags, lambda view: cut(view, 1)], ids=["no tags", "one proposal"])
@pytest.mark.parametrize("beside", [False, True])
def test_odd_pictures_give_finite_losses_and_gradients(nets, change, beside):
    (odd, plain) = views_of(nets, 0, 1)
    views = [change(odd), plain] if beside else [change(odd)]
    for loss in all_three(nets, views):
        assert loss.isfinite()
        loss.backward()
    for net in (nets.warm, nets.conditional, nets.prediction):
        for name, parameter in net.named_parameters():
            assert not parameter.requires_grad or parameter.grad.isfinite().all(), name


def test_a_picture_without_tags_is_background_throughout(nets):
    view = without_tags(*views_of(nets, 0))
    with torch.no_grad():
        (outputs,) = conditional_outputs(nets.conditional, [view], noise_for([view], 3, generator_for(1)))
    samples, truths = pseudo_truths(view, outputs, ROUNDS)
    assert not samples.any()
    assert all(not len(boxes) for boxes, _ in truths)
    labels, counts, _ = assign(view.boxes, truths)
    assert not labels.any()
    assert counts.all()
    _, logs = PredictionStep(nets.prediction, ROUNDS)([view], [truths])
    (outputs,) = prediction_outputs(nets.prediction, [view])
    wanted = functional.one_hot(torch.zeros(len(view.boxes), dtype=torch.long), 4)
    brier = (outputs.scores.softmax(-1) - wanted).square().sum(-1).mean() / 2
    assert logs["loss_labels"].item() == pytest.approx(brier.item(), rel=1e-5)
    assert logs["loss_boxes"].item() == 0
    _, logs = ConditionalStep(nets.conditional, ROUNDS)([view], *conditional_inputs(nets, [view]))
    assert logs["loss_direct"].item() == logs["loss_apart"].item() == 0  # there is only one labelling to choose


def test_more_tags_than_proposals_says_so(nets):
    """The command refuses such pictures before it comes to this."""
    (view,) = views_of(nets, 1)  # green and blue
    with pytest.raises(ValueError, match="found 1 proposals for 2 tags"):
        ConditionalStep(nets.conditional, ROUNDS)([cut(view, 1)], *conditional_inputs(nets, [cut(view, 1)]))
    with pytest.raises(ValueError, match="found 1 proposals for 2 tags"):
        truths_for(nets, [cut(view, 1)])


def test_a_vanished_pseudo_truth_box_harms_nobody(nets):
    """A regressor may shrink a box to nothing; its logarithm is −∞, and 0 · ∞ would not be 0."""
    (view,) = views_of(nets, 0)
    nothing = torch.tensor([[200.0, 200, 200, 200]]), torch.tensor([1])
    loss, _ = PredictionStep(nets.prediction, ROUNDS)([view], [[nothing, nothing]])
    loss.backward()
    assert loss.isfinite()
    assert nets.prediction.predictor.offsets.weight.grad.isfinite().all()


def test_pw_p_leaves_self_diversity_out(nets):
    (view,) = views_of(nets, 1)
    (truths,) = truths_for(nets, [view])
    (outputs,) = prediction_outputs(nets.prediction, [view])
    probabilities = outputs.scores.softmax(-1)
    labels, counts, _ = assign(view.boxes, truths)
    weights, wrong = balanced_weights(labels), probabilities[:, 1:][:, ~view.tags].sum(-1)
    expected = sum(
        (weights[k, i] * ((1 - probabilities[i, labels[k, i]]) if counts[k, i] else wrong[i])).item()
        for k in range(3)
        for i in range(len(view.boxes))
    )
    _, logs = PredictionStep(nets.prediction, Rounds(self_diversity=False))([view], [truths])
    assert logs["loss_labels"].item() == pytest.approx(expected / 3, rel=1e-4)
    _, with_it = PredictionStep(nets.prediction, Rounds())([view], [truths])
    assert with_it["loss_labels"].item() < logs["loss_labels"].item()
    assert with_it["loss_boxes"].item() == logs["loss_boxes"].item()


def test_pw_c_is_one_sample_without_noise(nets):
    views = views_of(nets, 0, 1)
    noise, predictions = conditional_inputs(nets, views, samples=0)
    loss, _ = ConditionalStep(nets.conditional, Rounds(epsilon=100.0))(views, noise, predictions)
    without, _ = ConditionalStep(nets.conditional, Rounds(epsilon=100.0, gamma=0.0))(views, noise, predictions)
    assert loss.item() == without.item()  # of one sample there is no self-diversity
    loss.backward()
    assert not nets.conditional.mix.weight.grad[:, -1].any()
    assert nets.conditional.mix.weight.grad[:, :-1].any()


def gradients(net, losses):
    net.zero_grad()
    for loss in losses:
        loss.backward()
    return {name: parameter.grad.clone() for name, parameter in net.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize("kind", ["warm", "conditional", "prediction"])
def test_two_steps_of_one_picture_add_up_to_one_of_two(nets, kind):
    """The loss is a mean over pictures, so accumulating halves the loss and changes nothing else."""
    views = views_of(nets, 0, 3)  # of one size, so that they share a grid and the noise can be cut
    views[1] = nets.album.view(3, 48)
    net = getattr(nets, kind)
    if kind == "warm":
        step, inputs = WarmStep(net, Warm()), [()] * 2
        together = step(views)[0]
    elif kind == "conditional":
        step, (noise, predictions) = ConditionalStep(net, ROUNDS), conditional_inputs(nets, views)
        inputs = [(noise[:, i : i + 1], predictions[i : i + 1]) for i in range(2)]
        together = step(views, noise, predictions)[0]
    else:
        step, truths = PredictionStep(net, ROUNDS), truths_for(nets, views)
        inputs = [(truths[i : i + 1],) for i in range(2)]
        together = step(views, truths)[0]
    one = gradients(net, [together])
    two = gradients(net, [step([view], *extra)[0] / 2 for view, extra in zip(views, inputs, strict=True)])
    for name, gradient in one.items():
        torch.testing.assert_close(two[name], gradient, rtol=1e-3, atol=1e-5 * float(gradient.abs().max() + 1))


def test_half_precision_outputs_are_taken(nets):
    views = views_of(nets, 0, 1)
    noise, predictions = conditional_inputs(nets, views)
    predictions = [Outputs(one.scores.bfloat16(), one.offsets.bfloat16()) for one in predictions]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = ConditionalStep(nets.conditional, ROUNDS)(views, noise, predictions)
    assert loss.dtype == torch.float32
    assert loss.isfinite()


def test_promise_raises_early_proposals_lowers_late_ones_and_leaves_the_background():
    scores = torch.randn(2, 100, 4, generator=torch.Generator().manual_seed(0))
    bonus = with_promise(scores, 2.0) - scores
    assert torch.equal(bonus[..., 0], torch.zeros(2, 100))
    for label in range(1, 4):
        torch.testing.assert_close(bonus[0, :, label], 2 * (10 / torch.arange(1.0, 101)).log(), rtol=1e-4, atol=1e-4)
