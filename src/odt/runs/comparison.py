"""The table of runs: best epoch, time and differences of their recipes."""

import os
from collections.abc import Sequence
from pathlib import Path as File
from typing import Any

from odt.arguments import checked_arguments
from odt.charts import html
from odt.charts.chart import Chart, svg
from odt.charts.chart_png import draw_png
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import listed
from odt.core.training.metrics import ACCURACIES, ACCURACY
from odt.dataclass import dataclass
from odt.errors import OdtError, OptionError, escaped
from odt.models.model import Path
from odt.runs.page import section
from odt.runs.page import table as html_table
from odt.runs.run import Run, is_run, points, read_run
from odt.text import duration, figure, table

# Prefixes of keys that do not count as a difference: the table has a column for epochs, and the
# others change what is written and shown, not how the model trains.
IGNORED = ("epochs", "export-", "log", "mem-poll", "tensorboard", "verbose-level")
MAX_TEXT = 40  # characters of a value
NUMBERS = (2, 3, 4, 5)  # columns of the table that are right-aligned


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Runs side by side; printed as `odt report` lists them.

    Attributes:
        runs: the runs.
        metric: name of the compared value in logs; None for the value that each run monitored.
        differences: options in which the recipes differ, by their names on the command line;
            without those for the number of epochs, exports, logs and messages.
    """

    runs: tuple[Run, ...]
    metric: str | None
    differences: tuple[str, ...]

    def __str__(self) -> str:
        """Returns the table: best value, its epoch, time and differing options of each run."""
        rows = _rows_of(self, [str(run.path) for run in self.runs])
        cells = [[escaped(c) for c in row] for row in rows]
        return "\n".join(table(cells, right=NUMBERS))

    def __repr__(self) -> str:
        return f"RunComparison({len(self.runs)} runs: {', '.join(str(r.path) for r in self.runs)})"

    def _repr_html_(self) -> str:
        chart = html.row_of_images([svg([self._chart()])], "curves of the runs")
        rows = _rows_of(self, [str(run.path) for run in self.runs])
        return f"<div>{chart}{html.scrolled(html.table(rows, right=NUMBERS))}</div>"

    @checked_arguments
    def save_svg(self, path: Path) -> None:
        """Writes a chart of the value over the epochs of all runs as SVG.

        Args:
            path: path of the file.

        Raises:
            OdtError: if the file cannot be written.
        """
        write_atomically(path, [svg([self._chart()]).encode(errors="replace")], OdtError)

    @checked_arguments
    def save_png(self, path: Path) -> None:
        """Writes the chart as PNG.

        Args:
            path: path of the file.

        Raises:
            OdtError: if matplotlib is not installed, or the file cannot be written.
        """
        draw_png([self._chart()], os.fspath(path))

    def _chart(self) -> Chart:
        names = {self.metric or run.monitor for run in self.runs}
        lines = {str(run.path): points(run.rows, self.metric or run.monitor) for run in self.runs}
        return Chart(", ".join(sorted(names)), {name: line for name, line in lines.items() if line})


@checked_arguments
def compare_runs(folders: Path | Sequence[Path] = (), metric: str | None = None) -> RunComparison:
    """Reads runs to compare them, as `odt report` does for its list of runs.

    Args:
        folders: folders of runs, or folders that contain such folders; the current one if left out.
        metric: value to compare, such as val_accuracy; None for the value that each run monitored.

    Raises:
        OdtError: if there is no run, or a file of a run is damaged.
        OptionError: if no run has the metric.
    """
    paths = [folders] if isinstance(folders, str | os.PathLike) else [*folders]
    runs = tuple(map(read_run, _runs_in([File(path) for path in paths or ["."]])))
    if not runs:
        raise OdtError(
            f"{', '.join(map(str, paths)) or 'the current folder'}: must be or contain folders "
            "of runs, but has none. odt train with `run_dir=` writes one."
        )
    names = sorted({name for run in runs for row in run.rows for name in row} - {"epoch", "step"})
    name = None if metric is None else _as_in_logs(metric, names)
    if name is not None and name not in names:
        raise OptionError("metric", f"must be one of {listed(names)}", metric)
    return RunComparison(runs, name, _differences(runs))


def _runs_in(folders: Sequence[File]) -> list[File]:
    """Returns the given folders that are runs, and the runs in the others, sorted by name.

    Raises:
        OdtError: if a folder is missing.
    """
    runs: list[File] = []
    for folder in folders:
        if not folder.is_dir():
            raise OdtError(f"{folder}: must be a folder, but there is none.")
        runs += [folder] if is_run(folder) else sorted(p for p in folder.iterdir() if is_run(p))
    return list(dict.fromkeys(runs))


def _as_in_logs(metric: str, metric_names: list[str]) -> str:
    """Returns the name of a metric in logs; unchanged if they do not have it.

    Logs have an accuracy under the name that the user gave, such as accuracy or
    categorical_accuracy; each stands for all.
    """
    name = metric.replace("-", "_")
    bare = name.removeprefix("val_")
    prefix = name.removesuffix(bare)
    accuracies = (*ACCURACY, *ACCURACIES.values())
    words = (bare, *accuracies) if bare in accuracies else (bare,)
    for word in words:
        if prefix + word in metric_names:
            return prefix + word
    return metric


def comparison_section(runs: Sequence[Run], names: Sequence[str]) -> str:
    """Returns a section of a page: the table of some runs, and their curves over each other.

    Args:
        runs: the runs.
        names: their names.
    """
    comparison = RunComparison(tuple(runs), None, _differences(runs))
    heads, *rows = _rows_of(comparison, names)
    cells = html_table([head.lower() for head in heads], rows, "runs")
    logged = dict.fromkeys(n for run in runs for name in run.names for n in (name, f"val_{name}"))
    charts = []
    for name in logged:
        lines = {n: points(run.rows, name) for n, run in zip(names, runs, strict=True)}
        lines = {n: line for n, line in lines.items() if line}
        if lines:
            charts.append(f"<div>{svg([Chart(name, lines)], alone=False)}</div>")
    curves = f'<div class="charts">{"".join(charts)}</div>'
    return section("Comparison", f'<div class="wide">{cells}</div>{curves}')


def _rows_of(comparison: RunComparison, names: Sequence[str]) -> list[list[str]]:
    """Returns the cells of the table, with the head first.

    Args:
        comparison: the runs.
        names: their names.
    """
    differing = comparison.differences
    rows = [["RUN", "STATE", "EPOCHS", "BEST", "AT", "TIME", "METRIC", *differing]]
    for run, label in zip(comparison.runs, names, strict=True):
        name = comparison.metric or run.monitor
        best = run.best_of(name)
        rows.append(
            [
                label,
                str(run.record.get("state", "unfinished")),
                str(max((row["epoch"] for row in run.rows), default=0)),
                figure(best[name]) if best else "",
                str(best["epoch"]) if best else "",
                duration(run.seconds),
                name,
                *(cell(run.recipe.get(key)) for key in differing),
            ]
        )
    return rows


def _differences(runs: Sequence[Run]) -> tuple[str, ...]:
    """Returns the keys whose values differ between recipes, in the order of the recipes."""
    keys = dict.fromkeys(key for run in runs for key in run.recipe if not key.startswith(IGNORED))
    return tuple(key for key in keys if len({str(run.recipe.get(key)) for run in runs}) > 1)


def cell(value: Any) -> str:
    """Formats a value of a recipe; long values are paths, of which the end is shown."""
    if value is None:
        return "-"
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= MAX_TEXT else f"…{text[1 - MAX_TEXT :]}"
