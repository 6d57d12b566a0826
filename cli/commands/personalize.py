"""Personalize a classifier: learn from a few samples without forgetting, add classes."""

from typing import Any

import click

import odt
from odt.cli.options.data_folder import data_folder
from odt.cli.options.new_data import new_data_options, refuse_both, show_note
from odt.cli.options.rows import keyword_options
from odt.cli.options.sample_files import data_options
from odt.cli.options.sections import Command, option
from odt.cli.options.shared import budget_option, model_argument, require
from odt.cli.output.output_locks import hold
from odt.cli.output.output_paths import FORMATS, check_outputs, extension_of
from odt.cli.output.training_log import warnings_as_lines
from odt.core.options.option import DATA, EXPORT
from odt.core.options.personalize_options import PERSONALIZE_OPTIONS

REPLACES = ("--output", "MODEL")  # the output may be the model's own file
EXAMPLES = (
    "odt personalize model.tflite --source training-photos/ --epochs 0   # before it is shipped",
    "odt personalize model.tflite --source new-photos/                   # on the device",
)


@click.command(cls=Command, examples=EXAMPLES)
@model_argument
@data_folder("train")
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
@budget_option
@keyword_options(PERSONALIZE_OPTIONS)
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
        inputs = require("--data, --load-input or --source", load_input, "the new samples")
        samples = odt.DataSet(inputs, require("--load-expected", load_expected, "their classes"))
    with warnings_as_lines():
        result = odt.personalize(
            file, samples, classes=names, store=store, out=output, show=show_note, **options
        )
    click.echo(str(result))
