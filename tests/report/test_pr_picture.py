"""PR_curve.png, with classes of any name."""

import warnings

import numpy as np
import pytest
from matplotlib.axes import Axes

from tag2box.evaluation.plots import plot_pr_curves
from tag2box.evaluation.voc_ap import PrecisionRecall


@pytest.mark.parametrize(
    ("name", "title"),
    [("Käfer", "Käfer"), ("two\nlines", "two lines"), ("$a_1$", "$a_1$"), ("\U000f0000", "#1"), ("", "")],
)
def test_a_name_can_be_read(tmp_path, monkeypatch, name, title):
    """No letter becomes an empty box, of which matplotlib would warn, and no name mathematics."""
    titles, original = [], Axes.set_title

    def set_title(self, label, *, parse_math, **more):
        titles.append(label)
        return original(self, label, parse_math=parse_math, **more)

    monkeypatch.setattr(Axes, "set_title", set_title)
    curve = PrecisionRecall(2, np.array([1, 1, 2]), np.array([0.9, 0.8, 0.7]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_pr_curves((name,), (curve,), tmp_path / "a.png")
    assert titles == [f"{title}  83.3"]
