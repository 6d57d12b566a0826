"""Charts of values over epochs: one for each loss and metric, with its validation."""

from collections.abc import Mapping, Sequence

from odt.charts.chart import Chart

VALIDATION = "val_"  # prefix of the names of values on validation data


def epoch_charts(
    values: Mapping[str, Sequence[tuple[float, float]]],
    mark: tuple[float, str] | None = None,
    unit: str = "epoch",
) -> list[Chart]:
    """Returns a chart for each name, which has the values of validation too.

    Args:
        values: points (epoch, value) by name.
        mark: position of a vertical line in all charts, and its text; None for no line.
        unit: name of the x axis: epoch, or round for those of a federation.
    """
    charts = []
    for name in dict.fromkeys(name.removeprefix(VALIDATION) for name in values):
        lines = {n: values.get(n, ()) for n in (name, VALIDATION + name)}
        charts.append(Chart(name, {n: line for n, line in lines.items() if line}, unit, mark))
    return charts
