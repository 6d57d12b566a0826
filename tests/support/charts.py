"""Reads values from an SVG chart, using the numbers at its axes."""

import math
import re
from collections.abc import Callable
from html import unescape

Point = tuple[float, float]


def _scale(ticks: list[tuple[float, float]]) -> Callable[[float], float]:
    """Returns pixel → value, from two or more numbers at an axis; handles logarithmic axes."""
    (p0, v0), (p1, v1), *rest = ticks
    even = all(abs((v - v0) - (p - p0) * (v1 - v0) / (p1 - p0)) < 0.02 * abs(v - v0)
               for p, v in rest)  # fmt: skip
    if even:
        return lambda p: v0 + (p - p0) * (v1 - v0) / (p1 - p0)
    slope = (math.log(v1) - math.log(v0)) / (p1 - p0)
    return lambda p: math.exp(math.log(v0) + (p - p0) * slope)


def scale_of(svg: str) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """Returns pixel → value along both axes of an SVG with one chart."""
    xs = re.findall(r'<text class="x" x="([-\d.]+)"[^>]*>([^<]*)</text>', svg)
    ys = re.findall(r'<text class="y" x="[-\d.]+" y="([-\d.]+)"[^>]*>([^<]*)</text>', svg)
    x = _scale([(float(p), float(v)) for p, v in xs])
    y = _scale([(float(p) - 4, float(v)) for p, v in ys])
    return x, y


def values_of(svg: str) -> dict[str, list[Point]]:
    """Returns the points of each line of an SVG with one chart."""
    x, y = scale_of(svg)
    found = {}
    for name, path in re.findall(r'<polyline [^>]*data-name="([^"]*)" points="([^"]*)"', svg):
        pairs = (pair.split(",") for pair in path.split())
        found[unescape(name)] = [(x(float(a)), y(float(b))) for a, b in pairs]
    return found
