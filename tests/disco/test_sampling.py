from itertools import combinations, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from tag2box.disco import sampling
from tag2box.disco.sampling import constrained_argmax, keep_confident, pseudo_ground_truth, pseudo_ground_truths

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


def tag_sets(classes: int, most: int | None = None) -> list[Tensor]:
    """Every tag set of at most so many tags."""
    sets = [torch.tensor(flags) for flags in product([False, True], repeat=classes)]
    return [tags for tags in sets if most is None or tags.sum() <= most]


def feasible(labels: tuple[int, ...], tags: Tensor) -> bool:
    """Eq. 3: every tagged class is there, and no other."""
    return set(labels) - {0} == {c + 1 for c, tagged in enumerate(tags) if tagged}


def best_of_all_labellings(scores: Tensor, tags: Tensor) -> Tensor:
    """Eq. 4 as it is written, for matrices [N, B, C + 1]: the greatest sum over all feasible labellings [N]."""
    _, proposals, classes = scores.shape
    best = scores.new_full((len(scores),), -torch.inf)
    for labels in product(range(classes), repeat=proposals):
        if feasible(labels, tags):
            best = torch.maximum(best, sum(scores[:, i, label] for i, label in enumerate(labels)))
    return best


def value(scores: Tensor, labels: Tensor) -> Tensor:
    """Eq. 2 of given labels [N]."""
    return scores.gather(-1, labels[..., None]).sum((-2, -1))


def check(scores: Tensor, tags: Tensor) -> None:
    """Feasible, and as good as the best: equal for whole numbers, to rounding for others."""
    labels = constrained_argmax(scores, tags)
    assert labels.shape == scores.shape[:-1]
    assert labels.dtype == torch.int64
    assert all(feasible(tuple(row), tags) for row in set(map(tuple, labels.tolist())))
    torch.testing.assert_close(value(scores, labels), best_of_all_labellings(scores, tags), rtol=0, atol=1e-5)


@pytest.fixture(params=[sampling.MOST_ENUMERATED, 0], ids=["enumerated", "assigned"])
def both_ways(request, monkeypatch):
    """Run the test with each way to assign witnesses."""
    monkeypatch.setattr(sampling, "MOST_ENUMERATED", request.param)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(
    ("proposals", "classes", "levels"), [(1, 1, 3), (1, 2, 3), (2, 1, 3), (2, 2, 3), (3, 1, 3), (3, 2, 2), (4, 1, 3)]
)
def test_every_grid_of_whole_scores(proposals, classes, levels):
    """All matrices with scores of a few levels: every pattern of ties, winners and contests there is."""
    grid = torch.tensor(list(product(range(levels), repeat=proposals * (classes + 1))), dtype=torch.float32)
    scores = grid.reshape(-1, proposals, classes + 1)
    for tags in tag_sets(classes, most=proposals):
        check(scores, tags)


@pytest.mark.slow
def test_every_grid_of_three_proposals_and_classes():
    scores = torch.tensor(list(product(range(3), repeat=9)), dtype=torch.float32).reshape(-1, 3, 3)
    background = torch.ones(len(scores), 3, 1)  # its level is fixed: only differences matter
    check(torch.cat([background, scores], dim=-1), torch.tensor([True, True, True]))


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("proposals", range(1, 6))
@pytest.mark.parametrize("classes", range(1, 4))
def test_random_scores_with_every_tag_set(proposals, classes):
    generator = torch.Generator().manual_seed(proposals * 10 + classes)
    scores = torch.randn(120, proposals, classes + 1, generator=generator)
    scores[::3, :, 0] += 5  # background wins everywhere
    scores[1::3] = scores[1::3].round()  # many ties
    for tags in tag_sets(classes, most=proposals):
        check(scores, tags)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_any_tiny_case(data):
    proposals, classes = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    tags = data.draw(st.sampled_from(tag_sets(classes, most=proposals)))
    numbers = data.draw(st.sampled_from([st.integers(-2, 2), st.floats(-10, 10, width=32)]))
    row = st.lists(numbers, min_size=classes + 1, max_size=classes + 1)
    rows = data.draw(st.lists(row, min_size=proposals, max_size=proposals))
    check(torch.tensor([rows], dtype=torch.float32), tags)


@pytest.mark.parametrize(("proposals", "classes"), [(4, 4), (5, 4), (5, 5)])
def test_as_many_tags_as_are_enumerated(proposals, classes):
    scores = torch.randn(60, proposals, classes + 1, generator=torch.Generator().manual_seed(0)).mul(2).round()
    scores[:, :, 0] += 4
    check(scores, torch.ones(classes, dtype=torch.bool))


