"""results.csv, its table for the terminal and its picture."""

import io
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from tag2box.errors import InputError
from tag2box.report.curves import COLOURS, line_colours, plot_results, spread
from tag2box.report.results import best_row, read_results, results_table, write_results

WARM = [
    {"stage": "wsddn", "map": 38.21, "corloc": 51.0, "seconds": 41.2, "warm_loss": 2.4},
    {"stage": "refined", "map": 47.5, "corloc": 60.2, "seconds": 38.0, "warm_loss": 1.5},
]
ROUNDS = [
    {
        "stage": f"round-{i}",
        "map": 50.0 + i,
        "corloc": 61.0 + i,
        "div_pc": 0.5 / i,
        "div_cc": 0.3 / i,
        "div_pp": 0.4 / i,
    }
    | {"disc": 0.15 / i, "seconds": 2210.0, "prediction_loss": 0.8 / i, "images_per_second": 13.7}
    for i in range(1, 4)
]
ROWS = WARM + ROUNDS


def printed(rows) -> str:
    text = io.StringIO()
    Console(file=text, width=80).print(results_table(rows))
    return text.getvalue()


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def is_drawn(path: Path, colour: tuple[int, int, int]) -> bool:
    return bool((np.abs(pixels(path) - colour).max(axis=-1) <= 2).any())


BLUE, BRICK = (0x2F, 0x6D, 0xB3), (0xB0, 0x41, 0x3E)


def test_results_come_back_as_they_were_written(tmp_path):
    write_results(tmp_path / "results.csv", ROWS)
    header, *lines = (tmp_path / "results.csv").read_text().splitlines()
    assert header.startswith("stage,map,corloc,div_pc,div_cc,div_pp,disc,seconds,")
    assert lines[0].startswith("wsddn,38.21,51,,,,,41.2,2.4")
    back = read_results(tmp_path / "results.csv")
    assert [row["stage"] for row in back] == ["wsddn", "refined", "round-1", "round-2", "round-3"]
    assert back[3]["disc"] == pytest.approx(0.075)
    assert math.isnan(back[0]["disc"])


def test_words_and_gaps_in_a_file_from_elsewhere(tmp_path):
    path = tmp_path / "results.csv"
    path.write_bytes(b"\xef\xbb\xbfstage,map,note\r\nwsddn,nan,first try\r\nrefined\r\n")
    first, second = read_results(path)
    assert first["note"] == "first try"
    assert math.isnan(first["map"])
    assert math.isnan(second["map"])


def test_a_file_that_is_none_is_named(tmp_path):
    with pytest.raises(InputError, match=r"results\.csv"):
        read_results(tmp_path / "results.csv")
    (tmp_path / "results.csv").write_text("round,map\n1,2\n")
    with pytest.raises(InputError, match="column named stage, found round, map"):
        read_results(tmp_path / "results.csv")


def test_table_in_words_within_eighty_columns():
    text = printed(ROWS)
    assert max(map(len, text.splitlines())) <= 80
    for words in ("WSDDN", "refined", "round 3", "mAP", "CorLoc", "DISC", "2,210", "0.0750"):
        assert words in text


def test_table_keeps_brackets_and_leaves_out_what_was_not_measured():
    text = printed([{"stage": "[red]odd[/red]" * 9, "map": math.nan, "seconds": 3.0}])
    assert "[red]" in text
    assert "mAP" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_best_row():
    assert best_row(ROWS) == 4
    assert best_row([{"stage": "round-1", "map": 1.0}, {"stage": "round-2", "map": 1.0}]) == 1  # what was saved last
    assert best_row([{"stage": "round-1", "map": math.nan}]) is None
    assert best_row([]) is None


def test_only_what_is_saved_can_be_best():
    warm = [{"stage": "wsddn", "map": 90.0}, {"stage": "refined", "map": 80.0}]
    assert best_row([*warm, {"stage": "round-1", "map": 40.0}, {"stage": "round-2", "map": 30.0}]) == 2
    assert best_row([*warm, {"stage": "round-1"}]) is None
    assert best_row(warm) is None
    assert best_row([*warm, {"stage": "round-0", "map": 40.0}]) == 2  # a run without rounds
    blind = [{"stage": f"round-{i}", "map": math.nan, "corloc": corloc} for i, corloc in enumerate((60.0, 50.0), 1)]
    assert best_row(blind) == 0


def test_lines_of_a_panel_differ_in_colour():
    losses = ["conditional_loss", "loss_direct", "loss_labels", "loss_mil", "loss_prediction", "prediction_loss"]
    assert len(set(line_colours(losses))) == len(losses)
    assert line_colours(["map", "corloc"]) == ["#2f6db3", COLOURS["corloc"]]


@pytest.mark.parametrize("rows", [ROWS, WARM[:1], ROUNDS[:1], ROUNDS, [{"stage": "wsddn"}], []])
def test_any_rows_make_a_picture(tmp_path, rows):
    plot_results(rows, tmp_path / "results.png")
    assert pixels(tmp_path / "results.png").std() > 1


def test_a_panel_for_what_is_there(tmp_path):
    plot_results(WARM, tmp_path / "warm.png")
    assert is_drawn(tmp_path / "warm.png", BLUE)
    assert not is_drawn(tmp_path / "warm.png", BRICK)
    plot_results(ROWS, tmp_path / "all.png")
    assert is_drawn(tmp_path / "all.png", BRICK)


def test_without_ground_truth_the_picture_says_so(tmp_path):
    """In an SVG the words can be read."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):
        plot_results([{**row, "map": math.nan, "corloc": math.nan} for row in ROWS], tmp_path / "blind.svg")
        plot_results(ROWS, tmp_path / "seeing.svg")
    blind, seeing = ((tmp_path / f"{name}.svg").read_text() for name in ("blind", "seeing"))
    assert "no boxes to compare with" in blind
    assert "Accuracy" not in blind
    assert "no boxes to compare with" not in seeing
    assert "Accuracy" in seeing


def test_losses_below_zero_and_of_every_size(tmp_path):
    rows = [{"stage": f"round-{i}", "conditional_loss": loss, "x_loss": 1e-9} for i, loss in enumerate((-3.0, 1e6), 1)]
    plot_results(rows, tmp_path / "results.png")
    plot_results([{"stage": "wsddn", "loss": 1e3}, {"stage": "refined", "loss": 0.1}], tmp_path / "results.png")
    assert pixels(tmp_path / "results.png").std() > 1


def test_a_picture_that_fails_leaves_the_old_one(tmp_path):
    path = tmp_path / "results.nonsense"
    path.write_text("old")
    with pytest.raises(InputError):
        plot_results(ROWS, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_names_of_lines_are_kept_apart():
    places = spread([0.1, 0.11, 0.12, 0.3, 0.9], apart=0.09)
    assert all(b - a >= 0.09 - 1e-9 for a, b in pairwise(places))
    assert places[-1] == 0.9
    assert sum(places[:3]) / 3 == pytest.approx(0.11)
