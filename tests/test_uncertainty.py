import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tag2box.pair import Study
from tag2box.uncertainty import class_uncertainty, image_uncertainty


def study_of(probabilities, samples) -> Study:
    count = len(probabilities)
    boxes = torch.zeros(count, 4)
    return Study(boxes, probabilities, boxes[:, None].expand(-1, probabilities.shape[1], -1), samples, [])


def slowly(probabilities, samples, gamma) -> tuple[float, float]:
    """DISC and DIV(c, c), proposal by proposal: those that a sample takes share a quarter of the weight, or more."""
    (count, proposals), labels = samples.shape, probabilities.shape[1]
    objects = [any(samples[k, i] > 0 for k in range(count)) for i in range(proposals)]
    some, others = sum(objects), proposals - sum(objects)
    disc = self_diversity = 0.0
    for i in range(proposals):
        taken = max(0.25, some / proposals)
        share = 1 / proposals if not (some and others) else taken / some if objects[i] else (1 - taken) / others
        p = probabilities[i].tolist()
        pc = sum(1 - p[samples[k, i]] for k in range(count)) / count
        pp = sum(p[a] * p[b] for a in range(labels) for b in range(labels) if a != b)
        pairs = [(k, j) for k in range(count) for j in range(count) if k != j]
        cc = sum(float(samples[k, i] != samples[j, i]) for k, j in pairs) / max(len(pairs), 1)
        disc += share * (pc - gamma * cc - (1 - gamma) * pp)
        self_diversity += share * cc
    return disc, self_diversity


cases = st.tuples(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 6), st.integers(1, 4))


def draw(case) -> Study:
    seed, count, proposals, classes = case
    generator = torch.Generator().manual_seed(seed)
    probabilities = (3 * torch.randn(proposals, classes + 1, generator=generator)).double().softmax(-1)
    samples = torch.randint(0, classes + 1, (count, proposals), generator=generator)
    return study_of(probabilities, samples)


@settings(deadline=None, max_examples=60)
@given(cases, st.sampled_from([0.5, 0.2]))
def test_of_a_picture_as_the_slow_loop_has_it(case, gamma):
    study = draw(case)
    found = image_uncertainty(study, 0.7, gamma)
    assert found[:2] == pytest.approx(slowly(study.probabilities, study.samples, gamma), abs=1e-6)
    assert found.confidence == 0.7
    assert found.total == pytest.approx(found.dissimilarity + found.self_diversity)


@settings(deadline=None, max_examples=60)
@given(cases, st.sampled_from([0.5, 0.2]))
def test_of_a_class_as_the_slow_loop_has_it(case, gamma):
    study = draw(case)
    for label in range(1, study.probabilities.shape[1]):
        own = study.probabilities[:, label]
        two = torch.stack([1 - own, own], dim=-1)
        samples = torch.tensor([[int(one == label) for one in row] for row in study.samples.tolist()])
        found = class_uncertainty(study, label, 0.7, gamma)
        assert found[:2] == pytest.approx(slowly(two, samples, gamma), abs=1e-6)
        assert found.confidence == 0.7


def test_nets_that_agree_are_sure():
    samples = torch.tensor([[0, 2, 0]] * 4)
    study = study_of(torch.nn.functional.one_hot(samples[0], 3).double(), samples)
    assert image_uncertainty(study, 1.0) == (0, 0, 1)
    assert class_uncertainty(study, 2, 1.0) == (0, 0, 1)
    assert class_uncertainty(study, 1, 0.0) == (0, 0, 0)


def test_samples_that_differ_are_not():
    probabilities = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    same, other = (study_of(probabilities, torch.tensor(rows)) for rows in ([[1, 0], [1, 0]], [[1, 0], [0, 1]]))
    assert image_uncertainty(other, 1.0).total > image_uncertainty(same, 1.0).total > 0


def test_without_a_tag():
    study = study_of(torch.tensor([[0.75, 0.25]]), torch.zeros(3, 1, dtype=torch.long))
    assert image_uncertainty(study, 1.0) == (pytest.approx(0.25 - 0.5 * 0.375), 0, 1)
