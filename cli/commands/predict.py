"""Predict: compute the outputs of a model for data files."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext

import click
import numpy as np

from odt.cli.options.adapters import added_option
from odt.cli.options.new_data import (
    STDIN,
    camera_frames,
    frame_options,
    new_data_options,
    open_recorded,
    print_remarks,
    record_for,
    refuse_both,
)
from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    given,
    input_option,
    interface_options,
    model_argument,
    schedule_options,
    sequence_options,
)
from odt.cli.output.output_paths import check_outputs, extension_of
from odt.cli.output.progress import Progress
from odt.cli.output.signals import keep_going
from odt.core.data.columns import array_columns, open_columns
from odt.core.data.dataset import DataSet
from odt.core.data.predictions import Append, write_csv, write_npy, write_npz
from odt.core.data.sidecar import read_sidecar
from odt.core.export.adapter_file import lower_adapted
from odt.core.model.graph import Graph
from odt.core.model.record import Record
from odt.core.recipe.inference_graphs import inference_graphs
from odt.core.recipe.interface import read_interface
from odt.core.recipe.sequences import sequences_of
from odt.core.recipe.training_outputs import describe_left_out
from odt.core.runtime.runtime import Runtime
from odt.core.storage.reading import printable
from odt.core.training.inference import Predictor
from odt.datasets.new_data import for_model, new_samples
from odt.datasets.source import Source
from odt.errors import OdtError
from odt.kernels.rows.opdef import Array, TensorSpec

MOST_NAME = 200  # characters shown of a class name; some of ImageNet's have over 100
MOST_SHOWN = 5  # outputs of new data that are printed without --top
ENDINGS = (".npy", ".npz", ".csv")


@click.command(cls=Command)
@model_argument
@interface_options
@input_option
@new_data_options
@frame_options
@sequence_options
@click.option(
    "--top", type=click.IntRange(1), metavar="N", help="Print the N largest outputs of each sample."
)
@click.option(
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="Write all outputs by name as .npz, or one output as .npy or .csv.",
)
@click.option(
    "--output-index",
    type=click.IntRange(0),
    metavar="K",
    help="Number of the output to print or to write as .npy or .csv, counted from 0.  [default: 0]",
)
@added_option
@schedule_options
def command(
    model: str,
    load_input: str | None,
    source: str | None,
    as_record: str | None,
    signature: str | None,
    input_shapes: tuple[tuple[str, tuple[int, ...]], ...],
    sequence_length: int | None,
    return_sequences: bool,
    frame_size: str | None,
    pixel_format: str | None,
    top: int | None,
    output: str | None,
    output_index: int | None,
    adapters: str | None,
    batch_size: int | None,
    micro_batch: int | None,
    workers: int | None,
) -> None:
    """Compute the outputs of MODEL for each sample, and print or write them.

    Samples come from data files (--load-input), or are new photos, sounds or tables (--source),
    which are prepared like the training data: models that odt trained hold the preprocessing
    record. `--source -` reads camera frames from standard input and prints a line for each.

    Prints all values of an output, or with --top only the largest; with --source the five largest
    with class names, if the record has names. With --output but without --top, nothing is printed.
    """
    refuse_both(source, load_input, as_record)
    _refuse_frames(source, frame_size or pixel_format, output)
    path = source or given("--load-input or --source", load_input, "the samples")
    file = sequences_of(
        read_interface(model, signature, dict(input_shapes)), sequence_length, return_sequences
    )
    if output:
        read = {"MODEL": file.path, "--load-input" if load_input else "--source": path}
        check_outputs({"--output": output}, read)
        keep_going()
    record = record_for(file, as_record) if source else None
    names = record.names if record else names_beside(path)
    lowered = lower_adapted(file, adapters, outputs="computed")
    if lowered.left_out:
        click.echo(describe_left_out(lowered, "prediction"), err=True)
    _check_outputs(lowered.graph, output, output_index)
    shown = top is not None or output is None
    frames = source == STDIN
    k = output_index or 0
    with Predictor(
        inference_graphs(lowered),
        1 if frames else batch_size or 32,
        micro_batch=micro_batch,
        workers=workers,
    ) as predictor:
        specs = predictor.runtime.output_specs
        if top is None and source and len(names) == specs[k].size:
            top = MOST_SHOWN
        if frames and record:
            pictures = camera_frames(frame_size, pixel_format)
            for number, outputs in enumerate(predict_frames(predictor, record, pictures)):
                click.echo(f"{number}: {_line(outputs[k].reshape(-1), top, names)}")
            return
        data, label, new = _samples(path, record, predictor.runtime)
        writing: AbstractContextManager[Append]
        if output and output.lower().endswith(".csv"):
            writing = _csv(output, record, names, specs[k], k, label)
        else:
            writing = _writing(output, lowered.graph.output_names, specs, k, data.length)
        with writing as append, closing(Progress()) as bar:
            first = 0
            for outputs in predictor.run(data, range(data.length)):
                append(outputs)
                if shown:
                    rows = outputs[k].reshape(len(outputs[k]), -1)
                    for number, row in enumerate(rows, first):
                        click.echo(f"{label(number)}: {_line(row, top, names)}")
                first += len(outputs[k])
                if not shown:  # a bar among printed lines would be in their way
                    bar("predict", first, data.length)
        if new is not None:
            print_remarks(new)


def predict_frames(
    predictor: Predictor, record: Record, pictures: Iterable[Array]
) -> Iterator[Sequence[Array]]:
    """Yields the outputs for one picture after the other."""
    specs, quantized = predictor.runtime.input_specs, predictor.runtime.quantizations
    steps = for_model(record, specs[0], quantized=quantized[0] is not None)
    for picture in pictures:
        data = DataSet(array_columns([steps.apply(picture)[np.newaxis]], specs, "frame", quantized))
        yield from predictor.run(data, range(1))


def names_beside(path: str) -> Sequence[str]:
    """The class names in the JSON file of a data file."""
    sidecar = read_sidecar(path)
    return sidecar.classes if sidecar else ()


def _samples(
    path: str, record: Record | None, runtime: Runtime
) -> tuple[DataSet, Callable[[int], str], Source | None]:
    """The samples, the name of each (the file of a photo or sound, or its number), their source."""
    specs = runtime.input_specs
    if record is None:
        names, quantizations = runtime.input_names, runtime.quantizations
        columns = open_columns(path, specs, "input", quantizations, names=names)
        return DataSet(columns), str, None
    new = open_recorded(path, record, targets=False)
    (part,) = new.parts.values()
    data = new_samples(new, record, specs, quantizations=runtime.quantizations)
    numbered = new.kind == "features" and not new.origin.get("left out")
    return data, str if numbered else part.label_of, new


def _check_outputs(graph: Graph, path: str | None, index: int | None) -> None:
    """Checks --output-index and the format of --output against the model."""
    count = len(graph.outputs)
    if index is not None and index >= count:
        raise OdtError(
            f"--output-index: must be below {count}, the model's outputs, but got {index}."
        )
    extension = extension_of("--output", path, ENDINGS) if path else ".npz"
    if extension != ".npz" and index is None and count > 1:
        raise OdtError(
            f"--output {path}: must end in .npz, because the model has {count} outputs, but got "
            f"{extension}. "
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


def _csv(
    path: str,
    record: Record | None,
    names: Sequence[str],
    spec: TensorSpec,
    index: int,
    label: Callable[[int], str],
) -> AbstractContextManager[Append]:
    """Returns a function that writes an output as CSV, with the names of classes or targets."""
    found = record.targets if record else names
    known = len(found) == spec.size
    columns = [printable(n, MOST_NAME) for n in found] if known else map(str, range(spec.size))
    classes = known and (record is None or bool(record.classes))
    return write_csv(path, [*columns], index, label, classes=classes)


def _refuse_frames(source: str | None, frames: str | None, output: str | None) -> None:
    """Refuses options of frames for other samples, and a file of outputs for frames."""
    if frames and source != STDIN:
        raise OdtError(
            "--frame-size, --pixel-format: must be given with --source -, camera frames on "
            f"standard input, but got {source or '--load-input'}."
        )
    if source == STDIN and output:
        raise OdtError("--output: must be given without --source -, whose lines are printed.")


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
