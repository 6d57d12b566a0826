"""Make a small model with random weights, to train from scratch."""

import os
import shlex
from typing import Any, cast

import click

from odt.cli.options.types import Numbers
from odt.cli.output.output_paths import FORMATS, check_outputs, extension_of
from odt.core.export.new_model import ACTIVATIONS, KINDS
from odt.models.bases import BASES
from odt.models.creation import FileFormat, Form, Kind, form_of, new_model

# Activation of the output → loss that odt train takes if none is given.
DEFAULT_LOSSES = {"softmax": "categorical_crossentropy", "sigmoid": "binary_crossentropy"}


class KindWord(click.Choice[str]):
    """A kind of model; the name of a trained network gets a hint."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Parses the text of a value."""
        if value in BASES:
            self.fail(
                f"{value} is a trained network, which gets a new head instead: odt replace-head "
                f"{value} --classes N.",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


@click.command()
@click.argument("kind", type=KindWord(list(KINDS)))
@click.option(
    "--like",
    type=click.Path(),
    metavar="DATA",
    help="Data file that the model will be trained on, or folder of odt gen-datafile. It and the "
    "file of expected outputs beside it determine input shape, outputs and activation.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    required=True,
    metavar="FILE",
    help="File of the new model; its extension, .circle or .tflite, selects the format.",
)
@click.option(
    "--input-shape",
    type=Numbers(),
    help="Shape of a sample, such as 28,28,1, if --like is left out.",
)
@click.option(
    "--outputs",
    type=Numbers(),
    help="Number of classes or values.  [default: as --like]",
)
@click.option(
    "--activation",
    type=click.Choice(list(ACTIVATIONS)),
    help="softmax: each sample has one class. sigmoid: classes do not exclude each other, or one "
    "yes/no output. linear: regression.  [default: as --like, else softmax]",
)
@click.option(
    "--hidden",
    type=Numbers(),
    help="Units of the hidden layers.  [default: mlp 128, cnn 64, autoencoder 64,16, lstm none]",
)
@click.option(
    "--filters",
    type=Numbers(),
    help="Output channels of the convolutions.  [default: cnn 16,32,64,64,… until height or width "
    "is at most 8; ds-cnn 64]",
)
@click.option(
    "--blocks",
    type=click.IntRange(1),
    metavar="N",
    help="Number of depthwise-separable convolutions of a ds-cnn.  [default: 4]",
)
@click.option(
    "--units",
    type=Numbers(),
    help="Units of the LSTM layers.  [default: 32]",
)
@click.option(
    "--unroll",
    is_flag=True,
    help="Operators for each time step of an lstm, which all runtimes know. By default each layer "
    "is one operator, which LiteRT's CompiledModel, OpenVINO and others refuse.",
)
@click.option(
    "--normalize",
    is_flag=True,
    help="Normalization: the first layers standardize the input with mean and standard deviation "
    "of --like; for linear outputs, the last layers invert this for the expected values.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Random seed of the weights.",
)
def command(kind: Kind, output: str, like: str | None, **options: Any) -> None:
    """Make a small model with random weights, to train from scratch.

    KIND is mlp (fully connected layers), cnn (convolutions with max pooling), ds-cnn
    (depthwise-separable convolutions), autoencoder (whose expected output is its input) or lstm
    (recurrent; the first axis of a sample is time; some runtimes need --unroll). The model is made
    for one sample; training uses any batch size.
    """
    file_format = cast(FileFormat, FORMATS[extension_of("--output", output, FORMATS)])
    check_outputs({"--output": output}, {"--like": like})
    model = new_model(kind, like=like, file_format=file_format, **options)
    model.save(output)
    # (16,) is printed as (16).
    shapes = [str(t.shape[1:]).replace(",)", ")") for t in (*model.inputs, *model.outputs)]
    last = model.nodes[-1].operator
    activation = next((name for name, op in ACTIVATIONS.items() if op == last), "linear")
    count = sum(a.size for a in model.parameters.values())
    click.echo(f"{output}: {kind}, {' → '.join(shapes)} {activation}, {count:,} parameters")
    if like:
        click.echo(f"Train it: {_training(kind, output, like, form_of(like), activation)}")


def _training(kind: str, output: str, like: str, form: Form, activation: str) -> str:
    """Returns the command that trains the model.

    Args:
        kind: kind of the model.
        output: path of its file.
        like: path of the data file or of its folder.
        form: files and form of the data.
        activation: activation of its output, which need not be that of the form.
    """
    targets = form.target_path or "FILE"
    loss = form.loss
    if kind == "autoencoder":
        targets = form.path
        loss = "mean_squared_error"
    elif activation != form.activation:
        loss = DEFAULT_LOSSES.get(activation, "mean_squared_error")
    data = ["--load-input", form.path, "--load-expected", targets]
    if os.path.isdir(like) and kind != "autoencoder" and form.target_path:
        data = ["--data", like]
    words = ["odt", "train", output, *data]
    if loss != DEFAULT_LOSSES.get(activation):
        words += ["--loss", loss.replace("_", "-")]
    root, ending = os.path.splitext(output)
    return shlex.join([*words, f"--export-{ending[1:]}", f"{root}-trained{ending}"])
