"""Add training info to a model (circle+), show it, or remove it."""

from dataclasses import asdict, replace
from typing import Any

import click

import odt
from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    LOSS_FIELDS,
    batch_size_option,
    hyper_parameter_options,
    training_options,
)
from odt.cli.output.output_paths import check_ending, check_outputs
from odt.core.export.exporter import add_training_info, remove_training_info
from odt.core.formats.flatbuffer.training_info_buffer import stored_training_info
from odt.core.formats.reader import read_model
from odt.core.model.model import Model
from odt.core.model.training_info import TrainingInfo
from odt.core.model.training_json import format_training_json, read_training_json
from odt.core.recipe.prepare import Request
from odt.core.recipe.resolve import values_used
from odt.errors import OdtError
from odt.training.recipes import recipe_of

FIELDS = (*LOSS_FIELDS, "optimizer", "learning_rate", "batch_size")


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
    num_of_trainable_ops: int | None,
    remove: bool,
    **options: Any,
) -> None:
    """Add training info to the model INPUT (circle+).

    JSON holds the training info. The result is written to OUTPUT, or to INPUT if OUTPUT is left
    out; everything else in the file stays unchanged. With INPUT alone, print its training info.

    Options override JSON, and JSON overrides the training info of INPUT. With options, JSON may be
    left out: a second argument that does not end in .json is then OUTPUT.
    """
    chosen = num_of_trainable_ops is not None or any(v is not None for v in options.values())
    named_json = hyperparameters is not None and hyperparameters.lower().endswith(".json")
    if remove and (chosen or named_json or output is not None):
        got = hyperparameters if named_json else "more"
        raise OdtError(f"--remove: must be given with INPUT and OUTPUT only, but got {got}")
    if remove or (chosen and output is None and not named_json):
        hyperparameters, output = None, hyperparameters
    model = read_model(source)
    target = output or model.path
    read = {"JSON": hyperparameters, "INPUT": model.path}
    in_place = [("OUTPUT", "INPUT")] if remove or model.format == "circle" else []
    check_outputs({"OUTPUT": output}, read, in_place)
    if output:
        check_ending("OUTPUT", output, model.format if remove else "circle+")
    if remove:
        remove_training_info(model, target)
        click.echo(f"removed hyperparameters; saved in {target}")
        return
    if hyperparameters is None and not chosen:
        click.echo(_dump(model) or "No hyperparameters")
        return
    if output is None and model.format != "circle":
        raise OdtError(
            f"{source}: only a circle file can become a circle+ in place, "
            f"but got {model.format}. Give an OUTPUT."
        )
    info = _info(model, hyperparameters, num_of_trainable_ops, options if chosen else None)
    add_training_info(model, info, target)
    click.echo("succesfully add hyperparameters to the circle file")  # spelled as scripts know it
    click.echo(_dump(read_model(target)))
    click.echo(f"saved in {target}")


def _info(
    model: Model, path: str | None, number: int | None, options: dict[str, Any] | None
) -> TrainingInfo:
    """Merges JSON and options; what neither gives is as in training."""
    graph = model.graph
    read = read_training_json(path, len(graph.nodes), _warn) if path else None
    if options is None:
        assert read is not None, "there is JSON or there are options"
        return read
    given = {name: options.pop(name) for name in FIELDS}
    request = Request(**given, hyper_parameters=options, last=number)
    saved = {} if read is None else asdict(read)
    recipe, _ = recipe_of(odt.Model(model), request, lambda _: saved, trains=False)
    return values_used(graph, replace(recipe.info, loss=recipe.losses[0].name))


def _warn(line: str) -> None:
    click.echo(f"Warning: {line}", err=True)


def _dump(model: Model) -> str:
    info = stored_training_info(model)
    return format_training_json(info, len(model.graph.nodes)) if info else ""
