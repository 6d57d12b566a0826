"""Line charts as PNG, drawn by matplotlib."""

from odt.charts.chart import Chart
from odt.charts.png import new_figure, save_png


def draw_png(chart: Chart, path: str) -> None:
    """Writes a chart as PNG.

    Raises:
        OdtError: if matplotlib is not installed, or the file cannot be written.
    """
    figure = new_figure()
    axes = figure.add_subplot()
    for name, line in chart.lines.items():
        axes.plot(*zip(*line, strict=True), label=name, marker=".")
    axes.set_title(chart.title)
    axes.set_xlabel(chart.x_label)
    axes.legend(fontsize="small")
    save_png(figure, path)
