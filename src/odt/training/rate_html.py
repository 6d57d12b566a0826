"""Learning rate range test as a plot."""

import math
from collections.abc import Sequence

from odt.charts.chart import Chart
from odt.charts.plot import Plot, plot_of

X_LABEL = "log₁₀ of the learning rate"


def plot(
    rates: Sequence[float],
    losses: Sequence[float],
    changes: Sequence[float],
    suggestion: float | None,
) -> Plot:
    """Returns the plot of the losses over the rates.

    Args:
        rates: learning rate of each step.
        losses: loss of the next batch after the step.
        changes: these losses minus those before the test, smoothed.
        suggestion: the suggested rate; None for none.
    """
    mark = None
    if suggestion is not None and rates[0] <= suggestion <= rates[-1]:
        mark = (math.log10(suggestion), f"suggestion: {suggestion:.3g}")
    charts = []
    for name, values in (("change of the loss, smoothed", changes), ("loss", losses)):
        points = [(math.log10(rate), v) for rate, v in zip(rates, values, strict=True)]
        finite = [point for point in points if math.isfinite(point[1])]
        charts.append(Chart(name, {name: finite} if finite else {}, X_LABEL, mark))
    return plot_of("learning rate range test", charts)
