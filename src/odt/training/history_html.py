"""History of a training run, or of a federation, as a plot and as HTML."""

import math
from collections.abc import Mapping, Sequence

from odt.charts.epoch_charts import epoch_charts
from odt.charts.html import folded, paragraph, scrolled, table
from odt.charts.plot import Plot, plot_of
from odt.errors import OptionError
from odt.text import figure

MAX_ROWS = 12  # of a table that is not folded

Points = Sequence[tuple[float, float]]


def plot(values: Mapping[str, Points], names: Sequence[str], unit: str = "epoch") -> Plot:
    """Returns the plot of loss and metrics over the epochs.

    Args:
        values: points (epoch, value) by name; the values before training are those of epoch 0.
        names: names of the values to show; all if empty.
        unit: what is counted: epoch or round.

    Raises:
        OptionError: if there is no value of a name.
    """
    for name in names:
        if name not in values:
            rule = f"must be names of values, {', '.join(values) or 'of which there are none'}"
            raise OptionError("names", rule, name)
    chosen = {name: values[name] for name in names or values}
    finite = {name: [p for p in line if math.isfinite(p[1])] for name, line in chosen.items()}
    return plot_of(f"loss and metrics over the {unit}s", epoch_charts(finite, unit=unit))


def html(values: Mapping[str, Points], unit: str = "epoch") -> str:
    """Returns the plot and a table of the epochs; arguments are those of `plot`."""
    epochs = sorted({at for line in values.values() for at, _ in line})
    if not epochs:
        return paragraph(f"History: no {unit}s")
    by_name = {name: dict(line) for name, line in values.items()}
    rows = [(unit, *values)]
    for epoch in epochs:
        cells = (figure(line[epoch]) if epoch in line else "" for line in by_name.values())
        rows.append((f"{epoch:g}", *cells))
    log = scrolled(table(rows, right=range(len(rows[0]))))
    if len(rows) > MAX_ROWS:
        log = folded(f"{len(rows) - 1} rows", log)
    return f"<div>{plot(values, (), unit)._repr_html_()}{log}</div>"
