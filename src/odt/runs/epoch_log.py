"""Logs of a run: one row for each epoch, as CSV or JSON lines.

Rows are appended: a killed run leaves all complete rows, and readers leave out a last line that is
incomplete.
"""

import csv
import io
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import printable, read_input, reading, unwritable
from odt.errors import OdtError

Row = dict[str, Any]
ENDINGS = (".csv", ".jsonl")
MAX_BYTES = 1 << 26  # of a log that is read
MAX_VALUES = 2_000_000  # of a log: rows × names
MAX_VALUE = 1e300  # larger ones have no place on an axis
MAX_EPOCH = 10**9  # larger ones leave no room for fractions of an epoch on an axis


def row_of(number: int, step: int, logs: Mapping[str, float], seconds: float, rate: float) -> Row:
    """Returns the row of an epoch; values that are not finite become None.

    Args:
        number: number of the epoch; 0 for the results before training.
        step: updates so far.
        logs: loss and metrics by name.
        seconds: time of the training steps.
        rate: learning rate of the epoch's first step.
    """
    values = {name: value if math.isfinite(value) else None for name, value in logs.items()}
    rest = {"seconds": round(seconds, 6), "learning_rate": rate}
    return {"epoch": number, "step": step, **values, **rest}


class EpochLog:
    """Writes rows to a file: CSV if its name ends in .csv, JSON lines if it ends in .jsonl.

    Args:
        path: the file.
        first: number of the next epoch; rows of earlier epochs are kept, for a resumed run.

    Raises:
        OdtError: if the file has another extension or cannot be written.
    """

    def __init__(self, path: Path, first: int = 0) -> None:
        self._path = path
        self._csv = path.suffix.lower() == ".csv"
        if path.suffix.lower() not in ENDINGS:
            endings = " or ".join(ENDINGS)
            raise OdtError(f"{path}: a log must end in {endings}, but got {path.suffix or 'none'}.")
        lines = _complete_lines(path) if first > 1 else []
        head = lines[:1] if self._csv else []
        self._names = head[0].split(",") if head else []
        rows = [line for line in lines if line not in head]  # two runs at once wrote two heads
        rows_before = head + [line for line in rows if self._epoch(line) < first]
        write_atomically(path, [f"{line}\n".encode() for line in rows_before], OdtError)

    def add(self, row: Row) -> None:
        """Appends a row."""
        append(self._path, self._line(row).encode(), sync=True)

    def _epoch(self, line: str) -> int:
        with reading(str(self._path), "must be a log of epochs", OdtError):
            return int(line.partition(",")[0] if self._csv else json.loads(line)["epoch"])

    def _line(self, row: Row) -> str:
        if not self._csv:
            return json.dumps(row) + "\n"
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self._names:
            self._names = list(row)
            writer.writerow(self._names)
        writer.writerow([row.get(name) for name in self._names])
        return text.getvalue()


def append(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Appends bytes to a file.

    Args:
        path: the file.
        data: the bytes.
        sync: whether to wait until they are on the disk, where a power failure leaves them.

    Raises:
        OdtError: if the file cannot be written.
    """
    try:
        with path.open("ab") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
    except OSError as e:
        raise OdtError(unwritable(path, e)) from e


def read_rows(path: Path) -> list[Row]:
    """Reads the rows of a log of JSON lines; a missing file has none.

    Raises:
        OdtError: if the file is not a log of JSON lines.
    """
    rows: list[Row] = []
    names: set[str] = set()
    with reading(str(path), "must be a log of JSON lines", OdtError):
        for line in _complete_lines(path):
            row = json.loads(line)
            if not all(map(_is_value, row.values())) or not _is_epoch(row["epoch"]):
                raise ValueError(printable(line))
            if row["seconds"] is None:
                raise ValueError(printable(line))
            rows.append(row)
            names.update(row)
            if len(rows) * len(names) > MAX_VALUES:
                raise ValueError(f"more than {MAX_VALUES} values")
    return rows


def _is_value(value: Any) -> bool:
    """Whether a value is None or a finite number that a chart can show."""
    return value is None or (type(value) in (int, float) and abs(value) <= MAX_VALUE)


def _is_epoch(value: Any) -> bool:
    """Whether a value is the number of an epoch."""
    return type(value) is int and 0 <= value <= MAX_EPOCH


def _complete_lines(path: Path) -> list[str]:
    """Returns the complete lines of a file; none if there is no file."""
    if not path.exists():
        return []
    with reading(str(path), "must be a log of epochs", OdtError):
        return read_input(path, "a log", OdtError, MAX_BYTES).decode().split("\n")[:-1]
