import io
import json

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from tag2box.data.images import read_image
from tag2box.data.records import Dataset, TaggedImage
from tag2box.known import FORMAT, read_known
from tag2box.review.cache import LookCache
from tag2box.review.desk import MOST_BOXES, Desk
from tag2box.review.looker import Looker
from tag2box.review.pictures import LONGEST
from tag2box.review.server import SCRIPTS, make_app
from tag2box.review.store import Store

from .conftest import CLASSES, NAMES, look_of

HERE = "http://127.0.0.1:8000"
BOX = [10.0, 20.0, 50.0, 60.0]


def client_of(desk):
    return TestClient(make_app(desk, "secret"), base_url=f"{HERE}/secret/", follow_redirects=False)


@pytest.fixture
def client(make_desk):
    return client_of(make_desk())


def decide(client, image, label, status="accepted", boxes=(BOX,), based_on=0):
    body = {"status": status, "boxes": list(boxes), "based_on": based_on}
    return client.put(f"api/images/{image}/classes/{label}", json=body)


def version(client):
    return client.get("api/state").json()["version"]


# Who may talk to it.


@pytest.mark.parametrize("path", ["", "secre/", "secret2/", "api/state", "//secret/", "SECRET/", "sécret/", "%73ecre/"])
def test_without_the_token_nothing(client, path):
    answer = client.get(f"{HERE}/{path}")
    assert answer.status_code == 403
    assert answer.text.count("\n") == 1
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    "path", ["", *SCRIPTS, "review.css", "api/about", "api/state", "api/images/0", "pictures/0", "api/boxes.json"]
)
def test_every_request_needs_the_token(client, path):
    assert client.get(path).status_code == 200
    for token in ("", "no/"):
        assert client.get(f"{HERE}/{token}{path}").status_code == 403
    assert decide(TestClient(client.app, base_url=f"{HERE}/no/"), 0, 0).status_code == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200),
        ("127.0.0.1", 200),
        ("localhost:9", 200),
        ("evil.example:8000", 421),
        ("127.0.0.1.evil.example", 421),
        ("127.0.0.1@evil.example", 421),
        ("", 421),
        ("[::1", 421),
    ],
)
def test_requests_to_another_name_are_refused(client, host, status):
    assert client.get("", headers={"host": host}).status_code == status


def test_without_the_slash_relative_addresses_would_miss(client):
    answer = client.get(f"{HERE}/secret")
    assert (answer.status_code, answer.headers["location"]) == (307, "/secret/")


def test_the_page_keeps_to_itself(client):
    for path in ("", "nowhere", "api/state", "pictures/1"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
    page = client.get("").text
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    assert "style=" not in page
    for path in SCRIPTS:
        assert "innerHTML" not in client.get(path).text


# Pictures.


def test_pictures_by_number_and_no_other_way(client):
    for path in ("4", "-1", "plain", "1.jpg", "..%2f..%2fetc%2fpasswd", "../pictures/0.jpg", "0/../../x", "%00", "1e0"):
        answer = client.get(f"pictures/{path}")
        assert answer.status_code in (404, 422), path
        assert set(answer.json()) == {"error"}
        assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, ["owl", "cat"]),
        ({"by": "distance"}, ["cat", "owl"]),
        ({"only": ["cat"]}, ["cat", "owl"]),
        ({"by": "total"}, ["cat", "owl"]),  # equals as the data set has them
    ],
)
def test_classes_come_as_they_are_doubted(make_desk, how, expected):
    """A picture is shown early because of one of its classes: that one is to be decided first."""
    client = client_of(make_desk(**how))
    assert client.get("api/about").json()["by"] == how.get("by", "doubt")
    assert decide(client, 3, 1).status_code == 200  # one that is not tagged: the nets were not asked about it
    classes = client.get("api/images/3").json()["classes"]
    assert [CLASSES[one["number"]] for one in classes] == [*expected, CLASSES[1]]
    assert [one["doubts"] is None for one in classes] == [False, False, True]
    assert decide(client, 3, 2).json()["image"]["classes"][0]["number"] == classes[0]["number"]  # decisions move none


def test_decisions_are_counted(client):
    assert client.get("api/state").json()["decided"] == 0
    decide(client, 3, 2)
    decide(client, 0, 0, "open")
    decide(client, 1, 0, "rejected", [])
    assert client.get("api/state").json()["decided"] == 2


def test_names_arrive_as_they_are(client):
    images = [client.get(f"api/images/{number}").json() for number in range(len(NAMES))]
    assert [image["name"] for image in images] == list(NAMES)
    assert [sorted(CLASSES[one["number"]] for one in image["classes"]) for image in images] == [
        list(tags) for tags in NAMES.values()
    ]
    assert [one["name"] for one in client.get("api/about").json()["classes"]] == list(CLASSES)


