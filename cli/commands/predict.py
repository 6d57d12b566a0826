"""Predict: compute the outputs of a model for data files."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext

import click
import numpy as np

from odt.cli.options.sections import Command
from odt.cli.options.shared import given, input_option, model_argument, schedule_options
from odt.cli.output.output_paths import check_outputs
from odt.cli.output.progress import Progress
from odt.cli.output.signals import keep_going
from odt.core.data.columns import open_columns
from odt.core.data.dataset import DataSet
from odt.core.data.predictions import Append, write_npy, write_npz
from odt.core.data.sidecar import read_sidecar
from odt.core.lowering.lowered_model import lower_model
from odt.core.model.graph import Graph
from odt.core.model.reader import read_model
from odt.core.storage.reading import printable
from odt.core.training.inference import Predictor
from odt.errors import OdtError
from odt.kernels.opdef import Array, TensorSpec

MOST_NAME = 200  # characters shown of a class name; some of ImageNet's have over 100
ENDINGS = (".npy", ".npz")


@click.command(cls=Command)
@model_argument
@input_option
@click.option(
    "--top", type=click.IntRange(1), metavar="N", help="Print the N largest outputs of each sample."
)
@click.option(
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="Write all outputs by name as .npz, or one output as .npy.",
)
@click.option(
    "--output-index",
    type=click.IntRange(0),
    metavar="K",
    help="Number of the output to print or to write as .npy, counted from 0.  [default: 0]",
)
@schedule_options
def command(
    model: str,
    load_input: str | None,
    top: int | None,
    output: str | None,
    output_index: int | None,
    batch_size: int | None,
    micro_batch: int | None,
    workers: int | None,
) -> None:
    """Compute the outputs of MODEL for each sample, and print or write them.

    Prints all values of an output, or with --top only the largest. With --output but without --top,
    nothing is printed.
    """
    inputs = given("--load-input", load_input, "the file with the inputs of all samples")
    source = read_model(model)
    if output:
        check_outputs({"--output": output}, {"MODEL": source.path, "--load-input": inputs})
        keep_going()
    lowered = lower_model(source)
    _check_outputs(lowered.graph, output, output_index)
    shown = top is not None or output is None
    sidecar = read_sidecar(inputs)
    names = sidecar.classes if sidecar else ()
    with Predictor(
        lowered.graphs, batch_size or 32, micro_batch=micro_batch, workers=workers
    ) as predictor:
        data = DataSet(open_columns(inputs, predictor.runtime.input_specs, "input"))
        k = output_index or 0
        specs = predictor.runtime.output_specs
        writing = _writing(output, lowered.graph.output_names, specs, k, data.length)
        with writing as append, closing(Progress()) as bar:
            first = 0
            for outputs in predictor.run(data, range(data.length)):
                append(outputs)
                if shown:
                    rows = outputs[k].reshape(len(outputs[k]), -1)
                    for number, row in enumerate(rows, first):
                        click.echo(f"{number}: {_line(row, top, names)}")
                first += len(outputs[k])
                if not shown:  # a bar among printed lines would be in their way
                    bar("predict", first, data.length)


def _check_outputs(graph: Graph, path: str | None, index: int | None) -> None:
    """Checks --output-index and the format of --output against the model."""
    count = len(graph.outputs)
    if index is not None and index >= count:
        raise OdtError(
            f"--output-index: must be below {count}, the model's outputs, but got {index}."
        )
    ending = os.path.splitext(path)[1].lower() if path else ".npz"
    if ending not in ENDINGS:
        raise OdtError(
            f"--output {path}: must end in {' or '.join(ENDINGS)}, but got {ending or 'none'}."
        )
    if ending == ".npy" and index is None and count > 1:
        raise OdtError(
            f"--output {path}: must end in .npz, because the model has {count} outputs, but got "
            ".npy. "
            f"Choose one of them with --output-index, or write {os.path.splitext(path or '')[0]}"
            ".npz."
        )


def _writing(
    path: str | None, names: Sequence[str], specs: Sequence[TensorSpec], index: int, length: int
) -> AbstractContextManager[Append]:
    """Returns a function that writes the outputs of the next samples."""
    if path is None:
        return nullcontext(lambda outputs: None)
    if path.lower().endswith(".npz"):
        return write_npz(path, dict(zip(names, specs, strict=True)), length)
    return write_npy(path, specs[index], length, index)


def _line(row: Array, top: int | None, names: Sequence[str]) -> str:
    """Formats all values of a sample, or the largest with their class names; the first if equal.

    Args:
        row: values of one output for one sample.
        top: number of classes to name; None for all values.
        names: class names; unless there is one for each value, positions are printed instead.
    """
    if top is None:
        return " ".join(f"{value:.6g}" for value in row)
    best = np.argsort(-row, kind="stable")[:top]
    labels = names if len(names) == len(row) else range(len(row))
    return ", ".join(f"{printable(labels[k], MOST_NAME)} {row[k]:.4f}" for k in best)
