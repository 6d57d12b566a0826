"""The forecast of memory as HTML: parts, and their use over a step."""

from collections.abc import Mapping, Sequence

from odt.charts.html import folded, image, paragraph, preformatted, table
from odt.charts.memory_chart import memory_chart
from odt.charts.plot import Plot
from odt.text import size

TITLE = "memory over a training step"


def plot(memory: Mapping[str, object]) -> Plot:
    """Returns the chart of the memory over a step; the argument is that of `memory_chart`."""
    return Plot(TITLE, memory_chart(memory, alone=True))


def html(
    headlines: Sequence[str],
    parts: Sequence[tuple[str, int]],
    memory: Mapping[str, object],
    text: str,
) -> str:
    """Returns what a notebook shows of the forecast.

    Args:
        headlines: the verdict and the result, a line each.
        parts: names and bytes of the parts; those without bytes are left out.
        memory: memory of a step, as of `memory_chart`.
        text: the text of `odt plan`.
    """
    rows = [("memory", "size", "bytes")]
    rows += [(name, size(nbytes), f"{nbytes:,}") for name, nbytes in parts if nbytes]
    chart = image(memory_chart(memory, alone=True), TITLE, "600px")
    whole = folded("all figures", preformatted(text))
    verdict, *others = headlines
    lines = [paragraph(verdict, bold=True), *map(paragraph, others)]
    return f"<div>{''.join(lines)}{table(rows, right=(1, 2))}{chart}{whole}</div>"
