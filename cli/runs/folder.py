"""Writes the folder of a run while it trains."""

import hashlib
import json
import platform
import shlex
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import click
import numpy as np

import odt
from odt.charts.chart import svg
from odt.cli.runs.events import EventFile
from odt.core.planning.budget.arena_usage import arena_usage
from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import open_input, printable, reading
from odt.errors import OdtError, warn
from odt.kernels.native.library import describe_kernels
from odt.runs.epoch_log import EpochLog, Row, read_rows, row_of
from odt.runs.run import (
    BEST,
    CSV,
    CURVES,
    FORMAT,
    LOG,
    MEMORY,
    RECIPE,
    RECORD,
    VERSION,
    WARNINGS,
    Run,
    best_row,
    charts_of,
    monitored,
    read_lines,
    read_run,
)

INTERVAL = 5.0  # least number of seconds between two drawings of the curves
UNFINISHED, STOPPED, FINISHED = "unfinished", "stopped", "finished"


class FileRecord(TypedDict):
    """A file that training reads: absolute path, size and SHA-256."""

    path: str
    bytes: int
    sha256: str


class Start(TypedDict):
    """A start of training: time in UTC, the first epoch, and, once it ended, how long it took."""

    time: str
    epoch: int
    seconds: NotRequired[float]


class Record(TypedDict):
    """Content of run.json."""

    format: str
    version: int
    state: str
    odt: str
    numpy: str
    python: str
    kernels: str
    platform: str
    monitor: str
    files: dict[str, FileRecord]
    outputs: dict[str, str]
    starts: list[Start]
    epochs: NotRequired[int | None]


class RowLog(odt.Callback):
    """Writes the row of each epoch to logs.

    Args:
        paths: paths of the logs; the extensions select the format.
    """

    def __init__(self, *paths: Path) -> None:
        self._paths = paths

    def on_train_begin(self, logs: odt.Logs) -> None:
        """Creates the logs."""
        self._begun = False  # whether an epoch has begun
        self._rate = 0.0
        self.begin()

    def begin(self) -> None:
        """Creates the files, before the first row."""
        self._logs = [EpochLog(path, self.first()) for path in self._paths]

    def first(self) -> int:
        """Number of the first epoch."""
        session = self.trainer.session
        samples = session.build().info.step_samples
        epoch, _ = session.resume.start(samples, self.params["steps"] or 0)
        return epoch

    def on_epoch_begin(self, epoch: int, logs: odt.Logs) -> None:
        """Adds epoch 0 before the first epoch."""
        self._rate = self.trainer.learning_rate
        session = self.trainer.session
        record = session.epoch
        if record is not None and record.number == 0 and not self._begun:
            logs = session.epoch_logs(record)
            self.write(row_of(0, 0, logs, record.training.seconds, self._rate))
        self._begun = True

    def on_epoch_end(self, epoch: int, logs: odt.Logs) -> None:
        """Adds the epoch."""
        session = self.trainer.session
        assert session.epoch is not None, "`fit` sets the epoch before its callbacks"
        seconds = session.epoch.training.seconds
        step = session.build().parameters.step
        self.write(row_of(epoch + 1, step, logs, seconds, self._rate))

    def write(self, row: Row) -> None:
        """Writes a row."""
        for log in self._logs:
            log.add(row)

    def warn(self, text: str) -> None:
        """Called with each warning."""


