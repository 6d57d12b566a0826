"""Replace the last layers of a model for another task (transfer learning)."""

import click

import odt
from odt.cli.options.shared import (
    max_detections_option,
    model_argument,
    require,
    signature_option,
)
from odt.cli.options.types import ClassList, Numbers
from odt.cli.output.output_paths import FORMATS, check_outputs, extension_of
from odt.cli.output.spelling import spell
from odt.cli.output.training_log import warnings_as_lines
from odt.core.export.new_model import ACTIVATIONS
from odt.models.bases import find_base
from odt.models.creation import Activation


@click.command()
@model_argument
@signature_option
@click.option(
    "--classes",
    type=ClassList(),
    help="Names of the classes of the new output, or their number, which a detector cannot take; "
    "with --activation linear its number of values.",
)
@click.option(
    "--like",
    type=click.Path(),
    metavar="DATA",
    help="Data file, instead of --classes. The file of expected outputs beside it determines "
    "number, names and kind of the classes; for a detector it has boxes.",
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
    "--classifier",
    is_flag=True,
    help="Make a classifier of whole samples of a detector, or of another model with several "
    "outputs or positions, without these outputs. --after implies it.",
)
@max_detections_option
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
    classes: int | tuple[str, ...] | None,
    like: str | None,
    activation: Activation | None,
    hidden: tuple[int, ...] | None,
    output: str | None,
    after: int | None,
    classifier: bool,
    max_detections: int | None,
    seed: int,
) -> None:
    """Replace the last layers of MODEL with new ones for another task (transfer learning).

    MODEL is a file, or mobilenet (photos) or keywords (sounds) of the package odt-models.
    Earlier layers stay unchanged, and tensors that only the old layers need are removed. Signatures
    name the new output. Class names become those of --classes or --like, or are removed. Training
    info is removed; other metadata stays. If the features have axes between batch and channels,
    such as height and width, the new layers average over them.

    A detector gets new classes: only the layers that compute the class scores of each anchor or
    cell are replaced. Boxes, anchors, all other layers and metadata stay.
    """
    path = require("--output", output, "the file that is written")
    extension_of("--output", path, FORMATS)
    base = find_base(model)
    source = odt.load_model(base.path, signature=signature)
    check_outputs({"--output": path}, {"MODEL": source.path, "--like": like})
    lines: list[str] = []
    with warnings_as_lines():
        new = odt.replace_head(
            source,
            classes,
            like=like,
            activation=activation,
            hidden=hidden or (),
            after=base.after if after is None else after,
            classifier=classifier,
            max_detections=max_detections,
            seed=seed,
            show=lines.append,
        )
        new.save(path)
    click.echo("\n".join([f"{path}: {lines[0]}", *map(spell, lines[1:])]))
