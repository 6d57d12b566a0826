"""Tables of single samples: the most wrong ones, and all of them as CSV."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import printable
from odt.core.training.sample_results import SampleResults
from odt.errors import DataError
from odt.text import table

MAX_NAME = 24  # characters of a class name
MAX_LABEL = 40  # characters of the name of a file
TILE_NAME = 11  # characters of a class name on a contact sheet
CLASSES = ("true", "predicted")

Label = Callable[[int], str]


class SampleTable:
    """Samples as rows of text: number, target and prediction if there is one of each, and loss.

    Attributes:
        results: results of all samples.

    Args:
        results: results of all samples.
        names: class names by class; empty for numbers.
        label: sample → its file or place, for a last column; None for no such column.
    """

    def __init__(self, results: SampleResults, names: Sequence[str], label: Label | None) -> None:
        self.results = results
        self._names = names
        self._label = label

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of the columns."""
        last = ("loss",) if self._label is None else ("loss", "source")
        if self.results.probability is not None:
            return "sample", *CLASSES, "probability", *last
        if self.results.true is not None:
            return "sample", "target", "output", *last
        return "sample", *last

    def cells(self, sample: int) -> tuple[str, ...]:
        """Returns the row of a sample."""
        results = self.results
        label = () if self._label is None else (self._label(sample),)
        last = (f"{results.losses[sample]:.6g}", *label)
        if results.true is None or results.predicted is None:
            return str(sample), *last
        pair = results.true[sample], results.predicted[sample]
        if results.probability is None:
            return str(sample), *(f"{value:.6g}" for value in pair), *last
        names = (self._names[k] if self._names and k >= 0 else str(k) for k in pair)
        return str(sample), *names, f"{results.probability[sample]:.4f}", *last

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yields the heads, and the rows of all samples."""
        yield self.heads
        yield from map(self.cells, range(len(self.results.losses)))

    def wrong(self, samples: Sequence[int]) -> list[str]:
        """Returns the table of the most wrong samples, as lines.

        Args:
            samples: their numbers.
        """
        wrong = len(self.results.wrong)
        total = len(self.results.losses)
        if not samples:
            return [f"wrong: none of {total} samples"]
        title = f"the {len(samples)} of {total} samples with the largest loss:"
        if self.results.probability is not None:
            title = f"wrong: {wrong} of {total} samples; the {len(samples)} with the largest loss:"
        heads = self.heads
        most = [MAX_LABEL if head == "source" else MAX_NAME for head in heads]
        rows = [tuple(map(printable, self.cells(k), most)) for k in samples]
        right = {k for k, head in enumerate(heads) if head not in (*CLASSES, "source")}
        return [title, *table([heads, *rows], right=right)]

    def tile_labels(self, samples: Iterable[int]) -> Iterator[str]:
        """Yields labels of samples on a contact sheet: number, class and predicted class."""
        for k in samples:
            _, *cells = (printable(cell, TILE_NAME) for cell in self.cells(k))
            if self.results.probability is not None:
                yield f"#{k} {cells[0]}\n-> {cells[1]}"
            else:
                yield f"#{k}\nloss {self.results.losses[k]:.4g}"


def write_csv(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Writes rows as CSV in UTF-8.

    Raises:
        DataError: if the file cannot be written.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_atomically(path, [text.getvalue().encode("utf-8", "backslashreplace")], DataError)
