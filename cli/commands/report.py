"""Write a report of a run: one HTML page with curves, samples, memory and recipe."""

from pathlib import Path

import click

from odt.cli.options.sections import Command
from odt.cli.options.training_run import refuse_alone
from odt.cli.output.output_paths import check_outputs
from odt.cli.runs.held_samples import sample_sections
from odt.cli.runs.page import page
from odt.cli.runs.run import RECIPE, read_run
from odt.core.storage.atomic_files import write_atomically
from odt.errors import OdtError


@click.command(cls=Command)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--load-input",
    type=click.Path(),
    metavar="FILE",
    help="Model inputs of test samples to evaluate.  [default: the run's validation samples]",
)
@click.option(
    "--load-expected",
    type=click.Path(),
    metavar="FILE",
    help="Expected outputs of the test samples.",
)
@click.option(
    "--wrong",
    type=click.IntRange(0),
    default=24,
    show_default=True,
    metavar="N",
    help="Number of most wrong samples to show.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The HTML file.  [default: report.html in the folder of the run]",
)
def command(
    run: Path,
    load_input: str | None,
    load_expected: str | None,
    wrong: int,
    output: Path | None,
) -> None:
    """Write a report of the run in the folder RUN: one HTML page without external resources.

    The trained model is evaluated on the validation samples of the run, or on test samples. The
    report shows the confusion matrix, and the most wrong samples as images, spectrograms or curves.
    """
    refuse_alone("--load-input", load_input, "--load-expected", load_expected)
    refuse_alone("--load-expected", load_expected, "--load-input", load_input)
    record = read_run(run)
    path = output or run / "report.html"
    read = {"--load-input": load_input, "--load-expected": load_expected}
    check_outputs({"--output": str(path)}, {**read, "the recipe": str(run / RECIPE)})
    given = (load_input, load_expected) if load_input and load_expected else None
    sections = sample_sections(record, given, wrong)
    write_atomically(path, [page(record, sections).encode(errors="replace")], OdtError)
    click.echo(f"{path}: epochs 0 … {record.rows[-1]['epoch'] if record.rows else 0}")
