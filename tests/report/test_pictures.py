import numpy as np
import pytest
from PIL import Image, ImageColor

from tag2box.data import open_dataset, open_ground_truth
from tag2box.proposals.store import ProposalStore, write_store
from tag2box.report import pictures
from tag2box.report.colours import CLASS_COLOURS
from tag2box.report.pictures import FAIR, GOOD, MISSED, objects_sheet, proposals_sheet

CAT = (11, 11, 60, 60)  # in VOC's way; in ours 10, 10, 60, 60


@pytest.fixture
def drawn(monkeypatch):
    """The photos that a sheet was asked to show."""
    shown = []
    original = pictures.draw_sheet
    monkeypatch.setattr(
        pictures, "draw_sheet", lambda photos, out, **more: (shown.extend(photos), original(photos, out, **more))
    )
    return shown


def store_of(path, boxes, size=(100, 80)):
    arrays = [np.array(rows, dtype="<i2").reshape(-1, 4) for rows in boxes.values()]
    write_store(path, list(boxes), [size] * len(boxes), {}, [len(rows) for rows in arrays], arrays)
    return ProposalStore(path)


def opened(devkit):
    return open_dataset(devkit, "trainval"), open_ground_truth(devkit, "trainval")


def test_objects_and_tags_in_the_colour_of_their_class(make_devkit, tmp_path, drawn):
    dataset, truth = opened(make_devkit({"1": [("cat", CAT), ("dog", (1, 1, 100, 80))], "2": [("dog", CAT)]}))
    objects_sheet(dataset, truth, tmp_path / "sheet.png")
    cat, dog = CLASS_COLOURS[:2]
    assert [list(photo.boxes) for photo in drawn] == [
        [([10, 10, 60, 60], cat), ([0, 0, 100, 80], dog)],
        [([10, 10, 60, 60], dog)],
    ]
    assert [photo.caption for photo in drawn] == [[("cat", cat), ("dog", dog)], [("dog", dog)]]
    with Image.open(tmp_path / "sheet.png") as sheet:
        colours = {colour for _, colour in sheet.getcolors(1 << 24)}
    assert {ImageColor.getrgb(cat), ImageColor.getrgb(dog)} <= colours


def test_only_the_first_pictures(make_devkit, tmp_path, drawn):
    dataset, truth = opened(make_devkit({f"{n:02d}": [("cat", CAT)] for n in range(9)}))
    objects_sheet(dataset, truth, tmp_path / "sheet.jpg", rows=2, columns=3)
    assert len(drawn) == 6


def test_more_classes_than_colours(make_devkit, tmp_path):
    dataset, truth = opened(make_devkit({"1": [(f"class{n:02d}", CAT) for n in range(12)]}))
    objects_sheet(dataset, truth, tmp_path / "sheet.jpg")


def test_the_best_proposal_of_each_object_tells_how_near_it_is(make_devkit, tmp_path, drawn):
    far, fair, good = (0, 0, 20, 20), (10, 10, 60, 40), (10, 10, 60, 55)
    dataset, truth = opened(make_devkit({name: [("cat", CAT)] for name in ("a", "b", "c", "d")}))
    store = store_of(tmp_path / "s", {"a": [far], "b": [far, fair], "c": [fair, good, far], "d": []})
    proposals_sheet(dataset, truth, store, tmp_path / "sheet.jpg")
    assert [list(photo.boxes) for photo in drawn] == [
        [(list(far), MISSED)],
        [(list(fair), FAIR)],
        [(list(good), GOOD)],
        [],
    ]
    assert [photo.caption for photo in drawn][1:3] == [[("0.60", FAIR)], [("0.90", GOOD)]]


def test_pictures_from_all_over_the_data_set(make_devkit, tmp_path, drawn):
    ids = [f"{n:02d}" for n in range(20)]
    dataset, truth = opened(make_devkit({id: [("cat", (1, 1, 10 + int(id), 30))] for id in ids}))
    store = store_of(tmp_path / "s", {id: [(0, 0, 10 + int(id), 30)] for id in ids})
    proposals_sheet(dataset, truth, store, tmp_path / "sheet.jpg", rows=2, columns=2)
    assert [photo.boxes[0][0][2] - 10 for photo in drawn] == [0, 5, 10, 15]
