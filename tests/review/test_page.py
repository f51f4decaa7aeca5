"""The page in a real browser: Debian's Chromium, driven by Playwright."""

import json
import shutil
import socket
import threading

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("playwright.sync_api")
import uvicorn
from playwright.sync_api import expect, sync_playwright

from tag2box.report.colours import contrast
from tag2box.review.server import make_app

from .conftest import FOLLOWING, NAMES, look_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")]
NASTY = 'it\'s "q" <img src=x onerror=alert(1)>'
"""The most uncertain picture, number 1: it has a cat and an owl."""


class Served:
    """A server in a thread, which can be stopped and started at the same address."""

    def __init__(self, desk):
        self.desk, self.port = desk, 0
        self.start()

    def start(self):
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        settings = uvicorn.Config(make_app(self.desk, "token"), log_level="error", lifespan="off")
        self.server = uvicorn.Server(settings)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]}, daemon=True)
        self.thread.start()

    def stop(self):
        self.server.should_exit = self.server.force_exit = True
        self.thread.join(10)

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/token/"

    def known(self):
        return self.desk.known()


@pytest.fixture
def serve(make_desk):
    """`serve(by="distance")`: another review than `served`."""
    made = []

    def make(**how):
        made.append(Served(make_desk(**how)))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def served(serve):
    return serve()


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser, served):
    """`open_page(width=1280, height=800)` → the page with its first picture; complaints of the browser are errors."""
    contexts, complaints = [], []

    def make(width=1280, height=800, *, at=served, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(5000)
        contexts.append(context)
        page = context.new_page()
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda one: complaints.append(one.text) if one.type == "error" else None)
        page.goto(at.address)
        ready(page)
        return page

    make.complaints = complaints
    yield make
    for context in contexts:
        context.close()
    assert complaints == []


def ready(page):
    page.wait_for_selector('#stage[aria-busy="false"] #frame')


def shows(page, number):
    expect(page.locator("#picture")).to_have_attribute("src", f"pictures/{number}")


def sides(page, index=0):
    """The box on the screen, in pixels of the picture."""
    box, frame = page.locator(".box").nth(index).bounding_box(), page.locator("#frame").bounding_box()
    scale = 200 / frame["width"]
    x0, y0 = (box["x"] - frame["x"]) * scale, (box["y"] - frame["y"]) * scale
    return [x0, y0, x0 + box["width"] * scale, y0 + box["height"] * scale]


def drag(page, start, end, **how):
    """By the mouse, in pixels of the picture."""
    frame = page.locator("#frame").bounding_box()
    scale = frame["width"] / 200
    (x0, y0), (x1, y1) = ((frame["x"] + x * scale, frame["y"] + y * scale) for x, y in (start, end))
    page.mouse.move(x0, y0)
    page.mouse.down()
    page.mouse.move((x0 + x1) / 2, (y0 + y1) / 2)
    page.mouse.move(x1, y1)
    page.mouse.up()


def saved(page, action):
    """Do something that is kept, and wait until it is."""
    with page.expect_response(lambda answer: answer.request.method in ("PUT", "POST")) as answer:
        action()
    assert answer.value.ok, answer.value.text()
    page.wait_for_selector('#stage[aria-busy="false"]')


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def test_load_accept_reject_reload(open_page, served):
    page = open_page()
    shows(page, 1)
    assert page.locator("#name").text_content() == NASTY  # as text, and nothing has come of its markup
    assert page.locator("main img").count() == 1
    assert sides(page) == pytest.approx([20, 10, 80, 60], abs=0.6)
    assert page.locator(".sample").count() == 2
    assert page.locator(".predicted").count() == 1  # the other one is the box itself
    assert page.locator("#progress").text_content() == "0 of 4"

    saved(page, page.locator("#accept").click)
    assert page.locator(".chip.accepted").text_content() == "cat✓ 1 box"
    assert page.locator('.chip[aria-pressed="true"]').text_content() == "owl"
    saved(page, page.locator("#reject").click)
    shows(page, 3)
    assert page.locator("#progress").text_content().startswith("1 of 4")
    assert served.known() == {NASTY: {"cat": [(20, 10, 80, 60)], "owl": []}}

    page.reload()
    ready(page)
    shows(page, 3)
    press(page, "n")
    shows(page, 2)
    page.goto(f"{served.address}#1")
    page.reload()
    ready(page)
    shows(page, 1)
    assert page.locator(".chip").all_text_contents() == ["cat✓ 1 box", "owlnot there"]


