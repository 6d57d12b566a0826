"""Measure the rates of this machine, for odt plan --board on another one."""

import click

import odt
from odt.cli.options.sections import Command
from odt.cli.options.training_run import load_training
from odt.cli.output.output_paths import check_outputs
from odt.core.storage.atomic_files import write_atomically


@click.command(cls=Command)
@click.option(
    "--name", default="", metavar="NAME", help="Name of the board.  [default: name of this machine]"
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="Write the rates to FILE instead of printing them.",
)
def command(name: str, output: str | None) -> None:
    """Measure the rates of this machine in a few seconds, and print them as JSON.

    Small networks train on one core while it measures. With the file of --output, odt plan --board
    FILE estimates on any machine how long a run takes here, and whether it fits.
    """
    check_outputs({"--output": output}, {})
    load_training()
    board = odt.benchmark_board(name)
    if output is None:
        click.echo(str(board))
    else:
        write_atomically(output, [f"{board}\n".encode()])
        click.echo(f"{output}: rates of {board.name}")
