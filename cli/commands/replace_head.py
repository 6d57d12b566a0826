"""Replace the last layer of a model, for other classes (transfer learning)."""

import os

import click

from odt.cli.options.shared import given, model_argument
from odt.cli.output.output_paths import FORMATS, check_outputs
from odt.core.export.exporter import export_model
from odt.core.export.replace_head import replace_head
from odt.core.model.reader import read_model
from odt.errors import OdtError


@click.command()
@model_argument
@click.option(
    "--classes", type=click.IntRange(2), metavar="N", help="Number of classes of the new output."
)
@click.option(
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="File of the new model; its ending, .circle or .tflite, selects the format.",
)
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="K",
    help="Operator whose output the new layer reads, by its number in odt inspect.  "
    "[default: the one before the last layer with weights]",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Random seed of the new weights.",
)
def command(
    model: str, classes: int | None, output: str | None, after: int | None, seed: int
) -> None:
    """Replace the last layer of MODEL by a new FULLY_CONNECTED and SOFTMAX (transfer learning).

    The layers before stay unchanged. Tensors that only the old layer needs are removed, as are
    class names, signatures and training info, which describe the old outputs. Features with axes
    between batch and channels, such as height and width, are averaged over these axes.
    """
    count = given("--classes", classes, "how many the new output has")
    path = given("--output", output, "the file that is written")
    ending = os.path.splitext(path)[1].lower()
    if ending not in FORMATS:
        raise OdtError(
            f"--output {path}: must end in {' or '.join(FORMATS)}, but got {ending or 'none'}."
        )
    source = read_model(model)
    check_outputs({"--output": path}, {"MODEL": source.path})
    new = replace_head(source, count, after, seed)
    export_model(new, {}, path, FORMATS[ending])
    names = [source.graph.label(i) for i in source.graph.outputs]
    click.echo(f"{path}: {count} classes in place of {', '.join(names)}")
    click.echo("The new layer alone trains with --num-of-trainable-ops 2.")
