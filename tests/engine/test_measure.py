"""What is said of a stage, in the picture's own pixels."""

import numpy as np
import pytest
import torch

from tag2box.disco.diversity import diversities
from tag2box.disco.offsets import FAST_RCNN, decode
from tag2box.disco.sampling import constrained_argmax
from tag2box.engine.forward import conditional_outputs, noise_for, prediction_outputs, warm_outputs
from tag2box.engine.measure import (
    detect,
    measure_diversities,
    prediction_scorer,
    refined_scorer,
    sample_view,
    wsddn_scorer,
)
from tag2box.engine.plan import generator_for
from tag2box.inference import canvas
from tag2box.mil import refined_scores, wsddn_scores


def sure_of_the_first(views):
    """A scorer that calls the first proposal, an object, its class number 1, and returns the proposals as they are."""
    seen = []
    for view in views:
        probabilities = torch.zeros(len(view.boxes), 4)
        probabilities[:, 0], probabilities[0, 1] = 0.5, 0.9
        seen.append((probabilities, view.boxes[:, None].expand(-1, 4, -1)))
    return seen


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("scales", [(48,), (131,), (31, 96)])
def test_detections_are_in_the_picture_s_own_pixels(world, make_recipe, make_nets, scales, flip):
    recipe = make_recipe(inference={"scales": scales, "flip": flip})
    album = make_nets(world, recipe).album
    found = detect(sure_of_the_first, album, recipe, tagged_only=False, min_score=0.1)
    assert found.ids == world.dataset.ids
    assert found.images.tolist() == list(range(len(album)))
    for index, box in enumerate(found.boxes):
        assert box.tolist() == pytest.approx(list(world.truth[index][0]), abs=1e-3)
    assert found.scores.tolist() == pytest.approx([0.9] * len(album))


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_some_pictures_spread_over_the_data_set(world, make_recipe, make_nets, most):
    recipe = make_recipe()
    album = make_nets(world, recipe).album
    found = detect(sure_of_the_first, album, recipe, tagged_only=False, min_score=0.1, most=most)
    assert 0 < len(found.ids) <= most
    assert set(found.ids) <= set(world.dataset.ids)
    assert found.images.tolist() == list(range(len(found.ids)))
    for index, box in zip(map(world.dataset.ids.index, found.ids), found.boxes, strict=True):
        assert box.tolist() == pytest.approx(list(world.truth[index][0]), abs=1e-3)


def test_a_gpu_looks_at_pictures_of_like_sizes_together(world, make_recipe, make_nets, monkeypatch):
    """Which pictures they are is all that a device decides here, so a CPU can take its place."""
    recipe = make_recipe()
    album, batches = make_nets(world, recipe).album, []
    alone = detect(sure_of_the_first, album, recipe, tagged_only=False, min_score=0.1)
    monkeypatch.setattr(album, "device", torch.device("cuda"))

    def noted(views):
        batches.append([view.size for view in views])
        return sure_of_the_first(views)

    together = detect(noted, album, recipe, tagged_only=False, min_score=0.1)
    assert together.ids == alone.ids
    assert np.array_equal(together.boxes, alone.boxes)
    assert sum(map(len, batches)) == len(album)
    canvases = [{canvas(size, album.device) for size in batch} for batch in batches]
    assert all(len(sizes) == 1 for sizes in canvases)
    assert any(len(set(batch)) > 1 for batch in batches)


def test_pictures_that_do_not_fit_together_are_seen_one_by_one(world, make_recipe, make_nets, monkeypatch):
    recipe = make_recipe()
    album, numbers = make_nets(world, recipe).album, []
    alone = detect(sure_of_the_first, album, recipe, tagged_only=False, min_score=0.1)
    monkeypatch.setattr(album, "device", torch.device("cuda"))

    def small(views):
        numbers.append(len(views))
        if len(views) > 1:
            raise torch.OutOfMemoryError
        return sure_of_the_first(views)

    found = detect(small, album, recipe, tagged_only=False, min_score=0.1)
    assert max(numbers) > 1
    assert np.array_equal(found.boxes, alone.boxes)


def test_views_are_averaged(world, make_recipe, make_nets):
    recipe = make_recipe(inference={"scales": (48,), "flip": True})
    album, seen = make_nets(world, recipe).album, []

    def by_turns(views):
        seen.extend(views)
        ((probabilities, boxes),) = sure_of_the_first(views)
        return [(probabilities * (1.0 if len(seen) % 2 else 0.5), boxes)]

    found = detect(by_turns, album, recipe, tagged_only=False, min_score=0.1)
    assert len(seen) == 2 * len(album)
    assert found.scores.tolist() == pytest.approx([0.675] * len(album))


def test_every_tagged_class_has_its_best_box(world, make_recipe, make_nets):
    recipe = make_recipe(inference={"max_detections": 1})
    nets = make_nets(world, recipe)
    for scorer in (prediction_scorer(nets.prediction), refined_scorer(nets.warm), wsddn_scorer(nets.warm)):
        found = detect(scorer, nets.album, recipe, tagged_only=True, min_score=0.999)
        for index, image in enumerate(world.dataset):
            own = found.images == index
            assert {world.dataset.classes[label] for label in found.labels[own]} == set(image.tags)
            with torch.no_grad():
                ((probabilities, _),) = scorer([nets.album.view(index, 48)])
            for label in set(found.labels[own].tolist()):
                best = found.scores[own & (found.labels == label)].max()
                # of boxes with area inside the picture, which regression may take from the very best
                assert best <= probabilities[:, label + 1].max().item() + 1e-6


