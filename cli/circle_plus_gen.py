"""Adds training info to a model, which makes it a circle+, or shows what it carries."""

import click

from odt.core.exporter import add_training_info
from odt.core.reader import Model, read_model
from odt.core.training_info import stored_training_info
from odt.core.training_json import format_training_json, read_training_json
from odt.errors import OptionError


@click.command()
@click.argument("source", metavar="INPUT", type=click.Path())
@click.argument("hyperparameters", metavar="[JSON]", required=False, type=click.Path())
@click.argument("output", metavar="[OUTPUT]", required=False, type=click.Path())
def command(source: str, hyperparameters: str | None, output: str | None) -> None:
    """Adds the training info in JSON to INPUT and writes OUTPUT, or INPUT itself.

    With INPUT alone, prints what it carries. Everything else in the file stays as it is.
    """
    model = read_model(source)
    if hyperparameters is None:
        click.echo(_dump(model) or "No hyperparameters")
        return
    if output is None and model.format != "circle":
        raise OptionError(
            f"{source}: only a circle file can become a circle+ in place, "
            f"but got {model.format}. Give an OUTPUT."
        )
    target = output or source
    info = read_training_json(hyperparameters, len(model.graph.nodes))
    add_training_info(model, info, target)
    click.echo("succesfully add hyperparameters to the circle file")  # spelled as scripts know it
    click.echo(_dump(read_model(target)))
    click.echo(f"saved in {target}")


def _dump(model: Model) -> str:
    info = stored_training_info(model)
    return format_training_json(info, len(model.graph.nodes)) if info else ""
