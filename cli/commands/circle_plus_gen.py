"""Add training info to a model (circle+), show it, or remove it."""

from typing import Any

import click

import odt
from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    batch_size_option,
    hyper_parameter_options,
    training_options,
)
from odt.cli.output.output_paths import check_ending, check_outputs
from odt.cli.output.training_log import warnings_as_lines
from odt.core.model.training_json import format_training_json
from odt.core.options.training_options import RECIPE_OPTIONS
from odt.errors import OdtError


@click.command(cls=Command)
@click.argument("source", metavar="INPUT", type=click.Path())
@click.argument("hyperparameters", metavar="[JSON]", required=False, type=click.Path())
@click.argument("output", metavar="[OUTPUT]", required=False, type=click.Path())
@training_options
@batch_size_option
@hyper_parameter_options
@click.option("--remove", is_flag=True, help="Remove the training info.")
def command(
    source: str,
    hyperparameters: str | None,
    output: str | None,
    last: int | None,
    remove: bool,
    **options: Any,
) -> None:
    """Add training info to the model INPUT (circle+).

    JSON holds the training info. The result is written to OUTPUT, or to INPUT if OUTPUT is left
    out; everything else in the file stays unchanged. With INPUT alone, print its training info.

    Options override JSON, and JSON overrides the training info of INPUT. With options, JSON may be
    left out: a second argument that does not end in .json is then OUTPUT.
    """
    has_options = last is not None or any(value is not None for value in options.values())
    has_json = hyperparameters is not None and hyperparameters.lower().endswith(".json")
    if remove and (has_options or has_json or output is not None):
        actual = hyperparameters if has_json else "more"
        raise OdtError(f"--remove: must be given with INPUT and OUTPUT only, but got {actual}")
    if remove or (has_options and output is None and not has_json):
        # The second argument is OUTPUT.
        output = hyperparameters
        hyperparameters = None
    from odt.models.model import file_of  # imports NumPy, which --help does not

    model = odt.load_model(source)
    file_of(model).check_flatbuffer("training info")
    target = output or model.path
    read = {"JSON": hyperparameters, "INPUT": model.path}
    in_place = [("OUTPUT", "INPUT")] if remove or model.format == "circle" else []
    check_outputs({"OUTPUT": output}, read, in_place)
    if output:
        check_ending("OUTPUT", output, model.format if remove else "circle+")
    if remove:
        odt.remove_training_info(model, target)
        click.echo(f"removed hyperparameters; saved in {target}")
        return
    if hyperparameters is None and not has_options:
        click.echo(_dump(model) or "No hyperparameters")
        return
    if output is None and model.format != "circle":
        raise OdtError(
            f"{source}: only a circle file can become a circle+ in place, "
            f"but got {model.format}. Give an OUTPUT."
        )
    arguments = {}
    if has_options:
        arguments = {name: options.pop(name) for name in RECIPE_OPTIONS if name in options}
        arguments |= {"hyper_parameters": options, "trainable": odt.Trainable(last)}
    with warnings_as_lines():
        odt.write_circle_plus(model, target, hyperparameters, **arguments)
    # Scripts look for these words, as ONE's tool spells them.
    click.echo("succesfully add hyperparameters to the circle file")
    click.echo(_dump(odt.load_model(target)))
    click.echo(f"saved in {target}")


def _dump(model: odt.Model) -> str:
    """Returns the training info of a model as JSON; empty for none."""
    info = model.training_info
    return format_training_json(info, len(model.nodes)) if info else ""
