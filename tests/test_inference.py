"""Detections from scores, against a loop anyone can read."""

import pytest
import torch
from torchvision.ops import box_iou

from tag2box.config import Inference
from tag2box.disco.offsets import FAST_RCNN, encode
from tag2box.inference import (
    Found,
    as_detections,
    average_views,
    decode_boxes,
    flip_boxes,
    look,
    look_together,
    resized,
    resized_size,
    scale_boxes,
)
from tag2box.inference import (
    select_detections as select_by_settings,
)
from tag2box.landing import landing
from tag2box.overlap import whole_objects

SIZE = (100, 80)


def select_detections(probabilities, boxes, *, size, best_of_each=False, **settings):
    return select_by_settings(probabilities, boxes, Inference(**settings), size=size, best_of_each=best_of_each)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def slow_selection(probabilities, boxes, size, nms, min_score, max_detections):
    """Class by class, box by box: take the best one left, drop what overlaps it."""
    found = []
    for label in range(1, probabilities.shape[1]):
        left = []
        for row in range(len(probabilities)):
            x0, y0, x1, y1 = (boxes[row, label] if boxes.dim() == 3 else boxes[row]).tolist()
            box = (max(x0, 0), max(y0, 0), min(x1, size[0]), min(y1, size[1]))
            score = probabilities[row, label].item()
            if box[2] > box[0] and box[3] > box[1] and score >= min_score:
                left.append((-score, row, label, box))
        left.sort()
        while left:
            best, *left = left
            found.append(best)
            left = [one for one in left if box_iou(torch.tensor([best[3]]), torch.tensor([one[3]])) <= nms]
    return sorted(found)[:max_detections]


