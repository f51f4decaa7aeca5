import threading

import pytest

from tag2box.errors import InputError
from tag2box.review.cache import LookCache, note_pictures
from tag2box.review.looker import NOTHING, Looker
from tag2box.review.store import Store

from .conftest import DOUBTS, look_of


def run(looker):
    looker.start()
    looker._thread.join(10)
    return looker


def test_every_picture_once_and_never_again(dataset, database):
    asked = []

    def look(image):
        asked.append(image.id)
        return look_of(image)

    looker = run(Looker(dataset.images, LookCache(database, ["run 1"]), look))
    assert looker.uncertainties == DOUBTS
    assert asked == list(dataset.ids)
    assert looker.ask(dataset[1]) == {**look_of(dataset[1]), "classes": looker.ask(dataset[1])["classes"]}
    assert looker.ask(dataset[1])["classes"]["cat"]["agreed"] == [[20, 10, 90, 70]]

    again = Looker(dataset.images, LookCache(database, ["run 1"]), look)
    assert again.uncertainties == DOUBTS  # at once, before it has started
    run(again)
    assert asked == list(dataset.ids)
    run(Looker(dataset.images, LookCache(database, ["run 2"]), look))  # trained anew
    assert asked == 2 * list(dataset.ids)


def test_a_picture_or_tag_that_has_changed_is_looked_at_again(dataset, database, save_picture):
    cache = LookCache(database, [])
    run(Looker(dataset.images, cache, look_of))
    dataset[0].path.write_bytes(dataset[0].path.read_bytes() + b"more")
    assert cache.get(dataset[0]) is None
    assert dataset[0].id not in cache.doubts(dataset.images)
    assert dataset[1].id in cache.doubts(dataset.images)


def test_by_another_score_and_by_one_class_without_another_look(dataset, database):
    cache = LookCache(database, [])
    run(Looker(dataset.images, cache, look_of))
    owls = [image for image in dataset if "owl" in image.tags]
    assert Looker(dataset.images, cache, pytest.fail, by="distance").uncertainties == {
        id: 1 - doubt for id, doubt in DOUBTS.items()
    }
    of_owls = {image.id: look_of(image)["doubts"]["owl"]["doubt"] for image in owls}
    assert of_owls != {image.id: DOUBTS[image.id] for image in owls}
    assert Looker(owls, cache, pytest.fail, only=["owl"]).uncertainties == of_owls
    live = run(Looker(owls, LookCache(database, ["another run"]), look_of, only=["owl"]))
    assert live.uncertainties == of_owls


def test_another_server_has_been_faster(dataset, database):
    cache, gate = LookCache(database, []), threading.Event()

    def look(image):
        gate.wait(10)
        return look_of(image)

    slow = Looker(dataset.images, cache, look)
    slow.start()
    run(Looker(dataset.images, cache, look_of))
    slow._look = lambda image: pytest.fail("looked at a picture that is known")
    gate.set()
    slow._thread.join(10)
    assert slow.trouble is None
    assert slow.uncertainties == DOUBTS


def test_a_picture_that_cannot_be_read(dataset, database, capsys):
    def look(image):
        if image is dataset[1]:
            raise InputError("cannot read the picture 1.jpg: gone")
        return look_of(image)

    cache = LookCache(database, [])
    looker = run(Looker(dataset.images, cache, look))
    assert looker.trouble is None
    assert looker.uncertainties == {**DOUBTS, dataset[1].id: None}
    assert looker.ask(dataset[1]) == NOTHING
    assert "gone" in capsys.readouterr().err
    assert cache.get(dataset[1]) is None  # next time it may be there


def test_trouble_is_told(dataset, database, capsys):
    def look(image):
        raise RuntimeError("out of\nmemory")

    looker = run(Looker(dataset.images, LookCache(database, []), look))
    assert looker.trouble == "RuntimeError: out of memory"
    assert capsys.readouterr().err.count("\n") == 1


def test_it_stops_after_the_picture_it_is_at(dataset, database):
    begun, gate = threading.Event(), threading.Event()

    def look(image):
        begun.set()
        gate.wait(10)
        return look_of(image)

    looker = Looker(dataset.images, LookCache(database, []), look)
    looker.start()
    begun.wait(10)
    threading.Timer(0.1, gate.set).start()
    looker.stop()
    assert list(looker.uncertainties) == [dataset[0].id]


def test_other_pictures_of_the_same_name(dataset, database):
    assert note_pictures(database, dataset.images) == []
    dataset[0].path.write_bytes(dataset[0].path.read_bytes() + b"more")
    assert note_pictures(database, dataset.images) == []  # nobody has decided anything
    Store(database).decide(dataset[0].id, "cat", "accepted", [[1, 2, 3, 4]], 0)
    assert note_pictures(database, dataset.images) == []
    dataset[0].path.write_bytes(dataset[0].path.read_bytes() + b"more")
    assert note_pictures(database, dataset.images) == [dataset[0].id]
    assert note_pictures(database, dataset.images) == [dataset[0].id]  # still
