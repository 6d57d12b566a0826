"""Evaluate a model on data files: loss, metrics, classes, most wrong samples."""

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import click

import odt
from odt.cli.options.adapters import added_option
from odt.cli.options.data_folder import data_folder
from odt.cli.options.evaluation import EvaluationOptions, class_options, sample_options
from odt.cli.options.new_data import new_data_options, refuse_both, show_note
from odt.cli.options.rows import group
from odt.cli.options.sample_files import data_options
from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    anchors_option,
    check_data_option,
    interface_options,
    loss_options,
    metric_option,
    model_argument,
    require,
    sample_weight_option,
    schedule_options,
    sequence_options,
)
from odt.cli.options.training_run import model_of
from odt.cli.output import report
from odt.cli.output.output_paths import check_outputs
from odt.cli.output.spelling import spell
from odt.core.options.model_options import ModelOptions
from odt.core.options.training_options import RECIPE_OPTIONS
from odt.data.sources import recorded
from odt.datasets.boxes.drawing import LEAST_SCORE
from odt.datasets.contact_sheet import write_sheet
from odt.errors import OdtError
from odt.evaluation.box_table import BoxTable
from odt.evaluation.sample_table import SampleTable, write_csv
from odt.progress import Progress
from odt.text import quantity

if TYPE_CHECKING:
    from odt.training.detection import Detections

MAX_DRAWN = 16  # samples on a sheet of boxes


@click.command(cls=Command)
@model_argument
@interface_options
@anchors_option
@data_folder("test")
@data_options
@new_data_options
@check_data_option
@sequence_options
@sample_options
@loss_options
@metric_option
@class_options
@sample_weight_option
@added_option
@schedule_options
def command(
    model: str,
    load_input: str | None,
    load_expected: str | None,
    source: str | None,
    as_record: str | None,
    check_data: bool,
    metrics: tuple[str, ...],
    sample_weight: str | None,
    micro_batch: int | None,
    workers: int | None,
    **values: Any,
) -> None:
    """Evaluate MODEL: loss and metrics over all samples of data files or of --source.

    --source is a folder of photos or sounds with one folder per class, or a table. The data are
    prepared like the training data: models that odt trained hold the preprocessing record.
    """
    refuse_both(source, load_input or load_expected, as_record)
    options = group(EvaluationOptions, values)
    record = recorded(load_expected)
    has_boxes = record is not None and bool(record.boxes)
    if options.sheet is not None and options.wrong is None and not has_boxes:
        raise OdtError("--sheet: must come with --wrong, but got it alone")
    if options.needs_samples and micro_batch is not None:
        raise OdtError(
            "--micro-batch: must be left out with --wrong and --per-sample, which run sample by "
            f"sample, but got {micro_batch}."
        )
    if has_boxes and (options.confusion or options.confusion_csv):
        raise OdtError(
            "--confusion, --confusion-csv: must be left out for boxes, which --per-class measures "
            "by class, but got one of them."
        )
    files = {
        "--sheet": options.sheet,
        "--per-sample": options.per_sample,
        "--confusion-csv": options.confusion_csv,
    }
    read = {
        "MODEL": model,
        "--load-input": load_input,
        "--load-expected": load_expected,
        "--source": source,
        "--sample-weight": sample_weight,
    }
    check_outputs({name: str(path) for name, path in files.items() if path}, read)
    x: Any = odt.NewData(source, as_record) if source else None
    if x is None:
        x = require("--data or --load-input", load_input, "the file with the inputs of all samples")
        require("--load-expected", load_expected, "the file with the expected outputs")
    with closing(Progress()) as bar:
        evaluation = odt.evaluate(
            model_of(model, group(ModelOptions, values)),
            x,
            load_expected,
            sample_weight,
            metrics=metrics,
            per_class=options.needs_classes,
            per_sample=options.needs_samples,
            check_data=check_data,
            micro_batch=micro_batch,
            workers=workers,
            progress=partial(bar, "eval"),
            show=show_note,
            **{name: values[name] for name in RECIPE_OPTIONS if name in values},
        )
    line = report.figures_line(evaluation.loss, evaluation.metrics)
    length = evaluation.data.length
    click.echo(f"{quantity(length, 'sample')} - {line}")
    if evaluation.detections:
        _show_boxes(evaluation, evaluation.detections, options)
    classes = evaluation.classes
    if classes:
        _print_classes(classes, options)
    if evaluation.results and not evaluation.detections:
        names = classes.classes if classes else ()
        table = SampleTable(evaluation.results, names, evaluation.label)
        _print_samples(table, evaluation, options)


def _show_boxes(
    evaluation: odt.Evaluation, detections: "Detections", options: EvaluationOptions
) -> None:
    """Prints the precision of each class, prints, writes and draws samples, as options select."""
    if options.per_class:
        click.echo(f"\n{detections.per_class()}")
    results = evaluation.results
    table = BoxTable(detections, LEAST_SCORE, results.losses if results else None)
    numbers, which = [*range(min(MAX_DRAWN, evaluation.data.length))], "the first "
    if options.wrong is not None:
        numbers, which = detections.worst(LEAST_SCORE)[: options.wrong], "these "
        click.echo(
            f"\nthe {len(numbers)} of {evaluation.data.length} samples with the most missed and "
            f"false boxes, detections of a score of at least {LEAST_SCORE}:"
        )
        click.echo("\n".join(table.lines(numbers)))
    if options.sheet is not None:
        boxes = [detections.drawn(n, LEAST_SCORE) for n in numbers]
        inputs = evaluation.data.inputs[0]
        write_sheet(options.sheet, inputs, [str(n) for n in numbers], numbers, boxes)
        click.echo(
            f"{options.sheet}: {which}{len(numbers)} samples with true boxes (dashed) and "
            f"detections of a score of at least {LEAST_SCORE}"
        )
    if options.per_sample is not None:
        write_csv(options.per_sample, table.rows())
        click.echo(f"{options.per_sample}: boxes and loss of each sample")


def _print_classes(classes: odt.ClassificationReport, options: EvaluationOptions) -> None:
    """Prints and writes the results by class that options select; warns of unpredicted classes."""
    if options.confusion:
        click.echo(f"\nconfusion matrix\n{classes.confusion()}")
    if options.confusion_csv:
        classes.confusion()  # raises DataError if there is no matrix
        assert classes.confusion_matrix is not None, "confusion has checked it"
        rows = zip(classes.classes, classes.confusion_matrix.tolist(), strict=True)
        table = [("true \\ predicted", *classes.classes), *((name, *row) for name, row in rows)]
        write_csv(options.confusion_csv, table)
    if options.per_class:
        click.echo(f"\n{classes}")
    if classes.warning and (options.per_class or classes.confusion_matrix is not None):
        click.echo(f"Warning: {spell(classes.warning)}", err=True)


def _print_samples(
    table: SampleTable, evaluation: odt.Evaluation, options: EvaluationOptions
) -> None:
    """Prints and writes the results of single samples that options select."""
    worst = table.results.wrong[: options.wrong].tolist()
    if options.wrong is not None:
        click.echo("\n" + "\n".join(table.wrong(worst)))
    if options.sheet is not None and worst:
        write_sheet(options.sheet, evaluation.data.inputs[0], list(table.tile_labels(worst)), worst)
        click.echo(f"{options.sheet}: images of these samples")
    if options.per_sample is not None:
        write_csv(options.per_sample, table.rows())
        click.echo(f"{options.per_sample}: loss of each sample")
