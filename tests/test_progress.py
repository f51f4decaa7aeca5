from types import SimpleNamespace

import pytest

from tag2box import progress as module
from tag2box.progress import progress


@pytest.fixture
def watch(monkeypatch):
    """`watch()`: somebody looks at a terminal of 120 columns, and two seconds pass with every glance at the clock."""

    def watch():
        clock = iter(range(0, 10_000, 2))
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)  # pytest's own changes from fixture to test
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setenv("TERM", "xterm-256color")

    return watch


def test_silent_where_nobody_watches(capsys):
    with progress("working", 3) as count_one:
        for _ in range(3):
            count_one()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("rank", "lines"), [("0", 2), ("1", 0)])
def test_a_line_a_minute_in_a_log(monkeypatch, capsys, rank, lines):
    """By the first process, where there are several."""
    clock = iter(range(0, 10_000, 25))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setenv("RANK", rank)
    with progress("working", 1200, done=1000) as count_one:
        for _ in range(6):
            count_one()
    out, err = capsys.readouterr()
    assert out == ""
    wanted = ["working: 1,003 of 1,200 images; 75 s", "working: 1,006 of 1,200 images; 150 s"]
    assert err.splitlines() == wanted[:lines]


def test_silent_for_what_is_over_in_a_moment(watch, monkeypatch, capsys):
    watch()
    monkeypatch.setattr(module, "PATIENCE_S", 1e9)
    with progress("working", 3) as count_one:
        for _ in range(3):
            count_one()
    assert capsys.readouterr() == ("", "")


def test_rate_and_count_on_standard_error(watch, capsys):
    watch()
    with progress("working", 10, done=4) as count_one:
        for _ in range(3):
            count_one()
    out, err = capsys.readouterr()
    assert out == ""
    assert "working" in err
    assert "7/10" in err  # the four of an earlier run count as done
    assert "0.5 images/s" in err  # but not as fast: one in two seconds


def test_other_units(watch, capsys):
    watch()
    with progress("training", 10, unit="steps") as count_one:
        for _ in range(3):
            count_one()
    assert "0.5 steps/s" in capsys.readouterr().err


def test_the_bar_is_put_away_after_an_error(watch, capsys):
    watch()

    def fail():
        with progress("working", 3) as count_one:
            count_one()
            count_one()
            raise ValueError("reason")

    with pytest.raises(ValueError, match="reason"):
        fail()
    assert capsys.readouterr().err.endswith("\x1b[?25h")  # the cursor is back


def test_nothing_to_do(watch, capsys):
    watch()
    with progress("working", 0):
        pass
    assert capsys.readouterr() == ("", "")
