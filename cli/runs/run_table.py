"""The table of runs: best epoch, time and differences of their recipes."""

from pathlib import Path
from typing import Any

import click

from odt.cli.output.output_paths import check_outputs
from odt.cli.runs.chart import Chart, svg
from odt.cli.runs.chart_png import draw_png
from odt.cli.runs.run import Run, figure, is_run, points, read_run
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import listed
from odt.core.training.metrics import ACCURACIES, ACCURACY
from odt.errors import OdtError, escaped
from odt.text import table

# Beginnings of keys that do not count as a difference: they change no result.
SAME_RUN = ("epochs", "checkpoint", "export-", "log", "mem-poll", "tensorboard", "verbose-level")
MAX_TEXT = 40  # characters of a value


def list_runs(
    folders: tuple[Path, ...], metric: str | None, svg_path: str | None, png: str | None
) -> None:
    """Prints the table of the runs in some folders, and writes their chart.

    Args:
        folders: folders of runs, or folders that contain such folders; empty for the current one.
        metric: value to compare; None for the value that each run monitored.
        svg_path: path of the chart, or None.
        png: path of the chart as PNG, or None.

    Raises:
        OdtError: if there is no run, or no run has the metric.
    """
    check_outputs({"--svg": svg_path, "--png": png}, {})
    runs = [read_run(path) for path in runs_in(folders or (Path(),))]
    if not runs:
        raise OdtError(
            f"{', '.join(map(str, folders)) or 'the current folder'}: must be or contain folders "
            "of runs, but has none. odt train --run-dir writes one."
        )
    metric_names = sorted(
        {name for run in runs for row in run.rows for name in row} - {"epoch", "step"}
    )
    metric = metric and _as_in_logs(metric, metric_names)
    if metric is not None and metric not in metric_names:
        raise OdtError(f"--metric: must be one of {listed(metric_names)}, but got {metric}.")
    cells = [[escaped(c) for c in row] for row in rows_of(runs, metric)]
    click.echo("\n".join(table(cells, right=(2, 3, 4, 5))))
    chart = compared(runs, metric)
    if svg_path:
        write_atomically(svg_path, [svg([chart]).encode(errors="replace")], OdtError)
    if png:
        draw_png(chart, png)


def runs_in(folders: tuple[Path, ...]) -> list[Path]:
    """Returns the given folders that are runs, and the runs in the others, sorted by name.

    Raises:
        OdtError: if a folder is missing.
    """
    runs: list[Path] = []
    for folder in folders:
        if not folder.is_dir():
            raise OdtError(f"{folder}: must be a folder, but there is none.")
        runs += [folder] if is_run(folder) else sorted(p for p in folder.iterdir() if is_run(p))
    return list(dict.fromkeys(runs))


def _as_in_logs(metric: str, metric_names: list[str]) -> str:
    """Returns the name of a metric in logs, where an accuracy has the name that was asked for."""
    name = metric.replace("-", "_")
    bare = name.removeprefix("val_")
    if bare not in (*ACCURACY, *ACCURACIES.values()):
        return name if name in metric_names else metric
    words = (bare, *ACCURACY, *ACCURACIES.values())
    return next((n for w in words if (n := name.removesuffix(bare) + w) in metric_names), metric)


def rows_of(runs: list[Run], metric: str | None) -> list[list[str]]:
    """Returns the cells of the table, with the head first."""
    differing = differences(runs)
    rows = [["RUN", "STATE", "EPOCHS", "BEST", "AT", "TIME", "METRIC", *differing]]
    for run in runs:
        name = metric or run.monitor
        best = run.best_of(name)
        rows.append(
            [
                str(run.path),
                str(run.record.get("state", "unfinished")),
                str(max((row["epoch"] for row in run.rows), default=0)),
                figure(best[name]) if best else "",
                str(best["epoch"]) if best else "",
                time_of(run.seconds),
                name,
                *(cell(run.recipe.get(key)) for key in differing),
            ]
        )
    return rows


def differences(runs: list[Run]) -> list[str]:
    """Returns the keys whose values differ between recipes, in the order of the recipes."""
    keys = dict.fromkeys(key for run in runs for key in run.recipe if not key.startswith(SAME_RUN))
    return [key for key in keys if len({str(run.recipe.get(key)) for run in runs}) > 1]


def cell(value: Any) -> str:
    """Formats a value of a recipe; long values are paths, of which the end is shown."""
    if value is None:
        return "-"
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= MAX_TEXT else f"…{text[1 - MAX_TEXT :]}"


def time_of(seconds: float) -> str:
    """Formats a time: 8.3s, 4m10s, 1h05m."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"


def compared(runs: list[Run], metric: str | None) -> Chart:
    """Returns the chart of one value for all runs."""
    names = {metric or run.monitor for run in runs}
    lines = {str(run.path): points(run.rows, metric or run.monitor) for run in runs}
    return Chart(", ".join(sorted(names)), {name: line for name, line in lines.items() if line})
