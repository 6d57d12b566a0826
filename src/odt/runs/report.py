"""Writes the report of a run: one HTML page."""

from pathlib import Path as File
from typing import Any

from odt.arguments import checked_arguments
from odt.core.recipe.option_values import check_whole
from odt.core.storage.atomic_files import write_atomically
from odt.core.training.passes import Seen
from odt.data.sources import parts_of
from odt.errors import OdtError, OptionError
from odt.habits import known_arguments
from odt.models.model import Path
from odt.runs.page import page
from odt.runs.run import PAGE, Run, read_run
from odt.runs.sample_sections import sample_sections


@known_arguments()
@checked_arguments
def report(
    run: Run | Path,
    x: Any = None,
    y: Any = None,
    *,
    wrong: int = 24,
    out: Path | None = None,
    progress: Seen | None = None,
) -> Run:
    """Writes a report of a run, as `odt report` does: one HTML page without external resources.

    The page has the curves of loss, metrics and learning rate, the log, the memory of a step, the
    recipe and the versions and files. The trained model is evaluated, and the page shows the
    confusion matrix, the figures of each class and the most wrong samples as images, spectrograms
    or curves.

    Args:
        run: the folder of a run that `odt train` wrote, or is writing; or a Run, as `read_run`
            returns it.
        x: inputs (N, …) of test samples, or a DataSet, as in `Trainer.evaluate`; None for the
            run's validation samples.
        y: targets (N, …) of the test samples; left out with a DataSet.
        wrong: number of samples with the largest errors to show.
        out: path of the page. Default: report.html in the folder of the run.
        progress: called after each batch with the number of samples computed so far and the number
            of all samples.

    Returns:
        The run, with its recipe and the results of each epoch.

    Raises:
        OdtError: if the folder is not a run's, one of its files is damaged, or the page cannot be
            written.
        DataError: if the samples cannot be read or do not fit the model.
        OptionError: if inputs or targets are given alone, or `y` with a DataSet.
    """
    inputs, targets, _ = parts_of(x, y)
    if (inputs is None) != (targets is None):
        raise OptionError("x, y", "must be given together", "one of them")
    check_whole("wrong", wrong, 0)
    record = run if isinstance(run, Run) else read_run(run)
    path = File(out) if out is not None else record.path / PAGE
    sections = sample_sections(record, None if x is None else (x, y), wrong, progress)
    write_atomically(path, [page(record, sections).encode(errors="replace")], OdtError)
    return record
