"""Reads the folder of a run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from odt.arguments import checked_arguments
from odt.charts.chart import Chart
from odt.charts.epoch_charts import epoch_charts
from odt.charts.html import paragraph
from odt.charts.plot import Plot, plot_of
from odt.core.storage.reading import read_input, reading
from odt.core.training.monitor import Monitor
from odt.dataclass import dataclass
from odt.errors import OdtError
from odt.models.model import Path as AnyPath
from odt.runs.epoch_log import Row, read_rows
from odt.runs.recipe import parse_recipe
from odt.text import figure, quantity

FORMAT, VERSION = "odt-run", 1
# Files of a run's folder.
RECIPE = "recipe.toml"
RECORD = "run.json"
LOG, CSV = "log.jsonl", "log.csv"
LAST, BEST = "last.odt", "best.odt"
CURVES = "curves.svg"
MEMORY = "memory.json"
WARNINGS = "warnings.txt"
PAGE = "report.html"
MAX_BYTES = 1 << 24  # of a file of the folder besides the log and binary files
MAX_SECONDS = 1e9  # of a start
POSITION = ("epoch", "step", "seconds", "learning_rate")  # names in a row besides loss and metrics


@dataclass(frozen=True, slots=True)
class Run:
    """A run, read from the folder that `odt train` writes.

    Attributes:
        path: the folder.
        recipe: options of the run by their names on the command line.
        record: state, versions and files of the run: content of run.json.
        rows: results of each epoch, in order: a mapping with epoch, step, seconds, learning_rate,
            loss and metrics. Validation values have names that begin with val_. The first row is
            epoch 0, before training, even if training was resumed in the folder. If a run in a new
            folder continues from a checkpoint, its first row is the epoch after the checkpoint.
    """

    path: Path
    recipe: Mapping[str, Any]
    record: Mapping[str, Any]
    rows: Sequence[Row]

    def plot(self) -> Plot:
        """Returns the curves of loss, metrics and learning rate, which a notebook shows."""
        return plot_of(f"curves of {self.path}", charts_of(self))

    def __repr__(self) -> str:
        return f"Run({self._headline})"

    @property
    def _headline(self) -> str:
        """Folder, state, number of epochs and the best value, in a line."""
        state = self.record.get("state", "unfinished")
        best = self.best
        value = f", best {self.monitor} {figure(best[self.monitor])}" if best else ""
        return f"{str(self.path)!r}, {state}, {quantity(len(self.trained), 'epoch')}{value}"

    def _repr_html_(self) -> str:
        parts = [paragraph(self._headline, bold=True), self.plot()._repr_html_()]
        if (page := self.path / PAGE).exists():
            parts.insert(1, paragraph(f"report: {page}"))
        return f"<div>{''.join(parts)}</div>"

    @property
    def names(self) -> list[str]:
        """Names of loss and metrics, without those of validation."""
        names = (n for row in self.rows for n in row if n not in POSITION)
        return [*dict.fromkeys(n.removeprefix("val_") for n in names)]

    @property
    def trained(self) -> list[Row]:
        """The rows of epochs, without epoch 0."""
        return [row for row in self.rows if row["epoch"]]

    @property
    def monitor(self) -> str:
        """Name of the value that selects the best epoch; loss if the rows lack that value."""
        return monitored(str(self.record.get("monitor", "val_loss")), self.rows)

    @property
    def best(self) -> Row | None:
        """The best epoch by the monitored value; None before the first."""
        return self.best_of(self.monitor)

    @checked_arguments
    def best_of(self, name: str) -> Row | None:
        """Returns the epoch with the best value of a name; the first if values are equal."""
        return best_row(name, self.trained)

    @property
    def seconds(self) -> float:
        """Time of training; of its steps alone if the run was killed or still trains."""
        times = [start.get("seconds") for start in self.record.get("starts", [])]
        if not times or None in times:
            times = [row["seconds"] for row in self.trained]
        return float(sum(times))


def monitored(name: str, rows: Sequence[Row]) -> str:
    """Returns the name of the monitored value, or loss if rows do not have it."""
    return name if any(row.get(name) is not None for row in rows) else "loss"


def best_row(name: str, rows: Sequence[Row]) -> Row | None:
    """Returns the row with the best value; the first if values are equal."""
    monitor = Monitor(name)
    best = None
    for row in rows:
        if row.get(name) is not None and monitor.improves(row):
            best = row
    return best


def is_run(path: Path) -> bool:
    """Whether a folder is the folder of a run."""
    return (path / RECIPE).is_file()


@checked_arguments
def read_run(path: AnyPath) -> Run:
    """Reads the folder of a run.

    Args:
        path: folder of a run that `odt train` wrote, or is writing.

    Raises:
        OdtError: if the folder is not a run's, or one of its files is damaged.
    """
    path = Path(path)
    if not is_run(path):
        raise OdtError(
            f"{path}: must be the folder of a run, but it has no {RECIPE}. odt train with "
            "`run_dir=` writes one."
        )
    recipe = parse_recipe(str(path / RECIPE))
    record: dict[str, Any] = {}
    record_path = path / RECORD
    if record_path.exists():
        text = read_input(record_path, "the record of a run", OdtError, MAX_BYTES)
        with reading(str(record_path), "must be the record of a run", OdtError):
            record = json.loads(text)
            _check_record(record)
    return Run(path, recipe, record, read_rows(path / LOG))


def run_names(runs: Sequence[Run]) -> list[str]:
    """Returns a short name of each run: its folder, with those above if names would be equal.

    A folder with the name `run`, as `odt learn` makes it, is named after the one above, too.
    """
    parts = [run.path.resolve().parts for run in runs]
    least = 2 if any(p[-1:] == ("run",) for p in parts) else 1
    for count in range(least, max(map(len, parts), default=1) + 1):
        names = ["/".join(p[-count:]) for p in parts]
        if len({*names}) == len({*parts}):
            break
    return names


def read_lines(path: Path) -> list[str]:
    """Returns the lines of a text file of a run; none if there is no file."""
    if not path.exists():
        return []
    return read_input(path, "text", OdtError, MAX_BYTES).decode(errors="replace").splitlines()


def _check_record(record: Any) -> None:
    """Raises ValueError unless a value has the form of run.json; further keys are ignored."""
    if not isinstance(record, dict):
        raise ValueError("no object")
    if not isinstance(record.get("monitor", ""), str):
        raise ValueError("monitor of another form")
    files = record.get("files", {})
    if not isinstance(files, dict) or not all(map(_describes_file, files.values())):
        raise ValueError("files of another form")
    outputs = record.get("outputs", {})
    if not isinstance(outputs, dict) or not all(isinstance(p, str) for p in outputs.values()):
        raise ValueError("outputs of another form")
    starts = record.get("starts", [])
    if not isinstance(starts, list) or not all(map(_describes_start, starts)):
        raise ValueError("starts of another form")


def _describes_file(value: Any) -> bool:
    """Whether a value has path, SHA-256 and size of a file."""
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(key), str) for key in ("path", "sha256"))
        and type(value.get("bytes")) is int
        and 0 <= value["bytes"] < 2**63
    )


def _describes_start(value: Any) -> bool:
    """Whether a value has time and first epoch of a start, and how long it trained if it ended."""
    if not isinstance(value, dict) or not {"time", "epoch"} <= value.keys():
        return False
    seconds = value.get("seconds", 0)
    return type(seconds) in (int, float) and 0 <= seconds < MAX_SECONDS


def charts_of(run: Run) -> list[Chart]:
    """Returns charts of loss, metrics and learning rate over the epochs; marks the best epoch."""
    best = run.best
    mark = (float(best["epoch"]), f"best: epoch {best['epoch']}") if best else None
    names = [n for name in run.names for n in (name, f"val_{name}")]
    charts = epoch_charts({name: points(run.rows, name) for name in names}, mark)
    rates = points(run.trained, "learning_rate")
    return [*charts, Chart("learning rate", {"learning rate": rates})]


def points(rows: Sequence[Row], name: str) -> list[tuple[float, float]]:
    """Returns the values of a name over the epochs."""
    return [(float(r["epoch"]), float(r[name])) for r in rows if r.get(name) is not None]