@pytest.mark.parametrize("tagged", range(1, 9))
def test_many_proposals_against_one_dense_assignment(tagged):
    """Too large to enumerate: scipy on the whole matrix of regrets, without the choice of candidates."""
    generator = torch.Generator().manual_seed(tagged)
    scores = torch.randn(20, 50, 11, generator=generator, dtype=torch.float64)
    scores[:, 2:, 1:] -= 4  # two proposals attract every class
    tags = torch.arange(10) >= 10 - tagged
    labels = constrained_argmax(scores, tags)
    for matrix, row in zip(scores, labels, strict=True):
        available = matrix[:, [0, *range(11 - tagged, 11)]]
        best = available.max(-1).values
        regret = (best[:, None] - available[:, 1:]).T.numpy()
        least = regret[linear_sum_assignment(regret)].sum()
        assert feasible(tuple(row.tolist()), tags)
        assert (best.sum() - value(matrix, row)).item() == pytest.approx(least, abs=1e-9)


def test_the_rank_vectors_are_the_parking_functions():
    counts = [sampling._ranks(classes, torch.device("cpu")).shape[1] for classes in range(1, 6)]
    assert counts == [(classes + 1) ** (classes - 1) for classes in range(1, 6)] == [1, 3, 16, 125, 1296]


def test_two_tags_want_the_same_proposal():
    scores = torch.tensor([[9.0, 8.0, 7.0], [9.0, 5.0, 1.0], [9.0, 0.0, 0.0]])
    assert constrained_argmax(scores, torch.tensor([True, True])).tolist() == [2, 1, 0]


def test_the_only_winner_of_a_class_is_the_cheapest_witness_of_another():
    """Class 1 wins proposal 0 alone, which is also the best for class 2, and gives it up: −1 − 1 against −5."""
    scores = torch.tensor([[0.0, 9.0, 8.0], [9.0, 8.0, 0.0], [9.0, 0.0, 4.0]])
    assert constrained_argmax(scores, torch.tensor([True, True])).tolist() == [2, 1, 0]


def test_the_prose_of_the_paper_is_not_the_argmax():
    """ "Sample the box with the highest score for the missing class": one class after the other, it loses 3 here."""
    scores = torch.tensor([[9.0, 8.0, 7.0], [9.0, 7.0, 3.0], [9.0, 0.0, 0.0]])
    tags = torch.tensor([True, True])
    greedy = scores.argmax(-1)
    for label in (1, 2):
        free = torch.where(greedy == 0, scores[:, label], -torch.inf)
        greedy[free.argmax()] = label
    assert value(scores, greedy) == 20
    assert value(scores, constrained_argmax(scores, tags)) == best_of_all_labellings(scores[None], tags) == 23


def test_nothing_changes_where_every_tagged_class_wins():
    scores = torch.randn(40, 30, 4, generator=torch.Generator().manual_seed(0)).round()  # with ties
    labels = scores.argmax(-1)
    wins = torch.stack([(labels == label).any(-1) for label in (1, 2, 3)]).all(0)
    assert wins.any()
    assert torch.equal(constrained_argmax(scores, torch.ones(3, dtype=torch.bool))[wins], labels[wins])


def test_untagged_classes_are_not_available_however_well_they_score():
    scores = torch.tensor([[1.0, 0.0, 50.0], [0.0, 1.0, 50.0]])
    assert constrained_argmax(scores, torch.tensor([True, False])).tolist() == [0, 1]
    assert constrained_argmax(scores, torch.tensor([False, False])).tolist() == [0, 0]


@pytest.mark.parametrize("classes", [3, 7])
def test_leading_dimensions_are_so_many_matrices(classes):
    scores = torch.randn(2, 3, 9, classes + 1, generator=torch.Generator().manual_seed(0))
    scores[..., 0] += 2
    tags = torch.ones(classes, dtype=torch.bool)
    labels = constrained_argmax(scores, tags)
    for k, n in product(range(2), range(3)):
        assert torch.equal(labels[k, n], constrained_argmax(scores[k, n], tags))
    sliced = scores.movedim(-1, 0).contiguous().movedim(0, -1)
    assert torch.equal(constrained_argmax(sliced, tags), labels)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_types_and_devices(dtype, device):
    scores = torch.randn(50, 5, 4, generator=torch.Generator().manual_seed(0)).to(dtype)  # the rounded scores count
    for tags in tag_sets(3):
        labels = constrained_argmax(scores.to(device).requires_grad_(), tags)
        assert labels.device.type == device
        best = best_of_all_labellings(scores.double(), tags)
        torch.testing.assert_close(value(scores.double(), labels.cpu()), best, rtol=0, atol=1e-5)


