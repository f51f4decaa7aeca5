import torch

from tag2box.labels.consensus import agreed
from tag2box.pair import Study

HERE, NEAR, THERE = (0.0, 0.0, 10.0, 10.0), (1.0, 0.0, 10.0, 10.0), (50.0, 50.0, 80.0, 80.0)


def study(*samples, probabilities=((0.2, 0.8, 0.0), (0.1, 0.9, 0.0), (0.5, 0.3, 0.2))):
    """Samples as lists of (box, class); the proposals are the three boxes above."""
    truths = [
        (
            torch.tensor([box for box, _ in sample]).reshape(-1, 4),
            torch.tensor([c for _, c in sample], dtype=torch.long),
        )
        for sample in samples
    ]
    return Study(
        proposals=torch.tensor([HERE, NEAR, THERE]),
        probabilities=torch.tensor(probabilities),
        boxes=torch.zeros(3, 3, 4),
        samples=torch.zeros(len(samples), 3, dtype=torch.long),
        truths=truths,
    )


def as_rows(found):
    return [
        (tuple(box), round(score, 4), label)
        for box, score, label in zip(found.boxes.tolist(), found.scores.tolist(), found.labels.tolist(), strict=True)
    ]


def test_boxes_by_the_share_of_samples_that_have_them():
    found = agreed(study([(HERE, 1)], [(HERE, 1), (THERE, 1)], [(NEAR, 1)], [(THERE, 1)]))
    # 3 of 4 samples are on the first place, where the second net is surest of NEAR; 2 of 4 are on the other.
    assert as_rows(found) == [(NEAR, round(0.75 * 0.9, 4), 0), (THERE, 0.15, 0)]


def test_classes_do_not_vote_for_each_other():
    found = agreed(study([(THERE, 1), (THERE, 2)], [(THERE, 2)]))
    assert as_rows(found) == [(THERE, 0.2, 1), (THERE, 0.15, 0)]


def test_two_boxes_of_one_sample_are_one_vote():
    found = agreed(study([(HERE, 1), (NEAR, 1)], [(THERE, 1)]))
    assert as_rows(found) == [(NEAR, 0.45, 0), (THERE, 0.15, 0)]


def test_every_class_of_the_samples_is_there_however_unlikely():
    found = agreed(study([(HERE, 2)], probabilities=((1.0, 0.0, 0.0),) * 3))
    assert as_rows(found) == [(HERE, 0.0, 1)]


def test_a_picture_without_tags():
    found = agreed(study([], []))
    assert found.boxes.shape == (0, 4)
    assert len(found.scores) == len(found.labels) == 0