def test_correct_draw_delete_undo_reload(open_page, served):
    page = open_page()
    saved(page, lambda: drag(page, (50, 35), (70, 45)))  # move
    assert sides(page) == pytest.approx([40, 20, 100, 70], abs=0.6)
    saved(page, lambda: drag(page, (100, 70), (110, 90)))  # its corner
    assert sides(page) == pytest.approx([40, 20, 110, 90], abs=0.6)
    saved(page, lambda: drag(page, (40, 55), (25, 55)))  # its left side
    assert sides(page) == pytest.approx([25, 20, 110, 90], abs=0.6)
    saved(page, lambda: drag(page, (190, 90), (150, 50)))  # a new one, from below
    assert page.locator(".box").count() == 2
    assert sides(page, 1) == pytest.approx([150, 50, 190, 90], abs=0.6)
    assert page.locator("#accept").text_content().startswith("Accept 2 boxes")
    saved(page, lambda: drag(page, (170, 70), (400, 300)))  # never beyond the picture
    assert sides(page, 1) == pytest.approx([160, 60, 200, 100], abs=0.6)
    assert served.known() == {}  # nothing is decided yet, and all of it is kept
    saved(page, lambda: press(page, "a"))
    cat = served.known()[NASTY]["cat"]
    assert cat[0] == pytest.approx((25, 20, 110, 90), abs=0.6)
    assert cat[1] == pytest.approx((160, 60, 200, 100), abs=0.6)

    page.reload()
    ready(page)
    shows(page, 1)
    saved(page, lambda: press(page, "u"))  # the acceptance, before the reload
    assert served.known() == {}
    saved(page, lambda: press(page, "Control+z"))
    assert sides(page, 1) == pytest.approx([150, 50, 190, 90], abs=0.6)
    saved(page, page.locator("#undo").click)
    assert page.locator(".box").count() == 1
    saved(page, lambda: press(page, "Shift+U"))
    saved(page, lambda: press(page, "Control+y"))
    saved(page, page.locator("#redo").click)
    expect(page.locator("#redo")).to_be_disabled()
    assert len(served.known()[NASTY]["cat"]) == 2

    drag(page, (170, 70), (170, 70))  # a click chooses
    expect(page.locator(".box").nth(1)).to_have_class("box chosen")
    saved(page, page.locator("#delete").click)
    assert len(served.known()[NASTY]["cat"]) == 1  # an accepted class stays accepted
    saved(page, page.locator("#delete").click)
    assert served.known() == {}  # without a box it is open again
    expect(page.locator("#accept")).to_be_disabled()
    press(page, "a")
    expect(page.locator("#toast")).to_contain_text("No box to accept")


def test_a_box_in_a_box_and_the_other_nets(open_page, served):
    page = open_page()
    page.keyboard.down("Shift")
    saved(page, lambda: drag(page, (40, 25), (60, 45)))
    page.keyboard.up("Shift")
    assert sides(page, 1) == pytest.approx([40, 25, 60, 45], abs=0.6)
    page.locator("#draw").click()
    saved(page, lambda: drag(page, (30, 20), (70, 50)))
    assert page.locator(".box").count() == 3
    drag(page, (150, 80), (150.5, 80.2))  # too small: a click
    assert page.locator(".box").count() == 3
    saved(page, lambda: press(page, "t"))
    assert page.locator(".box").count() == 1
    saved(page, lambda: press(page, "t"))
    assert sides(page) == pytest.approx([20, 10, 90, 70], abs=0.6)
    press(page, "h")
    assert page.locator("#layers div").count() == 0
    press(page, "1")
    assert page.locator(".predicted").count() == 2
    page.mouse.move(500, 400)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    assert page.evaluate("document.getElementById('stage').scrollWidth") > 1500
    saved(page, lambda: drag(page, (78, 45), (88, 50)))  # enlarged, boxes still go where the mouse goes
    assert sides(page) == pytest.approx([30, 15, 100, 75], abs=0.6)


