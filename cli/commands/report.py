"""Write a report of a run: one HTML page with curves, samples, memory and recipe."""

from pathlib import Path

import click

from odt.cli.options.sections import Command
from odt.cli.output.output_paths import check_outputs
from odt.cli.runs.page import page
from odt.cli.runs.run import read_run
from odt.core.storage.atomic_files import write_atomically
from odt.errors import OdtError


@click.command(cls=Command)
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The HTML file.  [default: report.html in the folder of the run]",
)
def command(run: Path, output: Path | None) -> None:
    """Write a report of RUN, the folder of a run: one HTML page without external resources."""
    found = read_run(run)
    path = output or run / "report.html"
    check_outputs({"--output": str(path)}, {"the recipe": str(run / "recipe.toml")})
    write_atomically(path, [page(found).encode()], OdtError)
    click.echo(f"{path}: epochs 0 … {found.rows[-1]['epoch'] if found.rows else 0}")