class RunFolder(RowLog):
    """Writes the folder of a run.

    Args:
        path: the folder, which exists.
        recipe: the recipe as TOML.
        monitor: name of the value that selects the best epoch.
        files: files that training reads, by option.
        outputs: paths that training writes outside of the folder, by option.
        tensorboard: whether to write event files too.
    """

    def __init__(
        self,
        path: Path,
        *,
        recipe: str,
        monitor: str,
        files: Mapping[str, Path],
        outputs: Mapping[str, str],
        tensorboard: bool,
    ) -> None:
        super().__init__(path / LOG, path / CSV)
        self._folder = path
        self._monitor = monitor
        self._tensorboard = tensorboard
        self._warnings = read_lines(path / WARNINGS)
        self._earlier = read_run(path).record if (path / RECORD).exists() else {}
        self._record: Record = {
            "format": FORMAT,
            "version": VERSION,
            "state": UNFINISHED,
            "odt": odt.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "kernels": describe_kernels(),
            "platform": platform.platform(),
            "monitor": monitor,
            "files": {name: describe(file) for name, file in files.items()},
            "outputs": {**self._earlier.get("outputs", {}), **outputs},
            "starts": list(self._earlier.get("starts", [])),
        }
        for name, file in self._earlier.get("outputs", {}).items():
            if name not in outputs:
                click.echo(
                    f"Warning: {printable(name)}: the run also wrote {printable(file)} before. It "
                    "is written only if it is given again.",
                    err=True,
                )
        self._put(RECIPE, recipe)

    def begin(self) -> None:
        """Writes what is known before the first epoch; warns of files that have changed."""
        super().begin()
        self._start = time.monotonic()
        self._rows = read_rows(self._folder / LOG)
        self._record["epochs"] = self.params["epochs"]
        self._record["starts"].append(
            {"time": datetime.now(UTC).isoformat(timespec="seconds"), "epoch": self.first()}
        )
        self._put(RECORD, json.dumps(self._record, indent=1))
        for name, now in self._record["files"].items():
            if self._earlier.get("files", {}).get(name, now)["sha256"] != now["sha256"]:
                warn(f"Warning: {now['path']} has changed since the last start of the run.")
        self._put(MEMORY, memory_of(self.trainer))
        self._events = EventFile(self._folder) if self._tensorboard else None
        self._drawn = time.monotonic()  # time of the last drawing

    def write(self, row: Row) -> None:
        """Adds a row to the logs; saves the best epoch."""
        super().write(row)
        self._rows.append(row)
        if self._events:
            self._events.add(row)
        trained = [r for r in self._rows if r["epoch"]]
        if trained and best_row(monitored(self._monitor, trained), trained) is row:
            self.trainer.save_checkpoint(self._folder / BEST)
        if time.monotonic() - self._drawn > INTERVAL:
            self._draw()

    def on_train_end(self, logs: odt.Logs) -> None:
        """Draws the curves and records how training ended."""
        stopped = self.trainer.stop_training
        self._record["state"] = STOPPED if stopped else FINISHED
        self._record["starts"][-1]["seconds"] = round(time.monotonic() - self._start, 3)
        self._put(RECORD, json.dumps(self._record, indent=1))
        self._draw()
        if stopped:
            again = shlex.join(["odt", "train", "--run-dir", str(self._folder)])
            click.echo(f"{again} continues the run.", err=True)

    def warn(self, text: str) -> None:
        """Adds a warning to the list of warnings, unless the run has had it before."""
        if text not in self._warnings:
            self._warnings.append(text)
        self._put(WARNINGS, "".join(f"{line}\n" for line in self._warnings))

    def _draw(self) -> None:
        """Writes the curves of the epochs so far."""
        run = Run(self._folder, {}, self._record, self._rows)
        self._put(CURVES, svg(charts_of(run)))
        self._drawn = time.monotonic()

    def _put(self, name: str, content: Any) -> None:
        text = content if isinstance(content, str) else f"{json.dumps(content)}\n"
        write_atomically(self._folder / name, [text.encode(errors="replace")], OdtError)


def describe(path: Path) -> FileRecord:
    """Returns path, size and SHA-256 of a file, or of all files of a folder together.

    Raises:
        OdtError: if a file cannot be read.
    """
    digest = hashlib.sha256()
    nbytes = 0
    with reading(str(path), "must be a readable file", OdtError):
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            with open_input(file, error=OdtError) as content:
                while chunk := content.read(1 << 20):
                    digest.update(chunk)
                    nbytes += len(chunk)
    return {"path": str(path), "bytes": nbytes, "sha256": digest.hexdigest()}


def memory_of(trainer: odt.Trainer) -> dict[str, object]:
    """Returns the memory of a step: constant parts, and the use of the arenas at each call."""
    core = trainer.session.build()
    memory = core.memory()
    schedule = core.runtime.schedule
    plan = core.runtime.engine_of(0).plan
    return {
        "parameters": memory.parameters,
        "optimizer": memory.slots,
        "gradients": memory.gradients,
        "arena": memory.arena,
        "packed": memory.packed,
        "total": memory.total,
        "batch": schedule.batch,
        "micro_batch": schedule.micro_batch,
        "workers": schedule.workers,
        "forward": plan.forward_entries,
        "arenas": arena_usage(plan, schedule.workers),
    }