@pytest.mark.parametrize("classes", [3, 7])
def test_nothing_in_nothing_out(classes):
    no_tags, all_tags = torch.zeros(classes, dtype=torch.bool), torch.ones(classes, dtype=torch.bool)
    assert constrained_argmax(torch.zeros(5, 0, classes + 1), no_tags).shape == (5, 0)
    assert constrained_argmax(torch.zeros(0, 9, classes + 1), all_tags).shape == (0, 9)


def test_more_tags_than_proposals():
    with pytest.raises(ValueError, match="found 2 proposals for 3 tags"):
        constrained_argmax(torch.zeros(4, 2, 5), torch.tensor([True, True, False, True]))


def test_tags_of_another_length():
    with pytest.raises(ValueError, match=r"tags: expected shape \(4,\), found \(5,\)"):
        constrained_argmax(torch.zeros(2, 5), torch.ones(5, dtype=torch.bool))


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_minus_infinity_forbids_as_far_as_the_tags_allow(dtype):
    never = -torch.inf
    scores = torch.tensor([[3.0, 2.0, never], [0.0, never, -4.0], [never, never, never]], dtype=dtype)
    assert constrained_argmax(scores, torch.tensor([True, True])).tolist() == [1, 2, 0]
    hopeless = torch.full((3, 3), never, dtype=dtype)
    assert feasible(tuple(constrained_argmax(hopeless, torch.tensor([True, True])).tolist()), torch.tensor([True] * 2))


# What follows the argmax.


def keep_confident_slowly(labels: list[int], probabilities: Tensor, threshold: float) -> list[int]:
    """One sample, proposal by proposal."""
    kept = list(labels)
    for i, label in enumerate(labels):
        rivals = [probabilities[j, label].item() for j, other in enumerate(labels) if other == label]
        if label and probabilities[i, label] < threshold and probabilities[i, label] < max(rivals):
            kept[i] = 0
    return kept


def thin_slowly(labels: list[int], probabilities: Tensor, boxes: Tensor, most: float) -> list[tuple[int, int]]:
    """Greedy non-maximum suppression: a pick stays if no better one of its class that stays overlaps it by more."""
    stays: list[tuple[int, int]] = []
    picks = [(i, label) for i, label in enumerate(labels) if label]
    for i, label in sorted(picks, key=lambda pick: -probabilities[pick].item()):
        if all(iou(boxes[i], boxes[j]) <= most for j, other in stays if other == label):
            stays.append((i, label))
    return stays


def iou(a: Tensor, b: Tensor) -> float:
    shared = (torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2])).clamp(min=0).prod()
    return (shared / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - shared)).item()


def draw_sample(seed: int, count: int = 3, proposals: int = 12, classes: int = 4) -> tuple[Tensor, ...]:
    """K samples with their probabilities, boxes and tags."""
    generator = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(count, proposals, classes + 1, generator=generator)
    tags = torch.rand(classes, generator=generator) < 0.6
    corner = 10 * torch.rand(count, proposals, 2, generator=generator).round(decimals=1)
    size = 10 * torch.rand(count, proposals, 2, generator=generator).round(decimals=1) + 1
    boxes = torch.cat([corner, corner + size], dim=-1)
    return constrained_argmax(scores, tags), scores.softmax(-1), boxes, tags


@pytest.mark.parametrize("threshold", [0.0, 0.2, 0.9, 1.1])
@pytest.mark.parametrize("seed", range(10))
def test_confident_picks_and_survivors_are_those_of_the_slow_loops(seed, threshold):
    labels, probabilities, boxes, tags = draw_sample(seed)
    kept = keep_confident(labels, probabilities, tags, threshold)
    truths = pseudo_ground_truths(labels, probabilities, boxes, tags, threshold, nms_iou=0.3)
    for k in range(len(labels)):
        expected = keep_confident_slowly(labels[k].tolist(), probabilities[k], threshold)
        assert kept[k].tolist() == expected
        survivors = thin_slowly(expected, probabilities[k], boxes[k], 0.3)
        assert list(zip(truths[k].indices.tolist(), truths[k].classes.tolist(), strict=True)) == survivors


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 1))
def test_every_tagged_class_survives_and_no_other(seed, threshold, nms_iou):
    labels, probabilities, boxes, tags = draw_sample(seed)
    for k, truth in enumerate(pseudo_ground_truths(labels, probabilities, boxes, tags, threshold, nms_iou)):
        assert feasible((0, *truth.classes.tolist()), tags)
        assert torch.equal(labels[k, truth.indices], truth.classes)
        alone = pseudo_ground_truth(labels[k], probabilities[k], boxes[k], tags, threshold, nms_iou)
        assert torch.equal(alone.indices, truth.indices)
        assert torch.equal(alone.classes, truth.classes)


