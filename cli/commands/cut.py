"""Cut a part out of a model, to train it alone."""

import click

import odt
from odt.cli.options.shared import model_argument, require
from odt.cli.output.output_paths import FORMATS, check_outputs, extension_of
from odt.cli.output.training_log import warnings_as_lines
from odt.models.model import file_of


@click.command()
@model_argument
@click.option(
    "--after",
    multiple=True,
    metavar="TENSOR",
    help="Name or number of a tensor that becomes an input; may be given several times. What only "
    "operators before it need is left out.",
)
@click.option(
    "--before",
    multiple=True,
    metavar="TENSOR",
    help="Name or number of a tensor that becomes an output in place of the model's; may be given "
    "several times. Operators after it are left out.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="File of the part; its extension, .circle or .tflite, selects the format.",
)
def command(
    model: str, after: tuple[str, ...], before: tuple[str, ...], output: str | None
) -> None:
    """Cut a part out of MODEL, to train it alone.

    --after removes a front end that odt cannot compute, such as a spectrogram; --before a back end,
    such as the post-processing of a detector. odt check prints the options of the largest part that
    odt can train, odt inspect the tensors. Training info, preprocessing record and TFLite Model
    Metadata, which describe the whole model, are left out. odt join puts the trained part back.
    """
    path = require("--output", output, "the file that is written")
    extension_of("--output", path, FORMATS)
    source = odt.load_model(model)
    check_outputs({"--output": path}, {"MODEL": source.path})
    with warnings_as_lines():
        part = odt.cut(source, after, before)
        part.save(path)
    graph = file_of(part).graph
    inputs, outputs = (", ".join(map(graph.label, ends)) for ends in (graph.inputs, graph.outputs))
    count = f"{len(part.nodes)} of {len(source.nodes)} operators"
    click.echo(f"{path}: {count}, from {inputs} to {outputs}")
