"""What pictures share, against plain loops; and that planted objects are found by it."""

import numpy as np
import pytest
import torch

from tag2box.engine.common import common_in, covering, principal


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_direction_is_that_of_the_greatest_spread():
    maps = [drawn(5, 4, 6), drawn(5, 3, 3, seed=1), drawn(5, 7, 2, seed=2) + 2]
    mean, direction = principal(maps)
    cells = np.concatenate([one.flatten(1).T.numpy() for one in maps])
    _, _, rows = np.linalg.svd(cells - cells.mean(0), full_matrices=False)
    np.testing.assert_allclose(mean, cells.mean(0), atol=1e-5)
    np.testing.assert_allclose(np.abs(rows[0] @ direction.numpy()), 1, atol=1e-5)


def test_covering_is_the_cosine_of_two_masks():
    """Counted pixel by pixel; a cell has 8 × 5 of them, and boxes end within cells."""
    share, boxes = drawn(6, 7).abs(), torch.tensor([[0, 0, 56, 30], [3, 4, 29, 17], [41, 2, 55, 30], [9, 9, 10, 10]])
    pixels = share.repeat_interleave(5, 0).repeat_interleave(8, 1).numpy()
    wanted = []
    for x0, y0, x1, y1 in boxes.tolist():
        inside = np.zeros_like(pixels)
        inside[y0:y1, x0:x1] = 1
        wanted.append((inside * pixels).sum() / np.sqrt(inside.sum() * (pixels**2).sum()))
    np.testing.assert_allclose(covering(share, boxes, (56, 30)), wanted, rtol=1e-5)


@pytest.mark.parametrize("box", [[0.0, 0, 100, 50], [20, 10, 60, 40], [3, 3, 4, 4]])
def test_of_an_even_map_a_region_covers_what_its_area_says(box: list[float]):
    found = covering(torch.full((5, 10), 0.3), torch.tensor([box]), (100, 50))
    torch.testing.assert_close(found, torch.tensor([((box[2] - box[0]) * (box[3] - box[1]) / 5000) ** 0.5]))


def planted(sign: float = 1.0):
    """Pictures of two classes: each has a pattern of its own on one rectangle, and noise everywhere."""
    generator, patterns = torch.Generator().manual_seed(0), 3 * drawn(2, 6, seed=9)
    maps, boxes, tags, things = [], [], [], []
    for index in range(12):
        label, (x, y) = index % 2, (int(v) for v in torch.randint(1, 7, (2,), generator=generator))
        cells = torch.randn(6, 12, 14, generator=generator)
        cells[:, y : y + 5, x : x + 6] += patterns[label][:, None, None]
        thing = torch.tensor([x, y, x + 6, y + 5]).float() * 16
        low = 100 * torch.rand(30, 2, generator=generator)
        others = torch.cat([low, low + 20 + 80 * torch.rand(30, 2, generator=generator)], 1)
        others = torch.minimum(others, torch.tensor([224.0, 192, 224, 192]))
        maps.append(sign * cells.half())
        boxes.append(torch.cat([others, thing[None]]))
        tags.append([label == 0, label == 1, False])
        things.append(label)
    return maps, boxes, [(224, 192)] * 12, torch.tensor(tags), things


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_planted_objects_are_covered_best_whichever_way_directions_point(sign: float):
    maps, boxes, sizes, tags, labels = planted(sign)
    found = common_in(maps, boxes, sizes, tags)
    assert all(own.shape == (31, 3) and own.min() >= 0 and own.max() <= 1.001 for own in found)
    assert sum(int(own[:, label].argmax()) == 30 for own, label in zip(found, labels, strict=True)) >= 11
    for own, mine in zip(found, tags, strict=True):
        assert not own[:, ~mine].any()  # of what is not tagged nothing is said
        assert own[:, mine].any()


def test_a_picture_without_regions_and_a_class_with_one_picture():
    maps, boxes, sizes, tags, _ = planted()
    boxes[0] = boxes[0][:0]
    tags[1, 2] = True
    found = common_in(maps, boxes, sizes, tags)
    assert found[0].shape == (0, 3)
    assert found[1][:, 2].isfinite().all()


def test_a_map_of_nothing_says_nothing():
    (found,) = common_in([torch.zeros(4, 3, 3)], [torch.tensor([[0.0, 0, 9, 9]])], [(9, 9)], torch.tensor([[True]]))
    assert found.tolist() == [[0.0]]
