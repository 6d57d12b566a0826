"""Where the samples of a data file come from: their files, or the columns of a table."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from odt.core.data.sidecar import Sidecar, read_sidecar
from odt.core.model.record import record_of
from odt.data.sources import DataSet
from odt.datasets.recorded_steps import parse_steps
from odt.errors import OdtError
from odt.kernels.rows.opdef import Array

FILES = "sample files"  # key of a sidecar


class Columns:
    """The columns of a table; in a sample, a column of words has a number for each word.

    Args:
        names: names of the numbers of a sample.
        table: description of the table in a preprocessing record.
    """

    def __init__(self, names: Sequence[str], table: Any) -> None:
        self._names = names
        self._words = _words(table, names)
        name_of = {k: name for name, words in self._words.items() for k in words.values()}
        # Columns as in the table: name, or position of the number.
        self._order = dict.fromkeys(name_of.get(k, k) for k in range(len(names)))

    @property
    def heads(self) -> list[str]:
        """Names of the columns."""
        return [n if isinstance(n, str) else self._names[n] for n in self._order]

    def cells(self, row: Array) -> list[str]:
        """Returns the cells of a row; a cell is empty if its word is unknown or its number missing.

        Args:
            row: numbers of a sample, in the units of the table.
        """
        return [self._word(n, row) if isinstance(n, str) else _number(row[n]) for n in self._order]

    def _word(self, name: str, row: Array) -> str:
        positions = self._words[name]
        word = max(positions, key=lambda w: row[positions[w]])
        return word if row[positions[word]] > 0.5 else ""


class SampleOrigin:
    """The description of a data file.

    Attributes:
        kind: image, sound or features; empty if it is unknown.
        files: path of the file of each sample in the folder of the data; empty if samples are no
            files.
        columns: columns of a table; None for other data.
        targets: names of the values to predict; empty if they are unknown.

    Args:
        sidecar: the description; None for none.
        size: numbers of a sample.
    """

    def __init__(self, sidecar: Sidecar | None, size: int) -> None:
        recipe: Mapping[str, Any] = sidecar.recipe if sidecar else {}
        kind = recipe.get("kind")
        self.kind = kind if isinstance(kind, str) else ""
        self.files: list[str] = []
        files = recipe.get(FILES)
        if sidecar and isinstance(files, list) and len(files) == sidecar.samples:
            self.files = [*map(str, files)]
        self.columns: Columns | None = None
        columns = recipe.get("columns")
        if isinstance(columns, list) and columns and len(columns) == size:
            self.columns = Columns([*map(str, columns)], recipe.get("table"))
        self._steps = recipe.get("preprocessing", ())
        self.targets: Sequence[str] = ()
        if sidecar:
            with suppress(ValueError):  # of a record of another form
                record = record_of(sidecar.record_content)
                self.targets = record.targets if record else ()

    def unscaled(self, row: Array) -> Array:
        """Returns a row in the units of the table, without its standardization.

        Args:
            row: the row, as in the data file.
        """
        values = row.reshape(-1).astype(float)
        try:
            steps = parse_steps(self._steps)
        except OdtError:
            return values
        if len(steps.std) in (1, len(values)):
            values *= np.asarray(steps.std)
        if len(steps.mean) in (1, len(values)):
            values += np.asarray(steps.mean)
        return values


def origin_of(inputs: Any, size: int) -> SampleOrigin:
    """Returns the origin of inputs: those of a data file with a sidecar, or nothing."""
    path = inputs.x if isinstance(inputs, DataSet) else inputs
    has_path = isinstance(path, str | os.PathLike)
    return SampleOrigin(read_sidecar(os.fspath(path)) if has_path else None, size)


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6g}"


def _words(table: Any, columns: Sequence[str]) -> dict[str, dict[str, int]]:
    """Returns the columns of words: name → word → position of its number in a sample."""
    position = {name: k for k, name in enumerate(columns)}
    described = table.get("columns") if isinstance(table, Mapping) else None
    if not isinstance(described, list):
        return {}
    words: dict[str, dict[str, int]] = {}
    for column in described:
        if not isinstance(column, dict) or not isinstance(column.get("words"), list):
            continue
        name = str(column.get("name"))
        names = {str(word): f"{name}={word}" for word in column["words"]}
        if names and all(text in position for text in names.values()):
            words[name] = {word: position[text] for word, text in names.items()}
    return words
