"""Line charts as SVG, for light and dark backgrounds."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from odt.dataclass import dataclass

WIDTH, HEIGHT = 480, 280  # of one chart
LEFT, RIGHT, TOP, BOTTOM = 66, 12, 52, 38  # margins of its plot
LETTER = 6.6  # mean width of a letter of the legend
TICKS = 5  # about as many on an axis
WIDE_RANGE = 30.0  # largest value / smallest value from which on the axis is logarithmic
MAX_POINTS = 100  # of a line whose points are marked
COLORS = {  # for a light and for a dark background; distinct for color-blind readers
    "light": ("#1f6fb4", "#d1600a", "#2d8a4e", "#9b4fb3", "#c22f4c", "#6b6b00", "#00808a", "#555"),
    "dark": ("#6cb2f0", "#ffa45c", "#6fd08e", "#d59cf0", "#ff8fa3", "#d6d65c", "#5fd3dd", "#bbb"),
}


def _style() -> str:
    """Returns the CSS of charts."""

    def rules(name: str, ink: str, grid: str) -> str:
        lines = (f".c{k}{{stroke:{c};fill:{c}}}" for k, c in enumerate(COLORS[name]))
        return f".chart{{color:{ink}}}.grid{{stroke:{grid}}}" + "".join(lines)

    return (
        ".chart{font:13px system-ui,sans-serif}.chart text{fill:currentColor;stroke:none}"
        ".chart .name{font-weight:600}.chart .line{fill:none;stroke-width:2}"
        ".chart .dashed{stroke-dasharray:5 4}"
        ".chart .mark{stroke:currentColor;stroke-width:1;stroke-dasharray:2 3;fill:none}"
        + rules("light", "#222", "#ddd")
        + f"@media(prefers-color-scheme:dark){{{rules('dark', '#ddd', '#444')}}}"
    )


STYLE = _style()


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with one or several lines.

    Attributes:
        title: name of the values.
        lines: points (x, y) by name, in order of x; y must be finite.
        x_label: name of the x axis.
        mark: position of a vertical line, and its text; None for no line.
        dashed: names of lines that are dashed.
    """

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    x_label: str = "epoch"
    mark: tuple[float, str] | None = None
    dashed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps values to pixels.

    Attributes:
        least, most: the smallest and the largest value.
        first, last: pixels of these values.
        log: whether the axis is logarithmic.
    """

    least: float
    most: float
    first: float
    last: float
    log: bool = False

    def at(self, value: float) -> float:
        """Returns the pixel of a value."""
        low, high, v = self.least, self.most, value
        if self.log:
            low, high, v = math.log(low), math.log(high), math.log(v)
        return self.first + (v - low) / (high - low) * (self.last - self.first)

    def ticks(self) -> list[float]:
        """Returns round values along the axis."""
        if self.log:
            powers = range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1)
            for factors in ((1, 2, 5), (1, 3), (1,)):
                ticks = [f * 10.0**p for p in powers for f in factors]
                ticks = [t for t in ticks if self.least <= t <= self.most]
                if len(ticks) <= TICKS + 2:
                    return ticks
            return ticks[:: math.ceil(len(ticks) / TICKS)]
        # A tick at an end stays in spite of rounding.
        step = _round((self.most - self.least) / TICKS)
        first = math.ceil(self.least / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.most / step + 1e-9) + 1)]


def _round(step: float) -> float:
    """Returns the smallest of 1, 2 and 5 times a power of ten that is at least the step."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(f * power for f in (1, 2, 5, 10) if f * power >= step * (1 - 1e-9))


def y_axis(values: Sequence[float]) -> Axis:
    """Returns the axis of the values; logarithmic for positive values of a wide range."""
    least, most = min(values), max(values)
    first, last = HEIGHT - BOTTOM, TOP
    if least > 0 and most / least > WIDE_RANGE:
        return Axis(least / 1.1, most * 1.1, first, last, log=True)
    margin = (most - least) * 0.05 or abs(most) * 0.1 or 1.0
    # The axis begins at 0 unless the values are close to each other and far from it.
    from_zero = 0 <= least < most / 2 or 0 < least == most
    return Axis(0.0 if from_zero else least - margin, most + margin, first, last)


def y_grid(y: Axis) -> Iterator[str]:
    """Yields a line across the chart and a number for each tick of the y axis."""
    for tick in y.ticks():
        h = y.at(tick)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{h:.2f}" y2="{h:.2f}"/>'
        yield f'<text class="y" x="{LEFT - 6}" y="{h + 4:.2f}" text-anchor="end">{tick:g}</text>'


def x_grid(x: Axis, ticks: Iterable[float], top: int) -> Iterator[str]:
    """Yields a line from `top` to below the chart and a number for each tick of the x axis."""
    bottom = HEIGHT - BOTTOM
    for tick in ticks:
        w = x.at(tick)
        yield f'<line class="grid" x1="{w:.2f}" x2="{w:.2f}" y1="{top}" y2="{bottom + 4}"/>'
        yield f'<text class="x" x="{w:.2f}" y="{bottom + 17}" text-anchor="middle">{tick:g}</text>'


