"""Make an nnpackage from a model, as model2nnpkg does."""

from pathlib import Path

import click

import odt
from odt.cli.options.shared import model_argument
from odt.errors import OdtError


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
    help="Folder for the package; the current one if left out.",
)
@click.option(
    "-p",
    "--nnpkg-name",
    metavar="NAME",
    help="Package name; the model's file name without extension if left out.",
)
@click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Runtime configuration: lines of key=value.",
)
def command(model: str, out_dir: Path, nnpkg_name: str | None, config: Path | None) -> None:
    """Make an nnpackage: a folder with a copy of MODEL and a MANIFEST."""
    source = odt.load_model(model)
    name = Path(source.path).stem if nnpkg_name is None else nnpkg_name
    if name in {"", ".", ".."} or Path(name).name != name:
        raise OdtError(f"--nnpkg-name: must be the name of a new folder, but got {name}.")
    folder = out_dir / name
    source.save_package(folder, config)
    click.echo(f"package: Generating nnpkg {folder.name} in {out_dir}")
