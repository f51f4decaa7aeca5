"""Risk–coverage curves as a picture. matplotlib is loaded when drawing; no display needed."""

from collections.abc import Mapping
from pathlib import Path

from tag2box.evaluation.plots import BLUE, GREY, ORANGE, save
from tag2box.evaluation.ranking import RiskCoverage

COLOURS = {
    "doubt": BLUE,
    "distance": "#1c8f9c",
    "total": "#b0413e",
    "dissimilarity": "#8a5fb0",
    "self-diversity": "#3c8d5a",
    "confidence": ORANGE,
}
SETTLED = 0.05
"""The coverage from which a curve is to be seen."""


def plot_risk(curves: Mapping[str, RiskCoverage], path: Path) -> None:
    """The share of wrong boxes among the surest by each score, and by none, against how many are taken."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    some = next(iter(curves.values()))
    everywhere = 100 * float(some.risk[-1])
    axes.axhline(everywhere, color=GREY, linewidth=1, linestyle="--", label=f"no order: {everywhere:.1f}")
    for name, curve in curves.items():
        label = f"{name}: {100 * curve.area:.1f}"
        axes.plot(100 * curve.coverage, 100 * curve.risk, color=COLOURS.get(name, GREY), linewidth=1.8, label=label)
    axes.set(xlim=(0, 100), xlabel="boxes taken, the surest first (per cent)", ylabel="of these wrong (per cent)")
    # A single box is wrong or right, so curves begin at 100 or at 0: that is not what the scale is for.
    settled = [100 * float(curve.risk[curve.coverage >= SETTLED].max()) for curve in curves.values()]
    axes.set_ylim(0, max(1.25 * max(settled), 1))
    axes.set_title(f"Who knows which of {len(some.risk):,} boxes are wrong?", fontsize="medium")
    axes.grid(color="#e4e6ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="best", title="area below (AURC)", alignment="left")
    save(figure, path)
