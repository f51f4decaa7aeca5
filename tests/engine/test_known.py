"""A person's boxes in training: what sampling, pseudo ground truth and seeds make of them; without, all is as ever."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tag2box.config import Rounds, Warm
from tag2box.data.records import Dataset, TaggedImage
from tag2box.disco.sampling import constrained_argmax
from tag2box.engine.checkpoint import read_state
from tag2box.engine.forward import conditional_outputs, noise_for, prediction_outputs
from tag2box.engine.known import allowed_labels, clamped, decide, fingerprint_of_known, owned, retagged, with_known
from tag2box.engine.loop import train_run
from tag2box.engine.plan import generator_for
from tag2box.engine.steps import ConditionalStep, PredictionStep, WarmStep, pseudo_truths
from tag2box.engine.views import Album
from tag2box.errors import InputError
from tag2box.mil import Bags, KnownSeeds, Targets, mil_losses, refinement_targets
from tag2box.voting import coverage, voted_overlaps

CLASSES = ("a", "b", "c")


def random_case(seed, proposals, tagged, decided, most=3):
    """Proposals, tags, and one to `most` boxes of each decided class: some near a proposal, some anywhere."""
    rng = np.random.default_rng(seed)

    def boxes(count):
        corner = rng.uniform(0, 60, (count, 2))
        return np.concatenate([corner, corner + rng.uniform(5, 60, (count, 2))], axis=1)

    own, known = boxes(proposals), {}
    for name in CLASSES[:decided]:
        given = boxes(rng.integers(1, most + 1))
        near = rng.random(len(given)) < 0.6
        given[near] = own[rng.integers(0, proposals, near.sum())] + rng.uniform(-3, 3, (near.sum(), 4))
        known[name] = [tuple(box) for box in given]
    return own, np.arange(3) < tagged, known


def overlap_of(one, other):
    width, height = (max(min(one[2 + i], other[2 + i]) - max(one[i], other[i]), 0) for i in (0, 1))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return width * height / (sum(areas) - width * height)


cases = st.tuples(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 3), st.integers(1, 3))


def drawn(case):
    seed, proposals, tagged, decided = case
    assume(decided <= tagged <= proposals)
    return random_case(seed, proposals, tagged, decided)


@settings(deadline=None, max_examples=150)
@given(cases)
def test_the_clamped_sample_against_all_labellings(case):
    """The best of all labellings that the tags and the known boxes allow; there always is one."""
    own, tags, known = drawn(case)
    decided = decide(known, own, tags, CLASSES)
    scores = torch.randn(2, len(own), 4, generator=torch.Generator().manual_seed(case[0]), dtype=torch.double)
    found = constrained_argmax(clamped(scores, decided), torch.from_numpy(tags))
    wanted, allowed = {c + 1 for c in range(3) if tags[c]}, decided.seeds.allowed.tolist()
    for matrix, labels in zip(scores.tolist(), found.tolist(), strict=True):
        sums = {
            y: sum(matrix[i][label] for i, label in enumerate(y))
            for y in product([0, *sorted(wanted)], repeat=len(own))
            if wanted <= set(y) and all(allowed[i][label] for i, label in enumerate(y))
        }
        assert sums
        assert sums[tuple(labels)] == pytest.approx(max(sums.values()))


@settings(deadline=None, max_examples=300)
@given(cases)
def test_which_proposals_are_of_a_known_class(case):
    own, tags, known = drawn(case)
    decided = decide(known, own, tags, CLASSES)
    allowed, others = decided.seeds.allowed.numpy(), int(decided.seeds.undecided.sum())
    assert others == tags.sum() - len(known)
    names = {CLASSES.index(name) + 1 for name in known}
    owners = [int(row.argmax()) if row.sum() == 1 and row[list(names)].any() else 0 for row in allowed]
    for i, owner in enumerate(owners):
        if not owner:  # everything but the known classes, which have their places
            assert set(np.flatnonzero(allowed[i])) == set(range(4)) - names
        best = {name: max(overlap_of(own[i], box) for box in boxes) for name, boxes in known.items()}
        top = max(best, key=best.get)
        roomy = len(own) >= others + sum(len(boxes) for boxes in known.values()) + sum(map(bool, owners))
        if best[top] >= 0.5 and roomy:
            assert owner
            assert owner == CLASSES.index(top) + 1 or best[CLASSES[owner - 1]] >= 0.5  # it is that box's own
    assert names <= set(owners)
    assert owners.count(0) >= others
    for label, proposal in zip(decided.seeds.labels.tolist(), decided.seeds.proposals.tolist(), strict=True):
        assert owners[proposal] == label
        assert max(overlap_of(own[proposal], box) for box in known[CLASSES[label - 1]]) > 0
    assert len(set(decided.seeds.proposals.tolist())) == len(decided.seeds.proposals)


def test_a_box_has_the_proposal_that_overlaps_it_most():
    overlap = np.array([[0.3, 0.45, 0.1, 0.0], [0.6, 0.2, 0.55, 0.0]])
    owners, rows, nearest = owned(overlap, np.array([1, 2]), others=1)
    assert owners.tolist() == [2, 1, 2, 0]
    assert dict(zip(rows.tolist(), nearest.tolist(), strict=True)) == {0: 1, 1: 0}


def test_what_is_near_another_box_is_not_taken_for_one_that_it_is_far_from():
    overlap = np.array([[0.9, 0.95, 0.0], [0.2, 0.0, 0.19]])  # 0.2 is more than 0.19, and yet
    owners, _, _ = owned(overlap, np.array([1, 2]), others=0)
    assert owners.tolist() == [1, 1, 2]


def test_of_two_classes_on_one_proposal_each_has_one_of_its_own():
    overlap = np.array([[0.8, 0.6, 0.0], [0.7, 0.0, 0.0]])
    owners, _, nearest = owned(overlap, np.array([1, 2]), others=1)
    assert owners.tolist() == [2, 1, 0]
    assert sorted(nearest.tolist()) == [0, 1]


@pytest.mark.parametrize(("others", "expected"), [(0, [1, 1, 1, 1]), (1, [1, 1, 0, 1]), (3, [0, 1, 0, 0])])
def test_other_classes_keep_room(others, expected):
    """Of proposals near a known box those go first that overlap it least; the best one stays."""
    overlap = np.array([[0.7, 0.9, 0.5, 0.8]])
    owners, _, nearest = owned(overlap, np.array([1]), others)
    assert owners.tolist() == expected
    assert nearest.tolist() == [1]


def test_more_boxes_than_proposals():
    overlap = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.1, 0.6]])
    owners, rows, _ = owned(overlap, np.array([1, 1, 1, 2]), others=0)
    assert owners.tolist() == [1, 2]
    assert rows.tolist() == [0, 3]


def test_labels_that_are_left():
    allowed = allowed_labels(np.array([0, 2, 1]), np.array([1, 2, 2]), classes=3)
    assert [np.flatnonzero(row).tolist() for row in allowed] == [[0, 3], [2], [1]]


def test_nothing_is_known_of_a_class_that_is_not_there():
    assert decide({"a": []}, np.zeros((2, 4)), np.zeros(3, dtype=bool), CLASSES) is None
    scores, truth = torch.zeros(1, 2, 4), (torch.zeros(1, 4), torch.ones(1, dtype=torch.long))
    assert clamped(scores, None) is scores
    assert with_known(truth, None) is truth


def image(id, *tags):
    return TaggedImage(id, id, (10, 10), tags)


def test_tags_follow_the_decisions():
    dataset = Dataset(CLASSES, (image("x", "a", "c"), image("y", "b"), image("z")), "part")
    known = {"x": {"c": [], "b": [(0, 0, 5, 5)]}, "y": {"b": [(0, 0, 5, 5)]}, "elsewhere": {"a": []}}
    found = retagged(dataset, known)
    assert [one.tags for one in found] == [("a", "b"), ("b",), ()]
    assert found.split == "part"
    assert retagged(found, known) == found
    assert retagged(dataset, {}) == dataset


def test_the_fingerprint_is_of_what_is_said_and_not_of_its_order():
    one = {"x": {"a": [(0, 0, 5, 5)], "b": []}, "y": {"a": []}}
    other = {"y": {"a": []}, "x": {"b": [], "a": [(0.0, 0.0, 5.0, 5.0)]}}
    assert fingerprint_of_known(one) == fingerprint_of_known(other) != ""
    for changed in ({"x": one["x"]}, {**one, "y": {"b": []}}, {**one, "x": {"a": [(0, 0, 5, 6)], "b": []}}):
        assert fingerprint_of_known(changed) != fingerprint_of_known(one)
    assert fingerprint_of_known({}) == ""


# ---- in views


def album_of(world, nets, recipe, known):
    dataset = retagged(world.dataset, known)
    own = nets.album
    return Album(dataset, world.store, recipe.data, torch.device("cpu"), own._trunk, own._head, known)


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("scale", [48, 131])
def test_known_boxes_go_with_the_picture(make_world, make_recipe, make_nets, tmp_path, scale, mirrored, cache):
    """The first proposal is the rectangle itself, and so is the known box, at every scale and side."""
    world = make_world(tmp_path, tags=(("red",), ("blue",)))
    known = {
        one.id: {one.tags[0]: [tuple(map(float, box)) for box in places]}
        for one, places in zip(world.dataset, world.truth, strict=True)
    }
    recipe = make_recipe(data={"cache": cache})
    album = album_of(world, make_nets(world, recipe), recipe, known)
    for index, one in enumerate(world.dataset):
        view = album.view(index, scale, mirrored)
        torch.testing.assert_close(view.known.boxes, view.boxes[:1])
        assert view.known.labels.tolist() == [world.dataset.classes.index(one.tags[0]) + 1]
        assert view.known.seeds.proposals.tolist() == [0]
        assert not view.known.seeds.undecided.any()


def test_what_is_not_known_has_nothing(world, make_recipe, make_nets):
    recipe = make_recipe()
    nets = make_nets(world, recipe)
    first, second = world.dataset[0], world.dataset[1]
    album = album_of(world, nets, recipe, {first.id: {first.tags[0]: []}, second.id: {}})
    assert all(album.view(index, 48).known is None for index in range(len(album)))
    assert not album.view(0, 48).tags.any()
    assert all(nets.album.view(index, 48).known is None for index in range(len(album)))


# ---- in the three steps


@pytest.fixture
def shown(world, make_recipe, make_nets):
    """Both nets, and a view of green and blue of which green is known: not where the proposals have it."""
    recipe = make_recipe()
    nets = make_nets(world, recipe)
    box = tuple(float(side) for side in world.store[world.dataset[1].id][6])
    known = {world.dataset[1].id: {"green": [box]}}
    return nets, album_of(world, nets, recipe, known).view(1, 48), nets.album.view(1, 48)


GREEN, BLUE = 2, 3


@pytest.mark.parametrize("promise", [0.0, 7.0])
@torch.no_grad()
def test_samples_and_pseudo_truth_have_what_is_known(shown, promise):
    nets, view, plain = shown
    (outputs,) = conditional_outputs(nets.conditional, [view], noise_for([view], 5, generator_for(1)))
    rounds = Rounds(samples=5, promise=promise)
    samples, truths = pseudo_truths(view, outputs, rounds)
    near = view.known.seeds.allowed[:, GREEN]
    assert near[6]
    assert not near.all()
    assert ((samples == GREEN) == near).all()
    assert (samples == BLUE).any(1).all()
    for boxes, classes in truths:
        assert torch.equal(boxes[classes == GREEN], view.known.boxes)
        assert set(classes.tolist()) == {GREEN, BLUE}
    free, _ = pseudo_truths(plain, outputs, rounds)
    assert not torch.equal(samples, free)


def test_proposals_of_known_classes_do_not_pull_the_conditional_net(shown):
    """There is nothing to choose; elsewhere the step is the one of scores that rule out what cannot be."""
    nets, view, plain = shown
    noise = noise_for([view], 3, generator_for(1))
    with torch.no_grad():
        predictions = prediction_outputs(nets.prediction, [view])
    loss, logs = ConditionalStep(nets.conditional, Rounds(samples=3))([view], noise, predictions)
    assert loss.isfinite()
    assert logs["score_spread"].isfinite()
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in nets.conditional.parameters())
    other, _ = ConditionalStep(nets.conditional, Rounds(samples=3))([plain], noise, predictions)
    assert loss.item() != other.item()


def test_the_prediction_net_is_taught_the_known_boxes(shown):
    nets, view, _ = shown
    (outputs,) = conditional_outputs(nets.conditional, [view], noise_for([view], 3, generator_for(1)))
    truths = pseudo_truths(view, outputs, Rounds(samples=3))[1]
    loss, _ = PredictionStep(nets.prediction, Rounds(samples=3))([view], [truths])
    assert loss.isfinite()
    loss.backward()


def test_the_warm_start_takes_known_seeds(shown):
    nets, view, plain = shown
    loss, _ = WarmStep(nets.warm, Warm())([view])
    outputs = nets.warm.from_pooled(view.pooled.float())
    losses = mil_losses(outputs, [view.boxes], [view.tags], (10.0, 10.0, 5.0, 5.0), known=[view.known.seeds])
    assert loss.item() == pytest.approx(
        losses.wsddn.item() + sum(one.item() for one in losses.refined) + losses.regression.item(), rel=1e-5
    )
    assert loss.item() != pytest.approx(WarmStep(nets.warm, Warm())([plain])[0].item(), rel=1e-3)


# ---- seeds of the refinement branches

APART = torch.tensor([[100.0 * i, 0, 100 * i + 50, 50] for i in range(5)])


def targets_of(scores, tags, known=None, votes=False):
    """Of one picture with the proposals `APART`, beside one that nobody has decided on and that has fewer."""
    bags = Bags.of([APART, APART[:2]], [tags, tags])
    both = torch.stack([scores, scores])
    choice = voted_overlaps(both, coverage(bags.boxes) * bags.counts[..., None]) if votes else None
    return Targets(*(field[0] for field in refinement_targets(both, bags, choice=choice, known=[known, None])))


def seeds(labels, proposals, undecided, owners, classes=2):
    allowed = allowed_labels(np.array(owners), np.array(labels), classes)
    return KnownSeeds(torch.tensor(labels), torch.tensor(proposals), torch.from_numpy(allowed), torch.tensor(undecided))


def test_a_known_class_has_its_seeds_and_the_weight_of_its_top_score():
    scores = torch.tensor([[0.9, 0.8], [0.2, 0.5], [0.1, 0.7], [0.3, 0.1], [0.0, 0.2]])
    tags = torch.tensor([True, True])
    free = targets_of(scores, tags)
    assert free.labels.tolist() == [1, 0, 2, 0, 0]
    known = seeds([1, 1], [1, 2], [False, True], [0, 1, 1, 0, 0])
    found = targets_of(scores, tags, known)
    assert found.labels.tolist() == [2, 1, 1, 0, 0]  # the other class's best is now its own
    assert found.seeds.tolist()[:3] == [0, 1, 2]
    assert found.weights.tolist() == pytest.approx([0.8, 0.9, 0.9, 0, 0])


@pytest.mark.parametrize("votes", [False, True])
def test_no_other_class_has_a_seed_on_a_known_object(votes):
    scores = torch.tensor([[0.1, 0.9], [0.1, 0.8], [0.1, 0.3], [0.1, 0.2], [0.1, 0.1]])
    known = seeds([1], [0], [False, True], [1, 1, 0, 0, 0])
    found = targets_of(scores, torch.tensor([True, True]), known, votes=votes)
    assert found.labels.tolist() == [1, 0, 2, 0, 0]


def test_all_is_known():
    known = seeds([2], [3], [False, False], [0, 0, 0, 2, 0])
    for votes in (False, True):
        found = targets_of(torch.rand(5, 2), torch.tensor([False, True]), known, votes=votes)
        assert found.labels.tolist() == [0, 0, 0, 2, 0]


def test_a_known_box_that_no_proposal_touches_teaches_no_branch():
    decided = decide({"a": [(500, 500, 510, 510)]}, APART.numpy(), np.array([True, False, False]), CLASSES)
    assert len(decided.seeds.labels) == 0
    assert decided.seeds.allowed[:, 1].sum() == 1  # the tag still has to be somewhere
    found = targets_of(torch.rand(5, 3), torch.tensor([True, False, False]), decided.seeds)
    assert not found.weights.any()


# ---- in a run


def known_of(world, *numbers):
    return {
        world.dataset[n].id: {
            tag: [tuple(map(float, box))] for tag, box in zip(world.dataset[n].tags, world.truth[n], strict=True)
        }
        for n in numbers
    }


def weights(folder):
    return (folder / "weights" / "last.safetensors").read_bytes()


def test_a_run_without_decisions_is_as_ever(world, make_recipe, tmp_path):
    for name, known in (("none", None), ("empty", {}), ("elsewhere", {"nowhere": {"red": []}})):
        train_run(world.dataset, world.store, make_recipe(), tmp_path / name, device="cpu", known=known)
        assert weights(tmp_path / name) == weights(tmp_path / "none")
        assert "known" not in read_state(tmp_path / name / "weights" / "state.safetensors")[1]


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_a_run_with_decisions(world, make_recipe, tmp_path, precision):
    known, heard = known_of(world, 0, 1), []
    known[world.dataset[2].id] = {"blue": []}

    class Notes:
        def results(self, rows):
            heard.append(rows[-1])

        def samples(self, followed):
            pass

    def evaluate(stage, own, other):
        assert not (own.images == 2).any()  # its only tag is taken away
        return {"corloc": 1.0}

    recipe = make_recipe(
        precision=precision, warm={"tag_epochs": 1, "branches": 2, "votes": True}, rounds={"promise": 2.0}
    )
    options = {"evaluate": evaluate, "report": Notes(), "device": "cpu", "known": known}
    train_run(world.dataset, world.store, recipe, tmp_path / "run", **options)
    assert all(row["known_images"] == 3 for row in heard)
    assert all(value == value for value in heard[-1].values())
    train_run(world.dataset, world.store, recipe, tmp_path / "plain", device="cpu")
    assert weights(tmp_path / "run") != weights(tmp_path / "plain")


def test_other_decisions_are_refused(world, make_recipe, tmp_path):
    recipe = make_recipe(rounds={"number": 0})
    options = {"device": "cpu", "known": known_of(world, 0)}
    train_run(world.dataset, world.store, recipe, tmp_path, **options)
    before = weights(tmp_path)
    for other in (None, known_of(world, 0, 1), known_of(world, 1)):
        with pytest.raises(InputError, match="was made with other known boxes"):
            train_run(world.dataset, world.store, recipe, tmp_path, resume=True, **{**options, "known": other})
    train_run(world.dataset, world.store, recipe, tmp_path, resume=True, **options)
    assert weights(tmp_path) == before


def test_a_changed_tag_is_other_data(world, make_recipe, tmp_path):
    recipe = make_recipe(rounds={"number": 0})
    train_run(world.dataset, world.store, recipe, tmp_path, device="cpu")
    known = {world.dataset[0].id: {"red": []}}
    with pytest.raises(InputError, match="another recipe or data set"):
        train_run(world.dataset, world.store, recipe, tmp_path, resume=True, device="cpu", known=known)
