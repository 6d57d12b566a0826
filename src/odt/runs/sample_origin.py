"""Where the samples of a data file come from: their files, or the columns of a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from odt.core.data.sidecar import Sidecar, read_sidecar
from odt.datasets.recorded_steps import parse_steps
from odt.errors import OdtError
from odt.kernels.rows.opdef import Array

FILES = "sample files"  # key of a sidecar


class SampleOrigin:
    """The description of a data file.

    Attributes:
        kind: image, sound or features; empty if it is unknown.
        files: path of the file of each sample in the folder of the data; empty if samples are no
            files.
        heads: names of the columns of a table; empty for other data.

    Args:
        sidecar: the description; None for none.
        size: numbers of a sample.
    """

    def __init__(self, sidecar: Sidecar | None, size: int) -> None:
        recipe: Mapping[str, Any] = sidecar.recipe if sidecar else {}
        kind = recipe.get("kind")
        self.kind = kind if isinstance(kind, str) else ""
        files = recipe.get(FILES)
        has_files = sidecar is not None and isinstance(files, list)
        names = list(map(str, files)) if has_files and files else []
        self.files = names if sidecar and len(names) == sidecar.samples else []
        columns = recipe.get("columns")
        is_row = isinstance(columns, list) and len(columns) == size
        self._columns = [str(name) for name in columns or ()] if is_row else []
        self._words = _words(recipe, self._columns)
        name_of = {k: name for name, words in self._words.items() for k in words.values()}
        # Columns as in the table: name, or position of the number.
        self._order = dict.fromkeys(name_of.get(k, k) for k in range(len(self._columns)))
        self._steps = recipe.get("preprocessing", ())

    @property
    def heads(self) -> list[str]:
        """Names of the columns of a row."""
        return [n if isinstance(n, str) else self._columns[n] for n in self._order]

    def cells(self, row: Array) -> list[str]:
        """Returns the cells of a row, in the units of the table.

        Args:
            row: the row, as in the data file.
        """
        values = self._unscaled(row)
        return [
            self._word(n, values) if isinstance(n, str) else f"{values[n]:.6g}" for n in self._order
        ]

    def _word(self, name: str, values: Array) -> str:
        """Returns the word of a column; empty if the row has none."""
        positions = self._words[name]
        word = max(positions, key=lambda w: values[positions[w]])
        return word if values[positions[word]] > 0.5 else ""

    def _unscaled(self, row: Array) -> Array:
        """Undoes the standardization of a row."""
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
    return SampleOrigin(read_sidecar(inputs) if isinstance(inputs, str) else None, size)


def _words(recipe: Mapping[str, Any], columns: Sequence[str]) -> dict[str, dict[str, int]]:
    """Returns the columns of words: name → word → position of its number in a sample."""
    position = {name: k for k, name in enumerate(columns)}
    table = recipe.get("table")
    described = table.get("columns") if isinstance(table, dict) else None
    words: dict[str, dict[str, int]] = {}
    for column in described if isinstance(described, list) else ():
        if not isinstance(column, dict) or not isinstance(column.get("words"), list):
            continue
        name = str(column.get("name"))
        names = {str(word): f"{name}={word}" for word in column["words"]}
        if names and all(text in position for text in names.values()):
            words[name] = {word: position[text] for word, text in names.items()}
    return words