@torch.no_grad()
def test_the_best_box_is_the_best(world, make_recipe, make_nets):
    """WSDDN returns proposals, which all have area: the best box of a tagged class is the top-scoring proposal."""
    recipe = make_recipe()
    nets = make_nets(world, recipe)
    found = detect(wsddn_scorer(nets.warm), nets.album, recipe, tagged_only=True, min_score=0.0)
    for index, image in enumerate(world.dataset):
        outputs = warm_outputs(nets.warm, [nets.album.view(index, 48)])
        scores = wsddn_scores(outputs.class_logits, outputs.proposal_logits)
        for tag in image.tags:
            label = world.dataset.classes.index(tag)
            own = (found.images == index) & (found.labels == label)
            top = found.boxes[own][found.scores[own].argmax()]
            assert top.tolist() == pytest.approx(
                nets.album.proposals(index)[scores[:, label].argmax()].tolist(), abs=1e-3
            )


@torch.no_grad()
def test_the_scorers(world, make_recipe, make_nets):
    nets = make_nets(world, make_recipe())
    view = nets.album.view(0, 48)
    warm, (prediction,) = warm_outputs(nets.warm, [view]), prediction_outputs(nets.prediction, [view])
    ((probabilities, boxes),) = wsddn_scorer(nets.warm)([view])
    assert not probabilities[:, 0].any()
    assert torch.equal(probabilities[:, 1:], wsddn_scores(warm.class_logits, warm.proposal_logits))
    assert torch.equal(boxes, view.boxes[:, None].expand(-1, 4, -1))
    ((probabilities, boxes),) = refined_scorer(nets.warm)([view])
    assert torch.equal(probabilities, refined_scores(warm))
    assert torch.equal(boxes, decode(warm.offsets, view.boxes[:, None], FAST_RCNN))
    ((probabilities, boxes),) = prediction_scorer(nets.prediction)([view])
    assert torch.equal(probabilities, prediction.scores.softmax(-1))
    assert torch.equal(boxes, decode(prediction.offsets, view.boxes[:, None], FAST_RCNN))


def test_a_warm_start_without_regression_keeps_the_proposals(world, make_recipe, make_nets):
    nets = make_nets(world, make_recipe(warm={"branches": 1, "regression": False}))
    view = nets.album.view(0, 48)
    ((_, boxes),) = refined_scorer(nets.warm)([view])
    assert torch.equal(boxes, view.boxes[:, None].expand(-1, 4, -1))


@pytest.mark.parametrize("gamma", [0.5, 0.2])
@pytest.mark.parametrize("noise", [True, False])
@torch.no_grad()
def test_diversities_against_a_loop(world, make_recipe, make_nets, gamma, noise):
    recipe = make_recipe(rounds={"gamma": gamma, "noise": noise, "samples": 2}, seed=3)
    nets = make_nets(world, recipe)
    row = measure_diversities(nets.conditional, nets.prediction, nets.album, recipe)
    sums = [0.0, 0.0, 0.0]
    for index in range(len(world.dataset)):
        view = nets.album.view(index, 48)
        fields = noise_for([view], 8 if noise else 0, generator_for(3, -1, index))
        (outputs,) = conditional_outputs(nets.conditional, [view], fields)
        (prediction,) = prediction_outputs(nets.prediction, [view])
        samples = constrained_argmax(outputs.scores, view.tags)
        assert len(samples) == (8 if noise else 1)
        for place, value in enumerate(diversities(prediction.scores.softmax(-1), samples)):
            sums[place] += value.item() / len(world.dataset)
    assert [row["div_pc"], row["div_cc"], row["div_pp"]] == pytest.approx(sums, rel=1e-5)
    assert row["disc"] == pytest.approx(row["div_pc"] - gamma * row["div_cc"] - (1 - gamma) * row["div_pp"], rel=1e-5)
    assert (row["div_cc"] > 0) == noise
    assert row == measure_diversities(nets.conditional, nets.prediction, nets.album, recipe)  # the same noise each time


def test_diversities_of_a_large_set_are_measured_on_a_part(make_world, make_recipe, make_nets, tmp_path, monkeypatch):
    recipe = make_recipe()
    nets = make_nets(make_world(tmp_path, images=10), recipe)
    seen = []
    view = nets.album.view
    monkeypatch.setattr(
        nets.album, "view", lambda index, *rest, **draw: seen.append(index) or view(index, *rest, **draw)
    )
    measure_diversities(nets.conditional, nets.prediction, nets.album, recipe, most=5)
    assert seen == [0, 2, 4, 6, 8]


def test_a_sample_depends_on_its_seed_alone(world, make_recipe, make_nets):
    recipe = make_recipe()
    nets = make_nets(world, recipe)
    view = nets.album.view(1, 48)
    one, again, other = (
        sample_view(nets.conditional, nets.prediction, view, recipe, *seed) for seed in ((0, 1), (0, 1), (0, 2))
    )
    assert torch.equal(one.samples, again.samples)
    assert not torch.equal(one.samples, other.samples)
    assert not one.probabilities.requires_grad
