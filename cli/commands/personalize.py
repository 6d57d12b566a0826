"""Personalize a classifier: learn from a few samples without forgetting, add classes."""

from typing import Any

import click

import odt
from odt.cli.options.new_data import new_data_options, refuse_both, show_note
from odt.cli.options.sample_files import data_options
from odt.cli.options.sections import Command, option
from odt.cli.options.shared import budget_option, model_argument, require
from odt.cli.options.types import Size
from odt.cli.output.output_locks import hold
from odt.cli.output.output_paths import FORMATS, check_outputs, extension_of
from odt.cli.output.training_log import warnings_as_lines
from odt.core.options.option import DATA, EXPORT, OPTIMIZER, VALIDATION
from odt.core.training.exemplars import SAMPLINGS

REPLAY = "Stored features"
EXAMPLES = (
    "odt personalize model.tflite --source training-photos/ --epochs 0   # before it is shipped",
    "odt personalize model.tflite --source new-photos/                   # on the device",
)


@click.command(cls=Command, examples=EXAMPLES)
@model_argument
@data_options
@new_data_options
@option(
    DATA,
    "--classes",
    metavar="NAMES",
    help="Names of the model's classes in their order, separated by commas, if it holds none; or "
    "of the labels in --load-expected.  [default: those beside the data file, or the folders of "
    "--source]",
)
@option(
    DATA,
    "--epochs",
    type=click.IntRange(0),
    default=15,
    show_default=True,
    help="Number of epochs; 0 only stores features of the samples.",
)
@option(
    DATA,
    "--batch-size",
    type=click.IntRange(1, 2**31 - 1),
    default=32,
    show_default=True,
    help="Batch size: samples per step.",
)
@option(
    DATA,
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Random seed of held-back samples, of the reservoir and of the order.",
)
@option(
    OPTIMIZER,
    "--learning-rate",
    "--lr",
    type=float,
    default=1e-3,
    show_default=True,
    help="Learning rate of Adam.",
)
@budget_option
@option(
    VALIDATION,
    "--held-back",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.2,
    show_default=True,
    help="Fraction of the new samples of each class that do not train and decide whether the new "
    "model is written; 0 for none.",
)
@option(
    VALIDATION,
    "--forgetting",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    help="Fall of the accuracy on the stored samples up to which the new model is written.",
)
@option(
    REPLAY,
    "--store",
    type=click.Path(),
    metavar="FILE",
    help="File of the stored features.  [default: the model's name with .features.npz]",
)
@option(
    REPLAY,
    "--samples-per-class",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="N",
    help="Number of samples of each class to store, at most.",
)
@option(
    REPLAY,
    "--store-bytes",
    type=Size(),
    default="1MB",
    show_default=True,
    metavar="SIZE",
    help="Size of the file, at most.",
)
@option(
    REPLAY,
    "--sampling",
    type=click.Choice(SAMPLINGS),
    default=SAMPLINGS[0],
    show_default=True,
    help="reservoir: a random sample of all that were ever seen. herding: those whose mean is "
    "closest to the mean of all.",
)
@option(
    EXPORT,
    "-o",
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="File of the new model.  [default: MODEL is replaced]",
)
def command(
    model: str,
    load_input: str | None,
    load_expected: str | None,
    source: str | None,
    as_record: str | None,
    classes: str | None,
    store: str | None,
    output: str | None,
    **options: Any,
) -> None:
    """Train the last layer of MODEL, a classifier, on a few new samples, and add new classes to it.

    Features of some samples of each class are stored next to MODEL and train together with the new
    samples, so that the model does not forget. MODEL is replaced only if the new model is better on
    the samples that are held back. Make the store from training data, with --epochs 0, before the
    model goes to a device.
    """
    refuse_both(source, load_input or load_expected, as_record)
    read = {"--load-input": load_input, "--load-expected": load_expected, "--source": source}
    check_outputs({"--output": output, "--store": store}, {**read, "MODEL": model}, [REPLACES])
    if output is not None:
        extension_of("--output", output, (*FORMATS, ".onnx"))
    hold({"--output" if output else "MODEL": output or model, "--store": store})
    file = odt.load_model(model)
    names = None if classes is None else tuple(name.strip() for name in classes.split(","))
    samples: odt.DataSet | odt.NewData
    if source is not None:
        samples = odt.NewData(source, as_record)
    else:
        inputs = require("--load-input or --source", load_input, "the new samples")
        samples = odt.DataSet(inputs, require("--load-expected", load_expected, "their classes"))
    with warnings_as_lines():
        result = odt.personalize(
            file, samples, classes=names, store=store, out=output, show=show_note, **options
        )
    click.echo(str(result))


REPLACES = ("--output", "MODEL")
