"""Show the differences between two models, layer by layer."""

import click

from odt.core.formats.reader import read_model
from odt.core.recipe.lowered_model import lower_model
from odt.evaluation.comparison import compare_models, describe_difference


@click.command()
@click.argument("first", metavar="A", type=click.Path())
@click.argument("second", metavar="B", type=click.Path())
def command(first: str, second: str) -> None:
    """Show the differences between the models A and B: constants, operators, signatures, metadata.

    For each constant: how many values differ, the largest absolute difference, and the norm of the
    difference relative to the norm in A. Weights are compared as float32. The exit status is 1 if
    the models differ.
    """
    difference = compare_models(
        *(lower_model(read_model(path), outputs="file") for path in (first, second))
    )
    click.echo("\n".join(describe_difference(difference, (first, second))))
    if not difference.is_empty:
        raise click.exceptions.Exit(1)