def random_case(seed, proposals=60, classes=3):
    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(proposals, classes + 1, 4, generator=generator) * 140 - 20
    boxes = torch.cat([corners[..., :2].minimum(corners[..., 2:]), corners[..., :2].maximum(corners[..., 2:])], -1)
    return torch.rand(proposals, classes + 1, generator=generator).softmax(1), boxes


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("most", [5, 1000])
def test_selection_equals_the_slow_one(seed, shared, most):
    probabilities, boxes = random_case(seed)
    boxes = boxes[:, 0] if shared else boxes
    options = {"size": SIZE, "nms": 0.3, "min_score": 0.2, "max_detections": most}
    found, slow = select_detections(probabilities, boxes, **options), slow_selection(probabilities, boxes, **options)
    assert found.labels.tolist() == [label - 1 for _, _, label, _ in slow]
    torch.testing.assert_close(found.scores, torch.tensor([-score for score, *_ in slow]))
    torch.testing.assert_close(found.boxes, torch.tensor([box for *_, box in slow]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("parts", [0.3, 0.8, 1.0])
def test_parts_are_dropped_as_by_the_slow_one(seed, parts):
    probabilities, boxes = random_case(seed)
    options = {"size": SIZE, "nms": 0.3, "min_score": 0.2, "max_detections": 1000}
    found, everything = (select_detections(probabilities, boxes, **options, parts=share) for share in (parts, 0.0))
    wanted = []
    for box, score, label in zip(*(part.tolist() for part in everything), strict=True):
        x0, y0, x1, y1 = box
        is_part = False
        for other, sure, kind in zip(*(part.tolist() for part in everything), strict=True):
            shared = max(min(x1, other[2]) - max(x0, other[0]), 0) * max(min(y1, other[3]) - max(y0, other[1]), 0)
            area, larger = (x1 - x0) * (y1 - y0), (other[2] - other[0]) * (other[3] - other[1])
            is_part |= kind == label and larger > area and shared >= 0.8 * area and sure >= parts * score
        wanted += [] if is_part else [(box, score, label)]
    assert list(zip(*(part.tolist() for part in found), strict=True)) == wanted
    assert len(wanted) < len(everything.scores)


def test_a_head_is_no_second_cat_but_a_kitten_of_another_class_and_the_best_of_each_stay():
    boxes = torch.tensor([[0.0, 0, 100, 100], [10, 10, 40, 40], [50, 50, 80, 80]])
    probabilities = torch.tensor([[0.0, 0.8, 0.1], [0.0, 0.9, 0.0], [0.0, 0.0, 0.7]])
    options = {"size": (100, 100), "nms": 0.3, "min_score": 0.5, "max_detections": 10}
    assert select_detections(probabilities, boxes, **options).scores.tolist() == pytest.approx([0.9, 0.8, 0.7])
    whole = select_detections(probabilities, boxes, **options, parts=0.8)
    assert whole.scores.tolist() == pytest.approx([0.8, 0.7])
    assert select_detections(probabilities, boxes, **options, parts=0.95).scores.tolist() == pytest.approx(
        [0.9, 0.8, 0.7]
    )
    best = select_detections(probabilities, boxes, **options, parts=0.8, best_of_each=True)
    assert best.scores.tolist() == pytest.approx([0.8, 0.7])  # the best of what is no part


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("best_of_each", [False, True])
def test_where_boxes_land_decides_what_comes_first(seed, best_of_each, monkeypatch):
    """Class by class: of the best by score, take the one that most speaks for, drop what overlaps it."""
    monkeypatch.setattr("tag2box.inference.LANDED", 30)
    probabilities, boxes = random_case(seed)
    options = {"size": SIZE, "nms": 0.3, "min_score": 0.2, "max_detections": 1000}
    found = select_detections(probabilities, boxes, **options, landing=True, best_of_each=best_of_each)
    inside = boxes.clamp(min=0).minimum(torch.tensor([*SIZE, *SIZE]))
    wanted = []
    for label in range(1, probabilities.shape[1]):
        sound = (inside[:, label, 2:] > inside[:, label, :2]).all(1)
        first = [row for row in probabilities[:, label].argsort(descending=True).tolist() if sound[row]][:30]
        values = landing(probabilities[first, label][None], inside[first, label][None])[0].tolist()
        best = first[values.index(max(values))]
        left = sorted(first, key=lambda row: -values[first.index(row)])
        while left:
            row, *left = left
            if probabilities[row, label] >= 0.2 or (best_of_each and row == best):
                wanted.append((-probabilities[row, label].item(), label - 1, inside[row, label].tolist()))
            left = [one for one in left if box_iou(inside[row, label][None], inside[one, label][None]) <= 0.3]
    wanted.sort()
    assert found.labels.tolist() == [label for _, label, _ in wanted]
    torch.testing.assert_close(found.scores, torch.tensor([-score for score, *_ in wanted]))
    torch.testing.assert_close(found.boxes, torch.tensor([box for *_, box in wanted]))


def test_the_whole_takes_the_place_of_its_part_among_few():
    boxes = torch.tensor([[0.0, 0, 100, 100], [10, 10, 40, 40]])
    probabilities = torch.tensor([[0.2, 0.8], [0.1, 0.9]])
    found = select_detections(
        probabilities, boxes, size=(100, 100), nms=0.3, min_score=0.5, max_detections=1, parts=0.8
    )
    assert found.scores.tolist() == pytest.approx([0.8])


@pytest.mark.parametrize("seed", range(3))
def test_parts_go_after_landing_has_chosen(seed):
    probabilities, boxes = random_case(seed)
    options = {"size": SIZE, "nms": 0.3, "min_score": 0.2, "max_detections": 1000, "landing": True}
    everything = select_detections(probabilities, boxes, **options)
    whole = whole_objects(everything.boxes, everything.scores, everything.labels, 0.5)
    found = select_detections(probabilities, boxes, **options, parts=0.5)
    assert 0 < len(found.scores) < len(everything.scores)
    assert all(torch.equal(one, other[whole]) for one, other in zip(found, everything, strict=True))


def test_equal_scores_keep_the_order_of_proposals():
    boxes = torch.tensor([[0.0, 0, 10, 10], [20, 20, 30, 30], [0, 0, 10, 10]])
    found = select_detections(torch.full((3, 3), 1 / 3), boxes, size=SIZE, nms=0.5, min_score=0.0, max_detections=100)
    assert found.labels.tolist() == [0, 1, 0, 1]
    assert found.boxes[:, 0].tolist() == [0, 0, 20, 20]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_no_detection(bad):
    probabilities, boxes = torch.tensor([[0.1, 0.9], [0.1, bad]]), torch.tensor([[0.0, 0, bad, 9], [0, 0, 9, 9]])
    boxes[0, 0] = float("nan")
    found = select_detections(probabilities, boxes, size=SIZE, nms=0.5, min_score=0.0, max_detections=9)
    assert len(found.scores) == 0


def test_only_the_best_of_very_many_are_thinned(monkeypatch):
    """Boxes far apart, so that nothing is suppressed: the best are left, and the best of each class all the same."""
    count = 40
    left = 20.0 * torch.arange(count)
    boxes = torch.stack([left, left * 0, left + 10, left * 0 + 10], dim=1)
    scores = torch.rand(count, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 0.01])
    probabilities = torch.cat([torch.zeros(count, 1), scores], dim=1)
    settings = {"size": (1000, 10), "nms": 0.3, "min_score": 0.0, "max_detections": 100}
    everything = select_detections(probabilities, boxes, **settings)
    monkeypatch.setattr("tag2box.inference.CANDIDATES", 15)
    best = select_detections(probabilities, boxes, **settings)
    assert len(everything.scores) == 80
    assert best.scores.tolist() == everything.scores[:15].tolist()
    each = select_detections(probabilities, boxes, **settings, best_of_each=True)
    assert set(each.labels.tolist()) == {0, 1}


def test_nothing_to_select_from():
    found = select_detections(
        torch.zeros(0, 3), torch.zeros(0, 3, 4), size=SIZE, nms=0.5, min_score=0.0, max_detections=9, best_of_each=True
    )
    assert [tuple(part.shape) for part in found] == [(0, 4), (0,), (0,)]


def test_the_best_of_each_class_stays():
    probabilities = torch.tensor([[0.1, 0.8, 1e-6], [0.2, 0.7, 1e-5]])
    boxes = torch.tensor([[0.0, 0, 10, 10], [50, 50, 70, 70]])
    options = {"size": SIZE, "nms": 0.5, "min_score": 1e-3, "max_detections": 1}
    assert select_detections(probabilities, boxes, **options).labels.tolist() == [0]
    found = select_detections(probabilities, boxes, **options, best_of_each=True)
    assert found.labels.tolist() == [0, 1]
    assert found.boxes[1].tolist() == [50, 50, 70, 70]


@pytest.mark.parametrize(
    ("size", "short", "max_side", "expected"),
    [
        ((40, 30), 60, 1000, (80, 60)),
        ((40, 30), 60, 70, (70, 52)),
        ((30, 40), 15, 99, (15, 20)),
        ((7, 3), 3, 9, (7, 3)),
    ],
)
def test_resized(size, short, max_side, expected):
    image = torch.randint(0, 256, (3, size[1], size[0]), dtype=torch.uint8)
    pixels, scale_x, scale_y = resized(image, short, max_side)
    assert (pixels.shape[2], pixels.shape[1]) == expected
    assert (scale_x, scale_y) == (expected[0] / size[0], expected[1] / size[1])
    assert pixels.dtype == torch.float32
    assert 0 <= pixels.min() <= pixels.max() <= 255


def test_resized_averages_what_it_shrinks():
    image = torch.tensor([0, 255], dtype=torch.uint8).repeat(3, 64, 32)  # [3, 64, 64], stripes of one pixel
    pixels, *_ = resized(image, 8, 999)
    assert (pixels[:, :, 1:-1] - 127.5).abs().max() < 10


def test_flipping():
    boxes = torch.tensor([[10.0, 20, 30, 40]])
    assert flip_boxes(boxes, 100).tolist() == [[70, 20, 90, 40]]
    assert torch.equal(flip_boxes(flip_boxes(boxes, 100), 100), boxes)


def test_decoding_undoes_encoding():
    proposals, boxes = torch.tensor([[0.0, 0, 10, 20], [5, 5, 9, 9]]), torch.rand(2, 3, 4)
    boxes[..., 2:] += boxes[..., :2] + 1
    torch.testing.assert_close(decode_boxes(encode(boxes, proposals[:, None], FAST_RCNN), proposals), boxes)
    assert decode_boxes(torch.zeros(2, 3, 4, dtype=torch.bfloat16), proposals).dtype == torch.float32


def test_averaging():
    views = [(torch.full((2, 3), value), torch.full((2, 3, 4), 10 * value)) for value in (0.0, 0.5, 1.0)]
    probabilities, boxes = average_views(views)
    assert torch.equal(probabilities, torch.full((2, 3), 0.5))
    assert torch.equal(boxes, torch.full((2, 3, 4), 5.0))


def test_looking_brings_boxes_home():
    """A scorer that returns its proposals, whatever the view, must be seen to return the original ones."""
    image = torch.randint(0, 256, (3, 37, 53), dtype=torch.uint8)
    proposals = torch.tensor([[1.0, 2, 20, 30], [0, 0, 53, 37]])
    shown = []

    def scorer(pixels, boxes):
        shown.append((tuple(pixels.shape), boxes))
        return torch.full((2, 3), len(shown) / 10), boxes[:, None].expand(-1, 3, -1)

    probabilities, boxes = look(scorer, image, proposals, scales=(20, 74), flip=True, max_side=100)
    assert [shape for shape, _ in shown] == [(3, 20, 29)] * 2 + [(3, 70, 100)] * 2
    torch.testing.assert_close(boxes, proposals[:, None].expand(-1, 3, -1))
    torch.testing.assert_close(probabilities, torch.full((2, 3), 0.25))
    torch.testing.assert_close(shown[1][1], flip_boxes(scale_boxes(proposals, 29 / 53, 20 / 37), 29))


def test_several_are_seen_as_each_alone():
    """Pictures of other sizes that come to the same size; a scorer whose answer depends on pixels and boxes."""
    images = [torch.randint(0, 256, (3, height, width), dtype=torch.uint8) for height, width in ((30, 40), (60, 80))]
    proposals = [torch.tensor([[1.0, 2, 20, 30], [0, 0, 40, 30]]), torch.tensor([[10.0, 10, 50, 20]])]

    def scorer(pixels, boxes):
        return torch.outer(boxes.sum(1), pixels[:, 0, 0]), boxes[:, None].expand(-1, 3, -1) + pixels.mean()

    def together(pixels, boxes):
        assert pixels.shape[:2] == (2, 3)
        return [scorer(*one) for one in zip(pixels, boxes, strict=True)]

    how = {"scales": (20, 30), "flip": True, "max_side": 100}
    assert {resized_size(size, 20, 100) for size in ((40, 30), (80, 60))} == {(27, 20)}
    seen = look_together(together, images, proposals, **how)
    for image, boxes, (probabilities, moved) in zip(images, proposals, seen, strict=True):
        alone = look(scorer, image, boxes, **how)
        torch.testing.assert_close(probabilities, alone[0])
        torch.testing.assert_close(moved, alone[1])


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.usefixtures("canvas_of_a_gpu")
def test_pictures_on_one_canvas_are_seen_as_each_alone(flip):
    """Of other sizes, padded as on a GPU: what is right and below is nothing, mirrored or not, and boxes know it."""
    generator = torch.Generator().manual_seed(0)
    images = [
        torch.randint(1, 256, (3, *size), dtype=torch.uint8, generator=generator) for size in ((20, 40), (20, 60))
    ]
    proposals = [torch.tensor([[1.0, 2, 20, 10], [0, 0, 40, 20]]), torch.tensor([[10.0, 10, 60, 20]])]

    def content(pixels, box):
        x0, y0, x1, y1 = box.round().int().tolist()
        return pixels[:, y0:y1, x0:x1].mean()

    def scorer(pixels, boxes):
        assert pixels.shape[1:] == (3, 64, 64)
        said = [torch.stack([content(one, box) for box in rows]) for one, rows in zip(pixels, boxes, strict=True)]
        return [(one[:, None], rows) for one, rows in zip(said, boxes, strict=True)]

    seen = look_together(scorer, images, proposals, scales=(20,), flip=flip, max_side=100)
    for image, boxes, (said, moved) in zip(images, proposals, seen, strict=True):
        torch.testing.assert_close(said[:, 0], torch.stack([content(image.float(), box) for box in boxes]))
        torch.testing.assert_close(moved, boxes)


def test_mirrored_pictures_are_mirrored():
    image = torch.arange(3 * 4 * 6, dtype=torch.uint8).view(3, 4, 6)
    seen = []

    def scorer(pixels, boxes):
        seen.append(pixels)
        return torch.zeros(1, 2), boxes

    look(scorer, image, torch.tensor([[0.0, 0, 2, 2]]), scales=(4,), flip=True, max_side=99)
    assert torch.equal(seen[1], image.float().flip(2))


def test_as_detections():
    one = Found(torch.tensor([[0.0, 0, 5, 5], [1, 1, 2, 2]]), torch.tensor([0.9, 0.5]), torch.tensor([1, 0]))
    none = Found(torch.zeros(0, 4), torch.zeros(0), torch.zeros(0, dtype=torch.long))
    found = as_detections(["cat", "dog"], ["a", "b", "c"], [one, none, one])
    assert found.images.tolist() == [0, 0, 2, 2]
    assert found.labels.tolist() == [1, 0, 1, 0]
    assert found.ids == ("a", "b", "c")
    assert len(as_detections(["cat"], [], [])) == 0
    with pytest.raises(ValueError, match="2 images, found it of 1"):
        as_detections(["cat"], ["a", "b"], [none])
