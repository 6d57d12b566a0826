"""Makes an nnpackage of a model, as model2nnpkg does."""

from pathlib import Path

import click

from odt.cli.options.shared import model_argument
from odt.core.model.nnpackage import write_package
from odt.core.model.reader import read_model


@click.command()
@model_argument
@click.option(
    "-o",
    "--out-dir",
    "--outdir",
    "out_dir",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="D",
    help="Folder that will hold the package; the current one if left out.",
)
@click.option(
    "-p",
    "--nnpkg-name",
    metavar="NAME",
    help="Name of the package; the model's, without extension, if left out.",
)
@click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Lines key=value for the runtime.",
)
def command(model: str, out_dir: Path, nnpkg_name: str | None, config: Path | None) -> None:
    """Makes a folder with a copy of MODEL and the MANIFEST that names it."""
    source = read_model(model)
    path = Path(source.path)
    folder = out_dir / (nnpkg_name or path.stem)
    write_package(path, source.format, folder, config)
    click.echo(f"package: Generating nnpkg {folder.name} in {out_dir}")
