"""Replace the last layers of a model for another task (transfer learning)."""

import click

from odt.cli.options.shared import given, model_argument, signature_option
from odt.cli.options.types import Numbers
from odt.cli.output.output_paths import FORMATS, check_outputs, extension_of
from odt.cli.output.training_log import warnings_as_lines
from odt.core.export.exporter import export_model
from odt.core.export.replace_head import ACTIVATIONS, Replaced, replace_head
from odt.core.formats.reader import read_model
from odt.models.transfer import head_of


@click.command()
@model_argument
@signature_option
@click.option(
    "--classes",
    type=click.IntRange(1),
    metavar="N",
    help="Number of classes of the new output; with --activation linear its number of values.",
)
@click.option(
    "--like",
    type=click.Path(),
    metavar="DATA",
    help="Data file, instead of --classes. The file of expected outputs beside it determines "
    "number, names and kind of the classes.",
)
@click.option(
    "--activation",
    type=click.Choice(list(ACTIVATIONS)),
    show_default="as --like, else softmax",
    help="softmax: each sample has one class. sigmoid: classes do not exclude each other, or one "
    "yes/no output. linear: regression.",
)
@click.option(
    "--hidden",
    type=Numbers(),
    help="Units of new layers with RELU before the last, such as 64,32.  [default: none]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="File of the new model; its extension, .circle or .tflite, selects the format.",
)
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="K",
    help="Operator whose output the new layers read, by its number in odt inspect.  [default: the "
    "last global pooling over height and width that a layer reads, or else the operator before "
    "the last layer with weights]",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Random seed of the new weights.",
)
def command(
    model: str,
    signature: str | None,
    classes: int | None,
    like: str | None,
    activation: str | None,
    hidden: tuple[int, ...] | None,
    output: str | None,
    after: int | None,
    seed: int,
) -> None:
    """Replace the last layers of MODEL with new ones for another task (transfer learning).

    Earlier layers stay unchanged, and tensors that only the old layers need are removed. Signatures
    name the new output. Class names are replaced by those of --like, or removed. Training info is
    removed; other metadata stays. If the features have axes between batch and channels, such as
    height and width, the new layers average over them.
    """
    path = given("--output", output, "the file that is written")
    extension = extension_of("--output", path, FORMATS)
    head = head_of(classes, like, activation, hidden or ())
    source = read_model(model, signature)
    check_outputs({"--output": path}, {"MODEL": source.path, "--like": like})
    with warnings_as_lines():
        new = replace_head(source, head, after, seed)
    export_model(new.model, {}, path, FORMATS[extension])
    names = [source.graph.label(i) for i in source.graph.outputs]
    one, more = ("value", "values") if head.activation == "linear" else ("class", "classes")
    count = head.outputs
    click.echo(f"{path}: {count} {one if count == 1 else more} in place of {', '.join(names)}")
    click.echo(_reads(new))
    option = "--num-of-trainable-ops"
    click.echo(
        f"The new layers train alone at first, as with {option} {head.operators}; {option} -1 "
        "trains all."
    )


def _reads(new: Replaced) -> str:
    """Describes the features that the new layer reads, and the other choices."""
    features = new.features
    source = (
        "the model's input"
        if features.operator is None
        else f"operator {features.operator} {features.kind}"
    )
    others = ", ".join(f"--after {f.operator} ({f.kind}, {width})" for f, width in new.others)
    choices = others and f"; other choices: {others}"
    return f"The new layer reads {new.width} features of {source}{choices}."
