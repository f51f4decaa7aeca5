import pytest
from PIL import Image

from tag2box.errors import InputError
from tag2box.evaluation.ranking import risk_coverage
from tag2box.evaluation.ranking_plot import plot_risk


@pytest.mark.parametrize("wrong", [[True], [False], [True, False] * 20, [False] * 30])
def test_from_one_box_on(tmp_path, wrong):
    curves = {name: risk_coverage(range(len(wrong)), wrong) for name in ("doubt", "confidence", "another's")}
    plot_risk(curves, tmp_path / "risk.png")
    assert Image.open(tmp_path / "risk.png").width > 500


def test_a_format_that_there_is_not(tmp_path):
    with pytest.raises(InputError, match=r"found risk\.xyz"):
        plot_risk({"doubt": risk_coverage([1, 2], [True, False])}, tmp_path / "risk.xyz")
    assert list(tmp_path.iterdir()) == []
