"""Chart of the memory over a training step, as SVG."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from odt.charts.chart import BOTTOM, COLORS, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axis, element, y_grid

MB = 1e6
CONSTANT = ("parameters", "optimizer", "gradients", "packed")
# Whole numbers of memory.json, besides CONSTANT, which may be missing.
NUMBERS = ("total", "batch", "micro_batch", "workers", "forward")
MAX_NBYTES = 2**62
MAX_LAYERS = 64  # of arenas
AREA_STYLE = "<style>.area{stroke-width:0;opacity:.75}</style>"  # also in the style of reports
ROW = 16  # pixels of a row of the legend
FORWARD, BACKWARD = 54, 66  # pixels of these words


def checked_memory(memory: Any) -> Mapping[str, Any]:
    """Returns the content of memory.json.

    Raises:
        ValueError: unless it has whole numbers by name and, in `arenas`, lists of equal length.
    """
    arenas = memory["arenas"]
    rows = [[memory[name] for name in NUMBERS], *arenas.values()]
    rows.append([memory.get(name, 0) for name in CONSTANT])
    if not all(type(n) is int and 0 <= n <= MAX_NBYTES for row in rows for n in row):
        raise ValueError(f"numbers that are not from 0 to {MAX_NBYTES}")
    if len({len(row) for row in arenas.values()}) != 1 or len(arenas) > MAX_LAYERS:
        raise ValueError("arenas of another form")
    return dict(memory)


def memory_chart(memory: Mapping[str, Any], *, alone: bool = False) -> str:
    """Returns an `svg` element: constant memory, and stacked on it the arenas at each call.

    Args:
        memory: content of memory.json, checked.
        alone: whether it is a separate file, with style and background.
    """
    layers = layers_of(memory)
    count = len(next(iter(layers.values())))
    totals = [sum(layer[k] for layer in layers.values()) for k in range(count)]
    most = max(memory["total"] / MB, *totals)
    x = Axis(0, max(count, 1), LEFT, WIDTH - RIGHT)
    plot_top = TOP - 20  # the legend is below the plot
    y = Axis(0, most * 1.05, HEIGHT - BOTTOM, plot_top)
    bottom = HEIGHT - BOTTOM
    parts = ['<text class="name" x="8" y="18">memory over a training step, MB</text>']
    parts += y_grid(y)
    below = [0.0] * count
    for k, (name, layer) in enumerate(layers.items()):
        above = [a + b for a, b in zip(below, layer, strict=True)]
        outline = [*_steps(above), *reversed(_steps(below))]
        path = " ".join(f"{x.at(a):.2f},{y.at(b):.2f}" for a, b in outline)
        color = f"c{k % len(COLORS['light'])}"
        title = f"<title>{escape(name)}</title>"
        parts.append(f'<polygon class="area {color}" points="{path}">{title}</polygon>')
        below = above
    whole = y.at(memory["total"] / MB)
    forward = x.at(min(memory["forward"], max(count, 1)))
    # Between the words forward and backward, both of which are inside the picture.
    words = min(max(forward, FORWARD), WIDTH - RIGHT - BACKWARD)
    parts += [
        f'<line class="mark" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{whole:.2f}" y2="{whole:.2f}"/>',
        f'<text x="{LEFT + 4}" y="{whole - 4:.2f}">allocated</text>',
        f'<line class="mark" x1="{forward:.2f}" x2="{forward:.2f}" y1="{plot_top}" y2="{bottom}"/>',
        f'<text x="{words - 4:.2f}" y="{bottom + 17}" text-anchor="end">forward</text>',
        f'<text x="{words + 4:.2f}" y="{bottom + 17}">backward</text>',
    ]
    for k, name in enumerate(layers):
        left, top = 8 + k % 2 * WIDTH / 2, HEIGHT + k // 2 * ROW
        color = f"c{k % len(COLORS['light'])}"
        parts += [
            f'<rect class="area {color}" x="{left:.0f}" y="{top - 9}" width="10" height="10"/>',
            f'<text x="{left + 15:.0f}" y="{top}">{escape(name)}</text>',
        ]
    if alone:
        parts.insert(0, AREA_STYLE)
    height = HEIGHT + (len(layers) + 1) // 2 * ROW
    label = f"memory over a training step: {memory['total'] / MB:.4g} MB allocated"
    return element("".join(parts), height, label, alone=alone)


def _steps(values: Sequence[float]) -> list[tuple[int, float]]:
    """Returns the corners of a line that keeps each value from its call to the next."""
    return [(x, value) for call, value in enumerate(values) for x in (call, call + 1)]


def layers_of(memory: Mapping[str, Any]) -> dict[str, list[float]]:
    """Returns megabytes at each call by name, without layers that are empty."""
    arenas: Mapping[str, list[int]] = memory["arenas"]
    count = len(next(iter(arenas.values())))
    layers = {name: [memory.get(name, 0) / MB] * count for name in CONSTANT}
    layers["gradients, accumulated"] = layers.pop("gradients")
    layers["packed weights"] = layers.pop("packed")
    layers |= {f"{name} in arenas": [n / MB for n in row] for name, row in arenas.items()}
    return {name: layer for name, layer in layers.items() if any(layer)}
