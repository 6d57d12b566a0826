"""Reads .ts files, the text form of the UEA and UCR archives of time series.

After a header of lines that begin with @ there is a series a line: channels with colons between
them, values with commas, the class or value to predict last. Format: documentation of aeon and
sktime.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO

import numpy as np

from odt.core.storage.reading import printable, reading
from odt.datasets.source import ArrayPart, Source
from odt.datasets.table_cells import is_missing
from odt.datasets.table_targets import class_numbers, read_targets
from odt.datasets.tree import unpacked
from odt.errors import DataError
from odt.kernels.rows.opdef import Array

TRUE = "true"
HEADERS = ("@classlabel", "@targetlabel")  # whether series have a class, or a value


def open_series(path: Path, classes: Sequence[str] | None = None) -> Source:
    """Opens a .ts file as samples (steps, channels).

    Args:
        path: the file, optionally compressed.
        classes: class names of a record; None to find them in the file.

    Raises:
        DataError: if the file breaks the format, its series differ in length, or one lacks a
            target.
    """
    with reading(str(path), "must be a .ts file in UTF-8"), closing(unpacked(path)) as data:
        lines = _lines(io.TextIOWrapper(data, "utf-8-sig"))
        header, classes_of_header = _header(path, lines)
        labeled = any(header.get(name, "false").split()[0] == TRUE for name in HEADERS)
        samples, cells = _samples(path, lines, labeled)
    for (cell,) in cells:
        if is_missing(cell) and cell not in classes_of_header:
            raise DataError(f"{path}: each series must have a target, but one has '{cell}'.")
    targets: list[Array] = []
    names: tuple[str, ...] = ()
    if labeled and classes:
        names = tuple(classes)
        targets = [class_numbers(path, [cell for (cell,) in cells], classes)]
    elif labeled:
        values = header.get("@targetlabel", "false") == TRUE
        target, names, _ = read_targets(path, cells, ["class"], (), values)
        targets = [target]
        # The header determines the order of the classes.
        if classes_of_header and {*names} <= {*classes_of_header}:
            targets = [class_numbers(path, [cell for (cell,) in cells], classes_of_header)]
            names = classes_of_header
    part = ArrayPart([samples], targets, bool(names), str(path))
    return Source(str(path), "features", {"all": part}, names)


def _lines(text: IO[str]) -> Iterator[tuple[int, str]]:
    """Yields lines with their numbers from 1, without comments and empty lines."""
    for number, line in enumerate(text, 1):
        content = line.strip()
        if content and not content.startswith(("#", "%")):
            yield number, content


def _header(path: Path, lines: Iterator[tuple[int, str]]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Reads the header; returns names → the rest of their lines in lower case, and class names."""
    header: dict[str, str] = {}
    classes: tuple[str, ...] = ()
    for number, line in lines:
        name, _, rest = line.partition(" ")
        if name.lower() == "@data":
            return header, classes
        if not name.startswith("@"):
            raise DataError(f"{path}: line {number}: must be a header line before @data.")
        header[name.lower()] = rest.strip().lower() or "false"
        if name.lower() == "@classlabel":
            classes = tuple(rest.split()[1:])
    raise DataError(f"{path}: must have a line @data, but has none.")


def _samples(
    path: Path, lines: Iterator[tuple[int, str]], labeled: bool
) -> tuple[Array, list[list[str]]]:
    """Reads all series (series, steps, channels) and the cells of their targets."""
    series: list[Array] = []
    cells: list[list[str]] = []
    for number, line in lines:
        channels = line.split(":")
        if labeled:
            cells.append([channels.pop().strip()])
        if "(" in line:
            raise DataError(
                f"{path}: line {number}: values must stand alone, but have time stamps."
            )
        try:
            values = [
                [np.nan if is_missing(v) else float(v) for v in channel.split(",")]
                for channel in channels
            ]
            sample = np.array(values, np.float32).T
        except ValueError:
            raise DataError(
                f"{path}: line {number}: must hold channels of one length, but got "
                f"'{printable(line, 40)}'."
            ) from None
        if series and sample.shape != series[0].shape:
            raise DataError(
                f"{path}: line {number}: all series must have {series[0].shape[0]} steps of "
                f"{series[0].shape[1]} channels, but this one has {sample.shape}."
            )
        series.append(sample)
    if not series or not series[0].size:
        raise DataError(f"{path}: must have series after @data, but has none.")
    return np.stack(series), cells