def test_one_set_of_boxes_for_all_samples():
    labels, probabilities, boxes, tags = draw_sample(1)
    shared = pseudo_ground_truths(labels, probabilities, boxes[0], tags)
    repeated = pseudo_ground_truths(labels, probabilities, boxes[:1].expand_as(boxes), tags)
    assert all(torch.equal(a.indices, b.indices) for a, b in zip(shared, repeated, strict=True))


def test_no_tags_no_survivors():
    labels, probabilities, boxes, _ = draw_sample(0)
    truths = pseudo_ground_truths(torch.zeros_like(labels), probabilities, boxes, torch.zeros(4, dtype=torch.bool))
    assert [len(truth.indices) for truth in truths] == [0, 0, 0]


def test_labels_of_untagged_classes_are_dropped():
    probabilities = torch.eye(3)[[1, 2]]
    assert keep_confident(torch.tensor([1, 2]), probabilities, torch.tensor([False, True])).tolist() == [0, 2]


def test_suppression_stays_within_a_class():
    labels, boxes = torch.tensor([1, 2, 1]), torch.tensor([[0.0, 0, 10, 10]]).repeat(3, 1)
    probabilities = torch.tensor([[0.1, 0.6, 0.3], [0.2, 0.1, 0.7], [0.1, 0.8, 0.1]])
    truth = pseudo_ground_truth(labels, probabilities, boxes, torch.tensor([True, True]))
    assert list(zip(truth.indices.tolist(), truth.classes.tolist(), strict=True)) == [(2, 1), (1, 2)]


def test_all_pairs_of_classes_are_told_apart_in_one_call():
    """The same box with every class in every sample: none suppresses another."""
    labels = torch.tensor(list(combinations(range(1, 4), 2)))  # [3, 2]
    probabilities = torch.full((3, 2, 4), 0.25)
    boxes = torch.tensor([[0.0, 0, 10, 10]]).repeat(2, 1)
    truths = pseudo_ground_truths(labels, probabilities, boxes, torch.ones(3, dtype=torch.bool))
    assert [sorted(truth.classes.tolist()) for truth in truths] == [[1, 2], [1, 3], [2, 3]]


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**6), st.floats(0.01, 1))
def test_parts_go_as_a_slow_loop_says_and_every_tagged_class_stays(seed, parts):
    labels, probabilities, boxes, tags = draw_sample(seed)
    boxes[..., 2:] = boxes[..., :2] + (boxes[..., 2:] - boxes[..., :2]) * 10 ** torch.rand(boxes[..., :1].shape)
    all_of_them = pseudo_ground_truths(labels, probabilities, boxes, tags, 0.0, 0.9)
    for k, (truth, every) in enumerate(
        zip(pseudo_ground_truths(labels, probabilities, boxes, tags, 0.0, 0.9, parts), all_of_them, strict=True)
    ):
        stay = []
        for i, c in zip(every.indices.tolist(), every.classes.tolist(), strict=True):
            wholes = [
                j
                for j, d in zip(every.indices.tolist(), every.classes.tolist(), strict=True)
                if d == c
                and area(boxes[k, j]) > area(boxes[k, i])
                and shared(boxes[k, i], boxes[k, j]) >= 0.8 * area(boxes[k, i])
                and probabilities[k, j, c] >= parts * probabilities[k, i, c]
            ]
            stay += [] if wholes else [i]
        assert truth.indices.tolist() == stay
        assert feasible((0, *truth.classes.tolist()), tags)


def area(box):
    return (box[2] - box[0]) * (box[3] - box[1])


def shared(one, other):
    width, height = (min(one[i + 2], other[i + 2]) - max(one[i], other[i]) for i in (0, 1))
    return max(width, 0) * max(height, 0)


def test_a_head_is_no_second_cat():
    """They overlap by a tenth, too little for non-maximum suppression, and the head is the surer one."""
    boxes = torch.tensor([[0.0, 0, 100, 100], [10, 10, 40, 40]])
    labels, probabilities = torch.tensor([[1, 1]]), torch.tensor([[[0.4, 0.6], [0.1, 0.9]]])
    tags = torch.tensor([True])
    for parts, left in ((0.0, [1, 0]), (0.5, [0]), (0.8, [1, 0])):
        (truth,) = pseudo_ground_truths(labels, probabilities, boxes, tags, parts=parts)
        assert truth.indices.tolist() == left
