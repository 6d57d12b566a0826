"""Tables of single samples: the most wrong ones, and all of them as CSV."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from odt.core.storage.atomic_files import write_atomically
from odt.core.storage.reading import printable
from odt.core.training.sample_results import SampleResults
from odt.errors import DataError
from odt.text import table

MOST_NAME = 24  # characters of a class name
TILE_NAME = 11  # characters of a class name on a contact sheet

Names = Sequence[str]


def heads(results: SampleResults) -> tuple[str, ...]:
    """Names of the columns of `cells`."""
    if results.probability is not None:
        return "sample", "true", "predicted", "probability", "loss"
    return (
        ("sample", "target", "output", "loss") if results.true is not None else ("sample", "loss")
    )


def cells(results: SampleResults, sample: int, names: Names) -> tuple[str, ...]:
    """One sample as text: number, target and prediction if it has one of each, and loss.

    Args:
        results: of all samples.
        sample: its number.
        names: class names by class; empty for numbers.
    """
    loss = f"{results.losses[sample]:.6g}"
    if results.true is None or results.predicted is None:
        return str(sample), loss
    both = results.true[sample], results.predicted[sample]
    if results.probability is None:
        return str(sample), *(f"{value:.6g}" for value in both), loss
    named = (names[k] if names else str(k) for k in both)
    return str(sample), *named, f"{results.probability[sample]:.4f}", loss


def wrong_table(results: SampleResults, samples: Sequence[int], names: Names) -> list[str]:
    """The most wrong samples, as lines.

    Args:
        results: of all samples.
        samples: numbers of the samples that are listed.
        names: class names.
    """
    found, total = len(results.wrong), len(results.losses)
    if results.probability is None:
        title = f"the {len(samples)} of {total} samples with the largest loss:"
    else:
        title = f"wrong: {found} of {total} samples; the {len(samples)} with the largest loss:"
    if not samples:
        return [f"wrong: none of {total} samples"]
    rows = [heads(results)]
    rows += [tuple(printable(c, MOST_NAME) for c in cells(results, k, names)) for k in samples]
    numbers = {k for k, head in enumerate(rows[0]) if head not in ("true", "predicted")}
    return [title, *table(rows, right=numbers)]


def tile_labels(results: SampleResults, samples: Iterable[int], names: Names) -> Iterator[str]:
    """Labels of samples on a contact sheet: number and class, then the predicted class."""
    for k in samples:
        shown = [printable(c, TILE_NAME) for c in cells(results, k, names)]
        if results.probability is None:
            yield f"#{shown[0]}\nloss {shown[-1]}"
        else:
            yield f"#{shown[0]} {shown[1]}\n-> {shown[2]}"


def write_samples(path: Path, results: SampleResults, names: Names) -> None:
    """Writes all samples as CSV.

    Raises:
        DataError: if the file cannot be written.
    """
    rows = (cells(results, k, names) for k in range(len(results.losses)))
    write_csv(path, [heads(results), *rows])


def write_csv(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Writes rows as CSV in UTF-8.

    Raises:
        DataError: if the file cannot be written.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_atomically(path, [text.getvalue().encode("utf-8", "backslashreplace")], DataError)
