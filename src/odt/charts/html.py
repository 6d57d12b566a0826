"""HTML of objects in notebooks: text, tables and pictures.

All text is escaped, pictures are `img` elements, in which scripts do not run, and styles are those
of elements: nothing changes the rest of the notebook, and nothing is lost where it is sanitized.
"""

import base64
import re
from collections.abc import Collection, Sequence
from html import escape

HEAT = "31,111,180"  # red, green and blue of the cells of a matrix
OPACITY = 0.7  # of the color of a cell that has all of its row
PADDING = "padding:2px 8px"  # of a cell
CHART_WIDTH = "440px"
MAX_HEIGHT = "30em"  # of a block, whose rest is scrolled to
INVALID = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # in XML


def valid_xml(text: str) -> str:
    """Replaces the characters that XML does not have, for which browsers show no picture."""
    return INVALID.sub("\ufffd", text)


def image(svg: str, alt: str, width: str = "auto") -> str:
    """Returns a picture.

    Args:
        svg: content of an SVG file.
        alt: text for readers who do not see the picture.
        width: its width as in CSS.
    """
    content = base64.b64encode(valid_xml(svg).encode()).decode()
    source = f"data:image/svg+xml;base64,{content}"
    style = f"width:{width};max-width:100%"
    return f'<img alt="{escape(alt)}" src="{source}" style="{style}"/>'


def row_of_images(svgs: Sequence[str], alt: str) -> str:
    """Returns charts side by side, or below each other where they are too wide."""
    return "".join(image(svg, alt, CHART_WIDTH) for svg in svgs)


def paragraph(text: str, *, bold: bool = False) -> str:
    """Returns text as a paragraph."""
    weight = ";font-weight:600" if bold else ""
    return f'<div style="margin:.4em 0{weight}">{escape(text)}</div>'


def preformatted(text: str) -> str:
    """Returns lines of text whose columns are aligned."""
    return f'<pre style="white-space:pre;overflow-x:auto">{escape(text)}</pre>'


def table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Returns a table.

    Args:
        rows: cells of each row as text; the first row has the heads of the columns.
        right: numbers of the right-aligned columns.
    """
    head, *body = rows
    parts = [_row("th", head, right), *(_row("td", row, right) for row in body)]
    return f"<table>{''.join(parts)}</table>"


def _row(tag: str, cells: Sequence[str], right: Collection[int]) -> str:
    sides = ("right" if k in right else "left" for k in range(len(cells)))
    parts = (
        f'<{tag} style="text-align:{side};{PADDING}">{escape(cell)}</{tag}>'
        for side, cell in zip(sides, cells, strict=True)
    )
    return f"<tr>{''.join(parts)}</tr>"


def heat_table(corner: str, names: Sequence[str], rows: Sequence[Sequence[int]]) -> str:
    """Returns a square table of counts; the color of a cell shows its fraction of the row.

    Args:
        corner: text of the corner.
        names: names of the rows and of the columns.
        rows: the counts.
    """
    centered = f"text-align:center;{PADDING}"
    head = "".join(f'<th style="{centered}">{escape(name)}</th>' for name in (corner, *names))
    lines = [f"<tr>{head}</tr>"]
    for name, row in zip(names, rows, strict=True):
        total = max(sum(row), 1)
        colors = (f"rgba({HEAT},{OPACITY * count / total:.2f})" for count in row)
        cells = (
            f'<td style="{centered};background:{color}">{count}</td>'
            for color, count in zip(colors, row, strict=True)
        )
        title = f'<th style="text-align:left;{PADDING}">{escape(name)}</th>'
        lines.append(f"<tr>{title}{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def scrolled(content: str) -> str:
    """Returns content, as HTML, in a block of limited size."""
    return f'<div style="max-height:{MAX_HEIGHT};overflow:auto">{content}</div>'


def side_by_side(*contents: str) -> str:
    """Returns contents, as HTML, in a row; below each other where they are too wide."""
    parts = (f'<div style="max-width:100%">{content}</div>' for content in contents)
    return f'<div style="display:flex;flex-wrap:wrap;gap:2em">{"".join(parts)}</div>'


def folded(title: str, content: str) -> str:
    """Returns content, as HTML, that a click on its title unfolds."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"