def draw(chart: Chart) -> str:
    """Returns the elements of a chart of WIDTH × HEIGHT, without the `svg` element."""
    points = [point for line in chart.lines.values() for point in line]
    if not points:
        return f'<text class="name" x="{LEFT}" y="18">{escape(chart.title)}: no values</text>'
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    x = Axis(left, right if right > left else left + 1, LEFT, WIDTH - RIGHT)
    y = y_axis([v for _, v in points])
    bottom = HEIGHT - BOTTOM
    parts = [f'<text class="name" x="8" y="18">{escape(chart.title)}</text>', *y_grid(y)]
    x_ticks = x.ticks()
    if chart.x_label == "epoch":
        x_ticks = [tick for tick in x_ticks if tick == int(tick)]
    parts += x_grid(x, x_ticks, bottom)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">{chart.x_label}</text>')
    if chart.mark:
        at, text = chart.mark
        w = x.at(at)
        parts += [
            f'<line class="mark" x1="{w:.2f}" x2="{w:.2f}" y1="{TOP}" y2="{bottom}"/>',
            f'<text x="{WIDTH - RIGHT}" y="18" text-anchor="end">{escape(text)}</text>',
        ]
    for k, (name, line) in enumerate(chart.lines.items()):
        parts += _line(f"c{k % len(COLORS['light'])}", name, line, x, y, name in chart.dashed)
    return "".join([*parts, *_legend(chart)])


def _line(
    color: str, name: str, line: Sequence[tuple[float, float]], x: Axis, y: Axis, dashed: bool
) -> list[str]:
    """Draws a line, with marked points if there are few."""
    pixels = [(x.at(a), y.at(b)) for a, b in line]
    path = " ".join(f"{a:.2f},{b:.2f}" for a, b in pixels)
    style = f"line {color} dashed" if dashed else f"line {color}"
    parts = [f'<polyline class="{style}" data-name="{escape(name)}" points="{path}"/>']
    if len(line) <= MAX_POINTS:
        for (a, b), (number, value) in zip(pixels, line, strict=True):
            label = f"{escape(name)} {value:.6g} at {number:g}"
            parts.append(
                f'<circle class="{color}" cx="{a:.2f}" cy="{b:.2f}" r="2.5">'
                f"<title>{label}</title></circle>"
            )
    return parts


def _legend(chart: Chart) -> list[str]:
    """Returns the names of the lines in one row, long ones cut; none for one that is the title."""
    if list(chart.lines) == [chart.title]:
        return []
    parts = []
    x = 8.0
    width = (WIDTH - 16) / len(chart.lines)
    for k, name in enumerate(chart.lines):
        # Letters that fit beside the sample of the line, in a column of at least 70 pixels.
        most = max(4, int(max(width, 70) - 26) // int(LETTER))
        text = name if len(name) <= most or len(chart.lines) == 1 else f"{name[: most - 1]}…"
        style = f"line c{k % len(COLORS['light'])}"
        if name in chart.dashed:
            style += " dashed"
        parts += [
            f'<line class="{style}" x1="{x:.0f}" x2="{x + 18:.0f}" y1="34" y2="34"/>',
            f'<text x="{x + 22:.0f}" y="38">{escape(text)}</text>',
        ]
        x += 22 + LETTER * len(text) + 14
    return parts


def svg(charts: Sequence[Chart], *, alone: bool = True) -> str:
    """Returns an `svg` element with charts one below the other.

    Args:
        charts: the charts.
        alone: whether it is a separate file, with style and background.
    """
    parts = (
        f'<g transform="translate(0 {k * HEIGHT})">{draw(chart)}</g>'
        for k, chart in enumerate(charts)
    )
    label = "; ".join(map(_in_words, charts))
    return element("".join(parts), HEIGHT * len(charts), label, alone=alone)


def _in_words(chart: Chart) -> str:
    """Returns what a chart shows, for readers who do not see it."""
    lines = [
        f"{name} from {line[0][1]:.4g} to {line[-1][1]:.4g}"
        for name, line in chart.lines.items()
        if line
    ]
    return f"{chart.title} by {chart.x_label}: {', '.join(lines) or 'no values'}"


def element(content: str, height: int, label: str, *, alone: bool) -> str:
    """Returns an `svg` element of the class `chart`.

    Args:
        content: its elements.
        height: its height; the width is that of charts.
        label: what it shows, for screen readers.
        alone: whether it is a separate file, with style and background.
    """
    head = "<svg "
    style = ""
    if alone:
        head = '<svg xmlns="http://www.w3.org/2000/svg" '
        back = ".back{fill:#fff}@media(prefers-color-scheme:dark){.back{fill:#181818}}"
        style = f'<style>{STYLE}{back}</style><rect class="back" width="100%" height="100%"/>'
    size = f'viewBox="0 0 {WIDTH} {height}"'
    named = f'role="img" aria-label="{escape(label)}"'
    return f'{head}class="chart" {size} {named}>{style}{content}</svg>\n'
