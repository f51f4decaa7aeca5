"""Pieces of HTML. Every word that goes in is escaped here: names of files and classes can hold anything."""

import base64
import io
import mimetypes
from collections.abc import Collection, Iterable, Sequence
from html import escape
from pathlib import Path

from PIL import Image

HEAVY = 150_000
"""Bytes from which a picture with photographs in it is embedded as JPEG or WebP instead, at a fifth of the size."""
LONG = 18
"""Letters from which a fact has a line to itself."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(title: str, style: str, body: Iterable[str]) -> str:
    """A whole page that asks nothing of the network: its own policy forbids it."""
    return PAGE.format(title=escape(title), style=style, body="\n".join(part for part in body if part))


def header(title: str, of: str, *parts: str) -> str:
    """What the page is about, before its sections: a name, and in a few words what has it."""
    more = f'<p class="of">{escape(of)}</p>' if of else ""
    heading = f'<p class="eyebrow">tag2box run</p>\n<div class="name"><h1>{escape(title)}</h1>{more}</div>'
    return "\n".join(["<header>", heading, *(part for part in parts if part), "</header>"])


def footer(words: str) -> str:
    """The last line."""
    return f"<footer>{escape(words)}</footer>"


def section(title: str, *parts: str) -> str:
    """A heading and what is under it; nothing where there is nothing."""
    inner = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{escape(title)}</h2>\n{inner}\n</section>" if inner else ""


def paragraph(words: str, kind: str = "") -> str:
    """A paragraph, of a kind that the style sheet knows."""
    return f"<p{_kind(kind)}>{escape(words)}</p>" if words else ""


def numbers(pairs: Iterable[tuple[str, str]]) -> str:
    """The few figures that matter, large."""
    inner = [f'<div class="number"><b>{escape(big)}</b><span>{escape(small)}</span></div>' for big, small in pairs]
    return f'<div class="numbers">{"".join(inner)}</div>' if inner else ""


def facts(pairs: Iterable[tuple[str, str]], tags: Sequence[str] = ()) -> str:
    """Names and what they stand for, and the classes, each in a frame of its own."""
    inner = [_fact(name, escape(words), long=len(words) > LONG) for name, words in pairs if words]
    if tags:
        inner.append(_fact("Classes", "".join(map(_framed, tags)), long=True))
    return f"<dl>{''.join(inner)}</dl>" if inner else ""


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    best: int | None = None,
    *,
    bars: Collection[int] = (),
    words: Collection[int] = (0,),
) -> str:
    """Numbers in columns, the best row marked; per cent as bars in some columns, words in others."""
    head = "".join(
        f'<th scope="col"{_kind("words" if i in words else "")}>{escape(h)}</th>' for i, h in enumerate(headings)
    )
    cells = ("".join(_cell(cell, bar=i in bars, words=i in words) for i, cell in enumerate(row)) for row in rows)
    body = "\n".join(f"<tr{_kind('best' if i == best else '')}>{row}</tr>" for i, row in enumerate(cells))
    narrow = _kind("narrow" if len(headings) < 4 else "")
    return (
        f'<div class="wide"><table{narrow}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'
    )


def bars(rows: Iterable[tuple[str, int, str, float]], *, first: str) -> str:
    """Counts with bars: what, how many, in words, and the bar's length in per cent. The first is of its own colour."""
    lines = [
        f'<tr{_kind("first" if name == first else "")}><td class="words">{escape(name)}</td><td>{count:,}</td>'
        f"<td>{escape(share)}</td>"
        f'<td class="bar"><span style="width:{min(max(length, 0), 100):.1f}%"></span></td></tr>'
        for name, count, share, length in rows
    ]
    return f'<div class="wide"><table class="bars"><tbody>{"".join(lines)}</tbody></table></div>' if lines else ""


def heading(title: str) -> str:
    """Of a part of a section."""
    return f"<h3>{escape(title)}</h3>"


def division(kind: str, parts: Iterable[str]) -> str:
    """Parts that the style sheet lays out together."""
    return f"<div{_kind(kind)}>{''.join(parts)}</div>"


def beside(parts: Sequence[str]) -> str:
    """Parts side by side where the page is wide enough."""
    return parts[0] if len(parts) == 1 else division("beside", parts)


def preformatted(text: str) -> str:
    """Text as it stands."""
    return f"<pre>{escape(text)}</pre>" if text.strip() else ""


def folded(summary: str, inner: str) -> str:
    """Something that is there for who wants it."""
    return f"<details><summary>{escape(summary)}</summary>{inner}</details>" if inner else ""


def figure(path: Path, kind: str, words: str, caption: str = "") -> str:
    """A picture inside the page, with words for who cannot see it; nothing where there is no whole picture."""
    source = embed(path, photographic=kind == "sheet")
    if not source:
        return ""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    with Image.open(path) as image:
        kind += " clear" * image.has_transparency_data
    return f'<figure class="{escape(kind)}"><img src="{source}" alt="{escape(words)}">{below}</figure>'


def _fact(name: str, escaped: str, *, long: bool) -> str:
    return f"<div{_kind('long' if long else '')}><dt>{escape(name)}</dt><dd>{escaped}</dd></div>"


def _cell(cell: str, *, bar: bool, words: bool) -> str:
    style = ""
    if bar and cell.replace(".", "", 1).isdecimal():
        style = f' style="--share:{min(float(cell), 100):.1f}%"'
    return f"<td{_kind('share' if style else 'words' if words else '')}{style}>{escape(cell)}</td>"


def _framed(tag: str) -> str:
    return f'<span class="tag">{escape(tag)}</span>'


def embed(path: Path, *, photographic: bool = False) -> str:
    """The picture as a data address, or nothing where it is missing or broken."""
    try:
        with Image.open(path) as image:
            image.load()
            content, mime = path.read_bytes(), Image.MIME.get(image.format or "") or mimetypes.guess_type(path)[0]
            if photographic and len(content) > HEAVY and image.format == "PNG":
                content, mime = _lighter(image)
    except (OSError, SyntaxError, ValueError):  # SyntaxError is Pillow's for a PNG that breaks off
        return ""
    return f"data:{mime};base64,{base64.b64encode(content).decode()}"


def _lighter(image: Image.Image) -> tuple[bytes, str]:
    """As WebP where the ground is clear, which JPEG does not know."""
    buffer = io.BytesIO()
    if image.has_transparency_data:
        image.convert("RGBA").save(buffer, "WEBP", quality=86, method=4)
        return buffer.getvalue(), "image/webp"
    # Colour at full resolution, because of thin lines. Not `optimize`: Pillow's buffer is too small for it at times.
    image.convert("RGB").save(buffer, "JPEG", quality=85, subsampling=0)
    return buffer.getvalue(), "image/jpeg"


def _kind(kind: str) -> str:
    return f' class="{escape(kind)}"' if kind else ""
