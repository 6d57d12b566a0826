"""Show the operators, parameters, training info and metadata of a model.

Nothing is trained or written.
"""

import click

from odt.cli.options.shared import model_argument, selection_options
from odt.cli.output.spelling import spell
from odt.core.lowering.lowered_model import lower_model
from odt.core.model.reader import read_model
from odt.core.recipe.selection import Selection
from odt.summary import describe


@click.command()
@model_argument
@selection_options
def command(
    model: str,
    trainable: tuple[str, ...],
    freeze: tuple[str, ...],
    bias_only: bool,
    freeze_norm: bool,
) -> None:
    """Show the operators of MODEL with their shapes, its parameters, training info and metadata.

    LAST is the --num-of-trainable-ops that trains this operator and all after it; TRAINS is the
    number of parameters it trains. With --trainable, --freeze or --bias-only both columns and the
    list of parameters count the selected weights only.
    """
    selection = Selection(trainable, freeze, bias_only, freeze_norm)
    click.echo(spell(describe(lower_model(read_model(model)), selection)))