def test_with_the_keyboard_alone(open_page, served):
    page = open_page()
    press(page, "Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("cat, box 1 of 1: 60 by 50")
    press(page, "ArrowRight", "ArrowRight", "ArrowDown")
    saved(page, lambda: press(page, "Shift+ArrowLeft", "Shift+ArrowUp"))
    assert sides(page) == pytest.approx([22, 11, 81, 60], abs=0.6)
    saved(page, lambda: press(page, "b"))
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("cat, box 2 of 2")
    press(page, "ArrowUp", "ArrowUp")  # not waited for: accepting saves it first
    saved(page, lambda: press(page, "Enter"))
    assert served.known()[NASTY]["cat"][0] == (22, 11, 81, 60)
    assert len(served.known()[NASTY]["cat"]) == 2
    assert page.locator('.chip[aria-pressed="true"]').text_content() == "owl"
    press(page, "c", "c", "Shift+C")
    assert page.locator('.chip[aria-pressed="true"] b').text_content() == "cat"
    press(page, "Tab", "Tab", "Shift+Tab")
    saved(page, lambda: press(page, "Delete"))
    assert len(served.known()[NASTY]["cat"]) == 1
    press(page, "?")
    expect(page.locator("#keys")).to_be_visible()
    press(page, "r")  # does nothing behind the list
    press(page, "Enter")
    expect(page.locator("#keys")).to_be_hidden()
    press(page, "c")
    saved(page, lambda: press(page, "r"))
    shows(page, 3)
    press(page, "n")
    shows(page, 2)
    press(page, "p")
    shows(page, 3)
    press(page, "p")
    shows(page, 1)
    assert served.known()[NASTY]["owl"] == []
    for _ in range(40):  # everything else is reached by Tab
        press(page, "Tab")
        if page.evaluate("document.activeElement.id") == "accept":
            break
    press(page, "Enter")
    shows(page, 3)


def test_a_class_without_a_tag(open_page, served):
    page = open_page()
    page.locator("#more select").select_option("dög <b>'s")
    assert page.locator('.chip[aria-pressed="true"]').text_content() == "dög <b>'sno tag"
    saved(page, lambda: drag(page, (10, 10), (60, 60)))
    saved(page, lambda: press(page, "a"))
    assert list(served.known()[NASTY]) == ["dög <b>'s"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(open_page, served, scheme):
    for number in range(7):  # enough to say how long the rest will take
        served.desk.store.decide("elsewhere", f"class {number}", "rejected", [], 0)
    page = open_page(390, 844, has_touch=True, is_mobile=True, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    for button in page.locator("button:visible, a:visible").all():
        box = button.bounding_box()
        assert box["height"] >= 43.5
        assert box["width"] >= 43.5
        assert box["x"] + box["width"] <= 390
        assert box["y"] + box["height"] <= 844
    assert page.locator("#frame").bounding_box()["width"] > 350
    assert page.locator("#progress").inner_text() == "0 of 4 · 1 min"

    finger = page.context.new_cdp_session(page)

    def touch(kind, *points):
        places = [{"x": x, "y": y, "id": id} for id, (x, y) in enumerate(points)]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

    def swipe(start, end):
        frame = page.locator("#frame").bounding_box()
        (x0, y0), (x1, y1) = (
            (frame["x"] + x * frame["width"] / 200, frame["y"] + y * frame["width"] / 200) for x, y in (start, end)
        )
        touch("touchStart", (x0, y0))
        # It comes to rest: else Chromium takes it for a throw, and the next tap for a hand that stops the motion.
        for share in (0.5, 1, 1, 1, 1, 1):
            touch("touchMove", (x0 + share * (x1 - x0), y0 + share * (y1 - y0)))
            page.wait_for_timeout(40)
        touch("touchEnd")

    saved(page, lambda: swipe((50, 35), (60, 40)))
    assert sides(page) == pytest.approx([30, 15, 90, 65], abs=1)
    saved(page, lambda: swipe((95, 70), (100, 90)))  # a finger need not be exact
    assert sides(page) == pytest.approx([30, 15, 95, 85], abs=1)
    saved(page, lambda: swipe((130, 20), (180, 60)))
    assert page.locator(".box").count() == 2
    saved(page, page.locator("#accept").tap)
    saved(page, page.locator("#reject").tap)
    shows(page, 3)
    assert len(served.known()[NASTY]["cat"]) == 2
    saved(page, page.locator("#undo").tap)
    shows(page, 1)

    boxes = page.locator(".box").count()
    touch("touchStart", (180, 300))
    touch("touchStart", (180, 300), (220, 300))
    for apart in (30, 40, 60):
        touch("touchMove", (200 - apart, 300), (200 + apart, 300))
        page.wait_for_timeout(30)
    touch("touchEnd")
    assert page.locator("#frame").bounding_box()["width"] > 900  # two fingers enlarge, and draw nothing
    assert page.locator(".box").count() == boxes


def test_two_tabs_lose_nothing(open_page, served):
    one, other = open_page(), open_page()
    saved(one, lambda: press(one, "a"))
    press(other, "r")
    expect(other.locator("#toast")).to_contain_text("another tab")
    expect(other.locator(".chip.accepted")).to_have_count(1)
    assert list(served.known()[NASTY]) == ["cat"]
    saved(other, lambda: press(other, "c", "a"))
    assert list(served.known()[NASTY]) == ["cat", "owl"]
    press(one, "u")
    expect(one.locator("#toast")).to_contain_text("undo again if you mean it")
    assert list(served.known()[NASTY]) == ["cat", "owl"]
    assert "409" in open_page.complaints.pop()
    assert "409" in open_page.complaints.pop()


def test_a_server_that_has_gone(open_page, served):
    page = open_page()
    served.stop()
    press(page, "a")
    expect(page.locator("#toast")).to_contain_text("Not saved")
    shows(page, 1)  # nobody is led on
    assert page.locator(".chip.accepted").count() == 0
    served.start()
    saved(page, lambda: press(page, "a"))
    assert list(served.known()[NASTY]) == ["cat"]
    served.stop()
    press(page, "c", "Tab", "ArrowDown")  # a box is moved, and nobody there to keep it
    expect(page.locator("#toast")).to_contain_text("Not saved")
    press(page, "n")
    page.wait_for_selector('#stage[aria-busy="false"]')
    shows(page, 1)
    served.start()
    press(page, "n")
    shows(page, 3)
    assert served.known()[NASTY]["cat"] == [(20, 11, 80, 61)]
    while open_page.complaints:
        assert "ERR_CONNECTION" in open_page.complaints.pop()


def test_the_first_picture_comes_when_it_is_ready(make_desk, browser):
    gate = threading.Event()

    def look(image):
        gate.wait(10)
        return look_of(image)

    served = Served(make_desk(look=look, wait=False))
    page = browser.new_page()
    page.goto(served.address)
    expect(page.locator("#words")).to_have_text("The nets are looking at the first picture …")
    expect(page.locator("#panel")).to_be_hidden()
    gate.set()
    expect(page.locator("#panel")).to_be_visible()
    shows(page, 1)
    page.close()
    served.stop()


def test_to_the_end_and_away_with_it(open_page, served):
    page = open_page()
    for number in (3, 2, 0, 1, 3):  # what is skipped comes again
        press(page, "n")
        shows(page, number)
    for number in (1, 0):
        press(page, "p")
        shows(page, number)
    for _ in range(6):
        saved(page, lambda: press(page, "a"))
    expect(page.locator("#words")).to_have_text("All 4 pictures are reviewed. Thank you.")
    assert page.locator("#progress").text_content() == "4 of 4"
    with page.expect_download() as download:
        page.locator("#choices a").click()
    assert download.value.suggested_filename == "boxes.json"
    assert list(json.loads(download.value.path().read_text("utf-8"))["images"]) == list(NAMES)
    saved(page, lambda: press(page, "u"))
    ready(page)
    saved(page, lambda: press(page, "Shift+U"))
    page.reload()
    ready(page)
    press(page, "n")
    page.locator("#again").click()
    shows(page, 1)


def open_at(page, number):
    page.evaluate(f"location.hash = '{number}'")
    page.reload()
    ready(page)
    shows(page, number)


def test_a_picture_opens_at_the_class_that_it_was_chosen_for(open_page, served):
    """And goes on with the next most doubtful one, whatever the data set's order is."""
    page = open_page()
    current = page.locator('.chip[aria-pressed="true"] b')
    open_at(page, 3)
    assert page.locator(".chip b").all_text_contents() == ["owl", "cat"]
    expect(current).to_have_text("owl")
    press(page, "c")
    expect(current).to_have_text("cat")
    saved(page, lambda: press(page, "a"))
    expect(current).to_have_text("owl")  # what was passed over comes again
    open_at(page, 3)
    expect(current).to_have_text("owl")
    saved(page, lambda: press(page, "a"))
    saved(page, lambda: press(page, "u"))
    shows(page, 3)
    expect(current).to_have_text("owl")


def test_what_pictures_are_ordered_by_is_shown_first(open_page, serve):
    page = open_page()
    assert page.locator("#facts > div").all_text_contents() == [
        "doubt0.40", "confidence0.50", "distance0.60", "self-diversity0.20"
    ]  # fmt: skip
    assert page.locator("#rank").inner_text() == "the most uncertain of 4 by doubt"
    press(page, "n")
    shows(page, 3)
    assert page.locator("#rank").inner_text() == "2nd most uncertain of 4 by doubt"
    page = open_page(at=serve(by="dissimilarity"))
    rows = page.locator("#facts > div").all_text_contents()
    assert [row[:-4] for row in rows] == ["dissimilarity", "doubt", "confidence", "distance"]
    assert page.locator("#rank").inner_text().endswith("by dissimilarity")


def test_the_end_says_what_to_type(open_page, served):
    page = open_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for _ in range(6):
        saved(page, lambda: press(page, "a"))
    assert page.locator("#steps code").all_text_contents() == [step.command for step in FOLLOWING]
    assert page.locator("#note b").count() == 0  # what is in a name stays a name
    expect(page.locator("#steps button").first).to_be_focused()
    press(page, "Enter")
    expect(page.locator("#steps button").first).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == FOLLOWING[0].command
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed')) }")
    page.locator("#steps button").nth(1).click()
    expect(page.locator("#toast")).to_contain_text("Ctrl C")
    assert page.evaluate("String(getSelection())").split() == FOLLOWING[1].command.split()
    for width, height in ((390, 844), (844, 390)):
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate("document.getElementById('stage').scrollWidth") <= width


def test_where_nothing_is_decided_there_is_nothing_to_learn_from(open_page, serve):
    page = open_page(at=serve(most=1))
    press(page, "n")
    expect(page.locator("#words")).to_have_text("1 picture left to decide.")
    expect(page.locator("#following")).to_be_hidden()
    expect(page.locator("#again")).to_be_focused()
    press(page, "Enter")
    shows(page, 1)


def colours(page, selector):
    """Ink and ground of what is seen, as `contrast` takes them."""
    asked = "one => [getComputedStyle(one).color, getComputedStyle(one).backgroundColor]"
    return page.locator(selector).first.evaluate(asked)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_actions_have_a_colour_of_their_own(open_page, served, scheme):
    page = open_page(color_scheme=scheme)
    seen = set()
    for _ in range(2):
        ink, ground = colours(page, "#accept")
        assert contrast(ink, ground) > 4.5
        seen |= {ground, colours(page, "#bar div")[1]}
        press(page, "c")
    ink, ground = colours(page, "body")
    assert contrast(ink, ground) > 7
    assert contrast(page.locator("#rank").evaluate("one => getComputedStyle(one).color"), ground) > 4.5
    press(page, "?")
    seen.add(colours(page, "#close")[1])
    assert len(seen) == 1


def test_the_picture_is_seen_through_its_samples(open_page):
    """Five samples of a small box are a heat; of all the picture they are outlines."""
    page = open_page()
    asked = "([box, count]) => import('./scores.js').then(({ depthOf }) => depthOf(box, [200, 100], count))"

    def together(box, count=5):
        return 1 - (1 - page.evaluate(asked, [box, count]) / 100) ** count

    small, half, nearly, whole = (together([0, 0, side, side / 2]) for side in (20, 141.4, 188, 200))
    assert small > 0.3
    assert 0.05 < half < 0.16
    assert nearly < 0.01
    assert whole == 0
    assert together([0, 0, 20, 10], 1) == pytest.approx(small)  # however many they are
    alpha = "one => Number(getComputedStyle(one).backgroundColor.match(/[/,] ?([0-9.]+)\\)$/)[1])"
    drawn = page.locator(".sample").first.evaluate(alpha)
    assert drawn == pytest.approx(page.evaluate(asked, [[20, 10, 90, 70], 2]) / 100, abs=0.01)


def test_the_toast_goes_with_the_next_action(open_page):
    page = open_page()
    shown = page.locator("#toast.shown")
    saved(page, lambda: press(page, "d"))
    for go_on in (lambda: press(page, "c", "c"), lambda: page.locator("#show-samples").click()):
        press(page, "a")
        expect(shown).to_contain_text("No box to accept")
        press(page, "Shift")  # half a key
        expect(shown).to_have_count(1)
        go_on()
        expect(shown).to_have_count(0, timeout=1000)


def apart(*boxes):
    for number, one in enumerate(boxes):
        for other in boxes[:number]:
            beside = one["x"] + one["width"] <= other["x"] + 0.5 or other["x"] + other["width"] <= one["x"] + 0.5
            above = one["y"] + one["height"] <= other["y"] + 0.5 or other["y"] + other["height"] <= one["y"] + 0.5
            assert beside or above, (one, other)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("box", [[0, 0, 200, 100], [0, 0, 90, 60], [110, 40, 200, 100], [60, 20, 150, 90]])
def test_tags_do_not_hide_each_other(open_page, served, box, width):
    for name in ("cat", "dög <b>'s"):
        served.desk.store.decide(NASTY, name, "accepted", [box], 0)
    served.desk.store.decide(NASTY, "owl", "open", [box], 0)
    page = open_page(width)
    assert page.locator('.chip[aria-pressed="true"] b').text_content() == "owl"
    tags = [one.bounding_box() for one in page.locator(".other > span, .box .tag").all()]
    assert len(tags) == 3
    apart(*tags)
    frame = page.locator("#frame").bounding_box()
    for tag in tags:
        assert tag["x"] >= frame["x"] - 1
        assert tag["x"] + tag["width"] <= frame["x"] + frame["width"] + 1
        assert tag["y"] >= frame["y"] - 13
        assert tag["y"] + tag["height"] <= frame["y"] + frame["height"] + 1


def test_a_phone_has_no_keys_and_a_keyboard_no_fingers(open_page):
    for page, seen, unseen in (
        (open_page(390, 844, has_touch=True, is_mobile=True), "touched", "typed"),
        (open_page(), "typed", "touched"),
    ):
        page.locator("#help").click()
        expect(page.locator(f"dl.{seen}")).to_be_visible()
        expect(page.locator(f"dl.{unseen}")).to_be_hidden()
        expect(page.locator(f"h2 .{seen}")).to_be_visible()


@pytest.mark.parametrize(
    ("width", "height"),
    [(300, 640), (360, 740), (390, 844), (844, 390), (667, 375), (768, 1024), (1366, 625), (1280, 740)],
)
def test_all_of_it_on_a_small_screen(open_page, served, width, height):
    """Which picture, why it is shown, its classes and every button, though the classes do not all fit in."""
    served.desk.store.decide(NASTY, "cat", "accepted", [[1, 1, 50, 50], [50, 50, 90, 90]], 0)
    served.desk.store.decide(NASTY, "owl", "open", [[n, n, n + 9, n + 9] for n in range(12)], 0)
    page = open_page(width, height, has_touch=width < 1000, is_mobile=width < 1000)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    seen = page.locator(
        "#name, #rank, #facts > div:first-child dt, #more, #tools button, #actions button, header button"
    )
    for one in seen.all():
        box = one.bounding_box()
        assert box["x"] >= 0
        assert box["y"] >= 0
        assert box["x"] + box["width"] <= width + 0.5
        assert box["y"] + box["height"] <= height + 0.5
    for one in page.locator("#tools button, #actions button").all():
        assert one.evaluate("one => one.scrollWidth <= one.clientWidth + 1"), one.text_content()
    more = page.locator("#more").bounding_box()
    middle = [more["x"] + more["width"] / 2, more["y"] + more["height"] / 2]
    assert page.evaluate("([x, y]) => document.elementFromPoint(x, y).closest('#more') !== null", middle)
    press(page, "c")
    assert page.locator("#accept span").bounding_box()["height"] < 24  # in one line
    apart(*(one.bounding_box() for one in page.locator("#panel > *:visible").all()))