def upright():
    grey = np.zeros((60, 40), dtype=np.uint8)
    grey[:30, :20] = 255
    return Image.fromarray(grey)


def save_turned(path):
    exif = Image.Exif()
    exif[0x0112] = 6
    upright().convert("RGB").rotate(90, expand=True).save(path, exif=exif, quality=95)


SAVERS = {
    "turned.jpg": save_turned,
    "cmyk.jpg": lambda path: upright().convert("CMYK").save(path, quality=95),
    "deep.png": lambda path: Image.fromarray(np.asarray(upright()).astype(np.uint16) * 257).save(path),
    "clear.png": lambda path: upright().convert("LA").save(path),
    "huge.png": lambda path: upright().resize((3200, 4800), Image.Resampling.NEAREST).save(path),
}


@pytest.mark.parametrize("name", SAVERS)
def test_pictures_as_our_reader_sees_them(name, tmp_path, database):
    path = tmp_path / name
    SAVERS[name](path)
    pixels = read_image(path)
    image = TaggedImage("x", path, (pixels.shape[1], pixels.shape[0]), ("cat",))
    looker = Looker([image], LookCache(database, []), look_of)
    client = client_of(Desk(Dataset(("cat",), (image,)), Store(database), looker, title=""))
    answer = client.get("pictures/0")
    assert answer.headers["content-type"] == "image/jpeg"
    shown = Image.open(io.BytesIO(answer.content))
    assert (shown.format, shown.mode) == ("JPEG", "RGB")
    assert max(shown.size) == min(LONGEST, max(image.size))
    assert shown.getexif().get(0x0112) is None
    seen = np.asarray(shown.resize((40, 60)).convert("L")).astype(int)
    assert np.abs(seen[5:25, 5:15] - 255).max() < 12
    assert seen[35:, :].max() < 12
    assert seen[:, 25:].max() < 12
    assert client.get("api/images/0").json()["size"] == list(image.size)  # boxes are in the picture's own pixels


def test_a_picture_that_has_gone(client, dataset):
    dataset[2].path.unlink()
    answer = client.get("pictures/2")
    assert answer.status_code == 422
    assert "no such file" in answer.json()["error"]


# Decisions.


def test_the_order_and_how_far_it_is(client):
    state = client.get("api/state").json()
    assert state["order"] == [1, 3, 2, 0]
    assert (state["done"], state["total"], state["ready"], state["images"]) == ([], 4, 4, 4)
    assert (state["can_undo"], state["can_redo"], state["seconds_left"], state["trouble"]) == (False, False, None, None)
    assert decide(client, 1, 0).json()["state"]["done"] == []
    assert decide(client, 1, 2, "rejected", []).json()["state"]["done"] == [1]
    assert decide(client, 0, 0, "open").json()["state"]["done"] == [1]


def test_so_many_in_all(make_desk):
    desk = make_desk(most=2)
    assert desk.state()["order"] == [1, 3]
    assert desk.state()["total"] == 2
    client = client_of(desk)
    decide(client, 0, 0)
    state = desk.state()
    assert (state["order"], state["done"], state["total"]) == ([1, 0], [0], 2)


def test_a_decision_is_back_where_it_was_made(client, dataset, tmp_path):
    assert decide(client, 1, 0, boxes=[BOX, [0, 0, 200, 100]]).status_code == 200
    assert decide(client, 1, 2, "rejected", [BOX]).status_code == 200
    assert decide(client, 3, 0, "open").status_code == 200
    first, second = client.get("api/images/1").json()["classes"]
    assert first["decision"] == {"status": "accepted", "boxes": [BOX, [0, 0, 200, 100]], "version": 1}
    assert second["decision"] == {"status": "rejected", "boxes": [], "version": 2}
    exported = client.get("api/boxes.json")
    assert exported.headers["content-disposition"] == 'attachment; filename="boxes.json"'
    assert json.loads(exported.content)["format"] == FORMAT
    (tmp_path / "boxes.json").write_bytes(exported.content)
    known = read_known(tmp_path / "boxes.json", dataset)
    assert known == {dataset[1].id: {"cat": [tuple(BOX), (0, 0, 200, 100)], "owl": []}}


def test_some_pictures_alone(dataset, database, store):
    """What was decided on the others is neither shown nor lost, and cannot be undone from here."""
    store.decide(dataset[0].id, "cat", "rejected", [], 0)
    some = [image for image in dataset if "owl" in image.tags]
    desk = Desk(dataset, store, Looker(some, LookCache(database, ["test"]), look_of), title="test")
    desk.looker._run()
    state = desk.state()
    assert (state["order"], state["total"], state["images"], state["can_undo"]) == ([0, 1], 2, 2, False)
    desk.decide(1, CLASSES.index("owl"), "rejected", [], 0)
    assert desk.state()["can_undo"]
    assert desk.known() == {dataset[0].id: {"cat": []}, some[1].id: {"owl": []}}


