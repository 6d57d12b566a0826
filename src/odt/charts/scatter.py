"""Scatter charts as SVG: points, and a line on which they should be."""

from collections.abc import Sequence
from html import escape

from odt.charts.chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axis, element, x_grid, y_grid
from odt.dataclass import dataclass

MAX_POINTS = 1000  # that are drawn; of more, some at equal distances
LEGEND = 16  # pixels of the legend of line charts, which scatter charts do not have
MARGIN = 0.05  # of an axis, as a part of the range of the values


@dataclass(frozen=True, slots=True)
class Scatter:
    """A scatter chart.

    Attributes:
        title: its title.
        points: x and y of each point, finite.
        x_label, y_label: names of the axes.
        is_diagonal: whether points should be on y = x, and not on y = 0.
    """

    title: str
    points: Sequence[tuple[float, float]]
    x_label: str
    y_label: str
    is_diagonal: bool


def scatter(chart: Scatter) -> str:
    """Returns an `svg` element."""
    points = chart.points[:: max(1, -(-len(chart.points) // MAX_POINTS))]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    if chart.is_diagonal:
        xs = ys = xs + ys  # both axes have the same range
    else:
        ys.append(0.0)  # the line y = 0 is inside the chart
    bottom, top = HEIGHT - BOTTOM, TOP - LEGEND
    x = _axis(xs, LEFT, WIDTH - RIGHT)
    y = _axis(ys, bottom, top)
    parts = [f'<text class="name" x="8" y="18">{escape(chart.title)}</text>']
    parts += [*y_grid(y), *x_grid(x, x.ticks(), top)]
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts += [
        f'<text x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">{escape(chart.x_label)}</text>',
        f'<text x="{WIDTH - RIGHT}" y="18" text-anchor="end">{escape(chart.y_label)}</text>',
    ]
    start, end = (x.least, x.most) if chart.is_diagonal else (0.0, 0.0)
    parts.append(
        f'<line class="mark" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y.at(start):.2f}" '
        f'y2="{y.at(end):.2f}"/>'
    )
    for a, b in points:
        parts.append(
            f'<circle class="c0 dot" cx="{x.at(a):.2f}" cy="{y.at(b):.2f}" r="2.5">'
            f"<title>{a:.6g}, {b:.6g}</title></circle>"
        )
    label = f"{chart.title}: {chart.y_label} by {chart.x_label}"
    return element("".join(parts), HEIGHT, label, alone=False)


def _axis(values: Sequence[float], first: float, last: float) -> Axis:
    """Returns the axis of some values, with a margin.

    Args:
        values: the values; at least one.
        first: pixel of the smaller end.
        last: pixel of the larger end.
    """
    least, most = min(values), max(values)
    margin = (most - least) * MARGIN or abs(most) * 0.1 or 1.0
    return Axis(least - margin, most + margin, first, last)
