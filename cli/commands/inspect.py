"""Shows what a model holds and what of it would train.

Nothing is trained and nothing is written.
"""

import click

from odt.cli.options.shared import model_argument, selection_options
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
    """Shows what MODEL holds: operators with their shapes, parameters, training info, metadata.

    The column LAST is what to give as --num-of-trainable-ops to train this operator and all
    after it; TRAINS is how many values that would train. With --trainable, --freeze or
    --bias-only both count and list only what is so selected.
    """
    selection = Selection(trainable, freeze, bias_only, freeze_norm)
    click.echo(describe(read_model(model), selection))
