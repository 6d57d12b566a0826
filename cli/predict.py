"""Computes a model's outputs for data."""

from collections.abc import Sequence
from contextlib import nullcontext
from io import BytesIO

import click
import numpy as np

from odt.cli.options import given, model_argument, schedule_options
from odt.core.columns import open_columns
from odt.core.data import DataSet
from odt.core.files import AtomicFile
from odt.core.folding import fold_weights
from odt.core.inference import Predictor
from odt.core.reader import read_model
from odt.core.sidecar import read_sidecar
from odt.kernels.opdef import Array, TensorSpec


@click.command()
@model_argument
@click.option(
    "--load-input",
    type=click.Path(),
    metavar="FILE",
    help="Inputs of all samples: raw as onert_train's, .npy, .npz or .h5.",
)
@click.option("--top", type=click.IntRange(1), help="Prints the greatest outputs of each sample.")
@click.option(
    "--output", type=click.Path(), metavar="FILE", help="Writes all outputs as an .npy array."
)
@schedule_options
def command(
    model: str,
    load_input: str | None,
    top: int | None,
    output: str | None,
    batch_size: int | None,
    micro_batch: int | None,
    workers: int | None,
) -> None:
    """Prints MODEL's first output for each sample: all its values, or the greatest with --top.

    With --output and without --top nothing is printed.
    """
    inputs = given("--load-input", load_input, "the file with the inputs of all samples")
    graph = fold_weights(read_model(model)).graph
    shown = top is not None or output is None
    sidecar = read_sidecar(inputs)
    names = sidecar.classes if sidecar else ()
    with (
        Predictor(graph, batch_size or 32, micro_batch=micro_batch, workers=workers) as predictor,
        AtomicFile(output) if output else nullcontext() as file,
    ):
        data = DataSet(open_columns(inputs, predictor.runtime.input_specs, "input"))
        if file is not None:
            file.write(_header(data.length, predictor.runtime.output_specs[0]))
        first = 0
        for batch, *_ in predictor.run(data, range(data.length)):
            if file is not None:
                file.write(batch.data)
            if shown:
                for k, row in enumerate(batch.reshape(len(batch), -1), first):
                    click.echo(f"{k}: {_line(row, top, names)}")
            first += len(batch)


def _header(length: int, sample: TensorSpec) -> bytes:
    """What an .npy file begins with."""
    stream = BytesIO()
    descr = np.lib.format.dtype_to_descr(sample.dtype)
    header = {"descr": descr, "fortran_order": False, "shape": (length, *sample.shape)}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


def _line(row: Array, top: int | None, names: Sequence[str]) -> str:
    """The values, or names and values of the greatest; among equals the first.

    Args:
        names: of the classes; where there are not as many, positions stand for them.
    """
    if top is None:
        return " ".join(f"{value:.6g}" for value in row)
    best = np.argsort(-row, kind="stable")[:top]
    labels = names if len(names) == len(row) else range(len(row))
    return ", ".join(f"{labels[k]} {row[k]:.4f}" for k in best)
