"""Pieces of SVG for a page. Every word that goes in is escaped; colours come from the page's style sheet."""

from collections.abc import Iterable, Sequence
from html import escape

Points = Sequence[tuple[float, float]]


def drawing(width: float, height: float, parts: Iterable[str], *, kind: str, words: str) -> str:
    """A picture with words for who cannot see it; the style sheet knows its own width as --natural."""
    return (
        f'<svg class="{escape(kind)}" viewBox="0 0 {width:.1f} {height:.1f}" style="--natural:{width:.0f}px" '
        f'role="img" aria-label="{escape(words)}">{"".join(parts)}</svg>'
    )


def text(x: float, y: float, words: str, *, kind: str = "", anchor: str = "start", more: str = "") -> str:
    """Words on one line; `more` are further attributes of ours, which are not escaped."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}"{_kind(kind)} text-anchor="{escape(anchor)}"{_more(more)}>{escape(words)}</text>'
    )


def rectangle(
    x: float, y: float, width: float, height: float, *, kind: str = "", title: str = "", more: str = ""
) -> str:
    """A rectangle; the title shows where a pointer rests on it."""
    inner = f"<title>{escape(title)}</title>" if title else ""
    sides = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f"<rect {sides}{_kind(kind)}{_more(more)}>{inner}</rect>"


def line(x0: float, y0: float, x1: float, y1: float, *, kind: str = "") -> str:
    """A straight line."""
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"{_kind(kind)}/>'


def path(points: Points, *, kind: str = "", more: str = "", closed: bool = False) -> str:
    """A line through points, or an area within them."""
    through = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{through}{"Z" if closed else ""}"{_kind(kind)}{_more(more)}/>' if points else ""


def dots(points: Points, radius: float, *, kind: str = "", title: str = "", more: str = "") -> str:
    """A dot at each point; the title shows where a pointer rests on it."""
    end = f"><title>{escape(title)}</title></circle>" if title else "/>"
    return "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"{_kind(kind)}{_more(more)}{end}' for x, y in points
    )


def _kind(kind: str) -> str:
    return f' class="{escape(kind)}"' if kind else ""


def _more(more: str) -> str:
    return f" {more}" if more else ""
