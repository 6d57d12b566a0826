"""Section of a report about predicted values: figures and charts of each target."""

from collections.abc import Sequence

import numpy as np

from odt.charts.scatter import Scatter, scatter
from odt.kernels.rows.opdef import Array
from odt.runs.page import section, table

MAX_CHARTED = 8  # targets that have charts
HEADS = ("target", "R²", "mean absolute error", "root mean squared error", "largest error")


def regression_section(targets: Array, outputs: Array, names: Sequence[str], about: str) -> str:
    """Returns predicted against true values and residuals of each target.

    Args:
        targets: values (N, K) of the targets, N > 0.
        outputs: values (N, K) of the model.
        names: names of the targets.
        about: content before the charts, as HTML.
    """
    count = targets.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):  # an output may be huge, infinite or NaN
        residuals = outputs - targets
        rows = [_figures(names[k], targets[:, k], residuals[:, k]) for k in range(count)]
    charts = []
    for k in range(min(count, MAX_CHARTED)):
        is_finite = np.isfinite(outputs[:, k]) & np.isfinite(targets[:, k])
        true, predicted = targets[is_finite, k].tolist(), outputs[is_finite, k].tolist()
        if true:
            points = [*zip(true, predicted, strict=True)]
            charts.append(Scatter(names[k], points, "true", "predicted", is_diagonal=True))
            errors = [*zip(predicted, residuals[is_finite, k].tolist(), strict=True)]
            label = "residual: predicted − true"
            charts.append(Scatter(names[k], errors, "predicted", label, is_diagonal=False))
    figures = f'<div class="wide">{table(HEADS, rows, "targets")}</div>'
    pictures = "".join(f"<div>{scatter(chart)}</div>" for chart in charts)
    content = f'{about}{figures}<div class="charts">{pictures}</div>'
    return section("Predicted and true values", content)


def _figures(name: str, target: Array, residual: Array) -> tuple[str, ...]:
    """Returns the row of a target."""
    spread = float(((target - target.mean()) ** 2).sum())
    r2 = 1 - float((residual**2).sum()) / spread if spread else float("nan")
    figures = (np.abs(residual).mean(), np.sqrt((residual**2).mean()), np.abs(residual).max())
    return name, f"{r2:.4f}", *(f"{value:.6g}" for value in figures)
