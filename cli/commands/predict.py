"""Predict: compute the outputs of a model for data files."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

import click
import numpy as np

import odt
from odt.cli.options.adapters import added_option
from odt.cli.options.data_folder import data_folder
from odt.cli.options.drawing import draw_options
from odt.cli.options.new_data import (
    STDIN,
    camera_frames,
    frame_options,
    new_data_options,
    refuse_both,
    show_note,
)
from odt.cli.options.rows import group
from odt.cli.options.sample_files import input_option
from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    anchors_option,
    interface_options,
    model_argument,
    require,
    schedule_options,
    sequence_options,
)
from odt.cli.options.training_run import model_of
from odt.cli.output.box_lines import print_boxes
from odt.cli.output.output_paths import check_outputs, extension_of
from odt.cli.output.signals import keep_going
from odt.core.data.predictions import Append, write_csv, write_npy, write_npz
from odt.core.model.record import Record
from odt.core.options.model_options import ModelOptions
from odt.core.storage.reading import printable
from odt.datasets.boxes.drawing import LEAST_SCORE
from odt.errors import OdtError
from odt.evaluation.detected import detection_reader
from odt.evaluation.evaluation import class_names
from odt.evaluation.prediction import ModelPredictor
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.models.model import file_of
from odt.progress import Progress

MAX_NAME = 200  # characters shown of a class name; some of ImageNet's have over 100
MAX_SHOWN = 5  # outputs of new data that are printed without --top
PREVIEW = 10  # samples that are printed although a file has all
ENDINGS = (".npy", ".npz", ".csv")


@click.command(cls=Command)
@model_argument
@interface_options
@anchors_option
@data_folder("test")
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
@draw_options
@added_option
@schedule_options
def command(
    model: str,
    load_input: str | None,
    source: str | None,
    as_record: str | None,
    frame_size: str | None,
    pixel_format: str | None,
    top: int | None,
    output: str | None,
    output_index: int | None,
    draw: Path | None,
    min_score: float | None,
    batch_size: int | None,
    micro_batch: int | None,
    workers: int | None,
    **options: Any,
) -> None:
    """Compute the outputs of MODEL for each sample, and print or write them.

    Samples come from data files (--load-input), or are new photos, sounds or tables (--source),
    which are prepared like the training data: models that odt trained hold the preprocessing
    record. `--source -` reads camera frames from standard input and prints a line for each.

    Prints all values of an output, or with --top only the largest; with --source the five largest
    with class names, if the record has names. With --output, nothing is printed, or with --top the
    first ten samples.

    Of a detector, prints boxes: class, score, and x1, y1, x2, y2 in pixels of the photo, or of the
    model's input for data files. --output and --output-index give its outputs.
    """
    refuse_both(source, load_input, as_record)
    _refuse_frames(source, frame_size or pixel_format, output, batch_size)
    path = source or require("--data, --load-input or --source", load_input, "the samples")
    file = model_of(model, group(ModelOptions, options))
    if output or draw:
        read = {"MODEL": file.path, "--load-input" if load_input else "--source": path}
        check_outputs({"--output": output, "--draw": str(draw) if draw else None}, read)
        keep_going()
    new = odt.NewData(source, as_record) if source else None
    record = new.record_for(file_of(file)) if new else None
    names = record.names if record else class_names(path, None)
    frames = source == STDIN
    k = output_index or 0
    has_top = top is not None
    with ModelPredictor(
        file, 1 if frames else batch_size or 32, micro_batch=micro_batch, workers=workers
    ) as predictor:
        specs = predictor.output_specs
        _check_output_options(len(specs), output, output_index, prints=has_top)
        reader = None
        if output is None and output_index is None and not frames:
            tensors = predictor.output_tensors
            least = LEAST_SCORE if min_score is None else min_score
            reader = detection_reader(file_of(file), tensors, record, least, asked=bool(draw))
        if reader is not None:
            print_boxes(predictor, reader, new or path, record, draw=draw, top=top)
            return
        _refuse_boxes(draw, min_score, file.path)
        if predictor.left_out:
            show_note(predictor.left_out)
        if top is None and source and len(names) == specs[k].size:
            top = MAX_SHOWN
        if frames and record:
            pictures = camera_frames(frame_size, pixel_format)
            for number, outputs in enumerate(predictor.frames(pictures, record)):
                click.echo(f"{number}: {_line(outputs[k].reshape(-1), top, names)}")
            return
        data, opened = predictor.open(new or path, show_note)
        label = opened.label if opened else str
        writer: AbstractContextManager[Append] = (
            _csv_writer(output, record, names, specs[k], k, label)
            if output and output.lower().endswith(".csv")
            else _array_writer(output, predictor.output_names, specs, k, data.length)
        )
        printed = data.length
        if output:
            printed = min(printed, PREVIEW) if has_top else 0

        def show(number: int, row: Array) -> None:
            click.echo(f"{label(number)}: {_line(row, top, names)}")

        with writer as append:
            _write(predictor.run(data), append, show, k, printed, data.length)
        if 0 < printed < data.length:
            click.echo(f"{data.length - printed} more samples are in {output}")
        if opened:
            opened.show_remarks(show_note)


def _check_output_options(count: int, path: str | None, index: int | None, *, prints: bool) -> None:
    """Checks --output-index and the format of --output against the number of outputs.

    Args:
        count: number of outputs.
        path: path of --output; None for none.
        index: number of the output; None if it was left out.
        prints: whether samples are printed although they are written.
    """
    if index is not None and index >= count:
        raise OdtError(
            f"--output-index: must be below {count}, the number of outputs, but got {index}."
        )
    extension = extension_of("--output", path, ENDINGS) if path else ".npz"
    if path and extension == ".npz" and index is not None and not prints:
        raise OdtError(
            f"--output-index: must be left out with --output {path}, which holds all outputs, but "
            f"got {index}."
        )
    if extension != ".npz" and index is None and count > 1:
        raise OdtError(
            f"--output {path}: must end in .npz, because the model has {count} outputs, but got "
            f"{extension}. Choose one of them with --output-index, or write "
            f"{os.path.splitext(path or '')[0]}.npz."
        )


def _write(
    batches: Iterable[Sequence[Array]],
    append: Append,
    show: Callable[[int, Array], None],
    index: int,
    printed: int,
    length: int,
) -> None:
    """Writes all outputs, and shows one of them for the first samples.

    Args:
        batches: the outputs of each batch.
        append: writes the outputs of a batch.
        show: called with the number of a sample and its values.
        index: number of the output to show.
        printed: number of samples to show.
        length: number of all samples.
    """
    first = 0
    with closing(Progress()) as bar:
        for outputs in batches:
            append(outputs)
            rows = outputs[index].reshape(len(outputs[index]), -1)
            for number, row in enumerate(rows[: max(printed - first, 0)], first):
                show(number, row)
            first += len(rows)
            if printed < length and first >= printed:  # a bar among lines would be in their way
                bar("predict", first, length)


def _array_writer(
    path: str | None, names: Sequence[str], specs: Sequence[TensorSpec], index: int, length: int
) -> AbstractContextManager[Append]:
    """Returns a context with a function that writes the outputs of the next samples.

    Args:
        path: the file: .npz for all outputs, or .npy for one; None for no file.
        names: names of all outputs.
        specs: spec of one sample of each output.
        index: number of the output for .npy.
        length: number of samples.
    """
    if path is None:
        return nullcontext(lambda outputs: None)
    if path.lower().endswith(".npz"):
        return write_npz(path, dict(zip(names, specs, strict=True)), length)
    return write_npy(path, specs[index], length, index)


def _csv_writer(
    path: str,
    record: Record | None,
    names: Sequence[str],
    spec: TensorSpec,
    index: int,
    label: Callable[[int], str],
) -> AbstractContextManager[Append]:
    """Returns a context with a function that writes an output of the next samples as CSV.

    Args:
        path: the file.
        record: preprocessing record, with the names of classes or targets; None for none.
        names: names of the classes without a record.
        spec: spec of one sample of the output.
        index: number of the output.
        label: number of a sample → its name.
    """
    targets = record.targets if record else names
    columns = [str(k) for k in range(spec.size)]
    classes = False
    if len(targets) == spec.size:
        columns = [printable(name, MAX_NAME) for name in targets]
        classes = record is None or bool(record.classes)
    return write_csv(path, columns, index, label, classes=classes)


def _refuse_frames(
    source: str | None, frames: str | None, output: str | None, batch_size: int | None
) -> None:
    """Refuses options of frames for other samples, and for frames a file or batches of outputs."""
    if frames and source != STDIN:
        raise OdtError(
            "--frame-size, --pixel-format: must be given with --source -, camera frames on "
            f"standard input, but got {source or '--load-input'}."
        )
    if source == STDIN and output:
        raise OdtError("--output: must be given without --source -, whose lines are printed.")
    if source == STDIN and batch_size is not None:
        raise OdtError(
            "--batch-size: must be given without --source -, whose frames are computed one by one."
        )


def _refuse_boxes(draw: Path | None, min_score: float | None, model: str) -> None:
    """Refuses options of boxes for models without, and beside options of other outputs."""
    if draw is not None or min_score is not None:
        raise OdtError(
            "--draw, --min-score: must be given for a detector, without --output, --output-index "
            f"and --source -, but got {model}."
        )


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
    return ", ".join(f"{printable(labels[k], MAX_NAME)} {row[k]:.4f}" for k in best)