def test_a_class_without_a_tag_can_be_added(client):
    assert decide(client, 0, 2).status_code == 200
    added = client.get("api/images/0").json()["classes"][1]
    assert (added["number"], added["tagged"], added["look"]) == (2, False, None)


def test_undo_says_where(client):
    decide(client, 1, 0)
    decide(client, 3, 2, "rejected", [])
    undone = client.post("api/undo", json={"based_on": version(client)}).json()
    assert undone["changed"] == {"image": 3, "class": 2}
    assert undone["state"]["can_redo"]
    redone = client.post("api/redo", json={"based_on": version(client)}).json()
    assert redone["changed"] == {"image": 3, "class": 2}
    assert client.post("api/redo", json={"based_on": version(client)}).json()["changed"] is None


def test_two_tabs(client, make_desk):
    other = client_of(make_desk())  # of a second server, even
    assert decide(client, 1, 0).status_code == 200
    refused = decide(other, 1, 0, "rejected", [])
    assert refused.status_code == 409
    assert "elsewhere" in refused.json()["error"]
    assert other.post("api/undo", json={"based_on": 0}).status_code == 409
    assert decide(other, 1, 2).status_code == 200
    assert [one["decision"]["status"] for one in client.get("api/images/1").json()["classes"]] == ["accepted"] * 2


@pytest.mark.parametrize(
    "body",
    [
        {"status": "accepted", "boxes": [], "based_on": 0},
        {"status": "accepted", "boxes": [[0, 0, 201, 50]], "based_on": 0},
        {"status": "accepted", "boxes": [[-1, 0, 20, 50]], "based_on": 0},
        {"status": "accepted", "boxes": [[20, 0, 20.04, 50]], "based_on": 0},
        {"status": "accepted", "boxes": [[50, 0, 20, 50]], "based_on": 0},
        {"status": "accepted", "boxes": [[0, 0, 20]], "based_on": 0},
        {"status": "accepted", "boxes": [["a", 0, 20, 9]], "based_on": 0},
        {"status": "accepted", "boxes": [[None, 0, 20, 9]], "based_on": 0},
        {"status": "accepted", "boxes": [BOX] * (MOST_BOXES + 1), "based_on": 0},
        {"status": "maybe", "boxes": [BOX], "based_on": 0},
        {"status": "accepted", "boxes": [BOX]},
        {"status": "accepted", "boxes": [BOX], "based_on": 0, "more": 1},
        [],
        "x",
    ],
)
def test_bad_decisions_are_refused_in_one_line(client, body):
    answer = client.put("api/images/0/classes/0", json=body)
    assert answer.status_code == 422
    assert "\n" not in answer.json()["error"]
    assert client.get("api/images/0").json()["classes"][0]["decision"] is None


def test_bad_requests_are_refused_in_one_line(client):
    nan = b'{"status": "accepted", "boxes": [[NaN, 0, 9, 9]], "based_on": 0}'
    requests = [
        ("PUT", "api/images/0/classes/0", b"{"),
        ("PUT", "api/images/0/classes/0", b"\xff"),
        ("PUT", "api/images/0/classes/0", nan),
        ("PUT", "api/images/9/classes/0", b"{}"),
        ("PUT", "api/images/0/classes/3", b'{"status": "rejected", "boxes": [], "based_on": 0}'),
        ("PUT", "api/images/0/classes/cat", b"{}"),
        ("POST", "api/undo", b""),
        ("POST", "api/undo", b'{"based_on": "x"}'),
        ("GET", "api/undo", b""),
        ("DELETE", "api/images/0", b""),
        ("GET", "docs", b""),
        ("GET", "openapi.json", b""),
        ("GET", "static/review.js", b""),
    ]
    for method, path, content in requests:
        answer = client.request(method, path, content=content, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 404, 405, 422), (method, path)
        assert "\n" not in answer.json()["error"]


def test_a_disk_that_is_full(client, make_desk, database, monkeypatch):
    import sqlite3

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(database, "change", full)
    answer = decide(client, 0, 0)
    assert (answer.status_code, answer.json()) == (500, {"error": "cannot keep this: database or disk is full"})
    monkeypatch.undo()
    assert decide(client, 0, 0).status_code == 200


def test_trouble_with_the_nets_is_told(make_desk):
    def look(image):
        raise RuntimeError("no memory")

    state = make_desk(look=look).state()
    assert state["trouble"] == "RuntimeError: no memory"
    assert state["order"] == []
