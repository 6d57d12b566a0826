"""Show the operators, parameters, training info and metadata of a model.

Nothing is trained or written.
"""

import importlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

import odt
from odt.cli.options.sections import typed_options
from odt.cli.options.shared import interface_options, model_argument, selection_options
from odt.cli.options.types import NewFile
from odt.cli.output.output_paths import check_outputs
from odt.cli.output.spelling import spell
from odt.core.recipe.selection import Selection
from odt.core.storage.atomic_files import write_atomically
from odt.errors import OdtError
from odt.models.adapter_summary import adapter_values, describe_adapters, is_adapter_file
from odt.models.model import lowered_of
from odt.models.summary import inspect_selected


@click.command()
@model_argument
@interface_options
@selection_options
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option(
    "--svg",
    type=NewFile(".svg"),
    metavar="FILE",
    help="Draw the graph of the operators as SVG; operators with trainable parameters are filled.",
)
def command(
    model: str,
    signature: str | None,
    input_shapes: Mapping[str, tuple[int, ...]] | None,
    input_values: Mapping[str, Any] | None,
    patterns: tuple[str, ...],
    freeze: tuple[str, ...],
    bias_only: bool,
    freeze_norm: bool,
    as_json: bool,
    svg: str | None,
) -> None:
    """Show the operators of MODEL with their shapes, its parameters, training info and metadata.

    MODEL may also be a file of low-rank adapters: it is shown with rank, alpha and weights.

    LAST is the --num-of-trainable-ops that trains this operator and all after it; TRAINS is the
    number of parameters it trains. Constants that do not train are listed with the reason. With
    --trainable, --freeze or --bias-only, both columns and the list of parameters count only the
    selected weights.
    """
    if is_adapter_file(model):
        _show_adapters(model, as_json=as_json)
        return
    source = odt.load_model(
        model, signature=signature, input_shapes=input_shapes, input_values=input_values
    )
    check_outputs({"--svg": svg}, {"MODEL": source.path})
    lowered = lowered_of(source)
    selection = Selection(patterns, freeze, bias_only, freeze_norm)
    # Imported where they are used, because the summary needs neither picture nor JSON.
    if svg:
        graph_picture = importlib.import_module("odt.charts.graph_picture")
        picture = graph_picture.draw(lowered.file.graph, inspect_selected(lowered, selection))
        write_atomically(svg, [picture.encode()], OdtError)
    if as_json:
        model_json = importlib.import_module("odt.cli.output.model_json")
        content = model_json.content_of(lowered, inspect_selected(lowered, selection))
        click.echo(json.dumps(content, indent=1))
    elif not svg:
        text = source.summary(**asdict(selection))
        click.echo(spell(text))


def _show_adapters(path: str, *, as_json: bool) -> None:
    """Prints a file of adapters; refuses options of models."""
    given = typed_options(besides=("as_json",))
    if given:
        raise OdtError(f"{', '.join(given)}: must be left out for {path}, a file of adapters.")
    if as_json:
        click.echo(json.dumps(adapter_values(path), indent=1))
    else:
        click.echo(describe_adapters(path))
