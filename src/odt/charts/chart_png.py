"""Line charts as PNG, drawn by matplotlib."""

from collections.abc import Sequence

from odt.charts.chart import Chart
from odt.charts.png import new_figure, save_png


def draw_png(charts: Sequence[Chart], path: str) -> None:
    """Writes charts, one below the other, as PNG, without their vertical marks.

    Raises:
        MissingPackageError: if matplotlib is not installed.
        OdtError: if the file cannot be written.
    """
    figure = new_figure(figsize=(6.4, 4.8 * len(charts)))
    for k, chart in enumerate(charts, 1):
        axes = figure.add_subplot(len(charts), 1, k)
        drawn = []
        for name, line in chart.lines.items():
            style = "--" if name in chart.dashed else "-"
            drawn += axes.plot(*zip(*line, strict=True), marker=".", linestyle=style)
        axes.set_title(chart.title if drawn else f"{chart.title}: no values")
        axes.set_xlabel(chart.x_label)
        if drawn:  # with names that matplotlib would leave out, because they begin with _
            axes.legend(drawn, list(chart.lines), fontsize="small")
    save_png(figure, path)
