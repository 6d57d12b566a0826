"""Evaluate a model on data files: loss, metrics, classes, most wrong samples."""

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import click

from odt.cli.options.adapters import added_option
from odt.cli.options.evaluation import class_options, sample_options
from odt.cli.options.new_data import (
    new_data_options,
    open_recorded,
    print_remarks,
    record_for,
    refuse_both,
)
from odt.cli.options.sections import Command
from odt.cli.options.shared import (
    check_data_option,
    data_options,
    interface_options,
    loss_options,
    metric_option,
    model_argument,
    open_data,
    sample_weight_option,
    schedule_options,
    sequence_options,
)
from odt.cli.output import report
from odt.cli.output.output_paths import check_outputs
from odt.cli.output.progress import Progress
from odt.cli.output.sample_table import Label, SampleTable, write_csv
from odt.cli.output.spelling import spell
from odt.core.data.dataset import DataSet
from odt.core.data.sidecar import read_sidecar
from odt.core.export.adapter_file import lower_adapted
from odt.core.formats.flatbuffer.tflite_metadata import read_record
from odt.core.model.record import Record
from odt.core.recipe.inference_graphs import inference_graphs
from odt.core.recipe.interface import read_interface
from odt.core.recipe.prepare import Request, prepare
from odt.core.recipe.sequences import sequences_of
from odt.core.recipe.training_outputs import describe_left_out
from odt.core.training.inference import Evaluator
from odt.core.training.metrics import fitting_metrics
from odt.core.training.passes import NONE
from odt.core.training.sample_results import SampleResults
from odt.data.sources import weights_of
from odt.datasets.contact_sheet import write_sheet
from odt.datasets.new_data import new_samples
from odt.errors import OdtError
from odt.evaluation.classification import (
    ClassificationReport,
    check_classes,
    form_of,
    make_report,
    numbers_form,
)
from odt.kernels.families.class_counts import class_counter


@click.command(cls=Command)
@model_argument
@interface_options
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
    signature: str | None,
    input_shapes: tuple[tuple[str, tuple[int, ...]], ...],
    sequence_length: int | None,
    return_sequences: bool,
    check_data: bool,
    metric: tuple[str, ...],
    confusion: bool,
    confusion_csv: Path | None,
    per_class: bool,
    wrong: int | None,
    sheet: Path | None,
    per_sample: Path | None,
    sample_weight: str | None,
    adapters: str | None,
    micro_batch: int | None,
    workers: int | None,
    **options: Any,
) -> None:
    """Evaluate MODEL: loss and metrics over all samples of data files or of --source.

    --source is a folder of photos or sounds with one folder per class, or a table. The data are
    prepared like the training data: models that odt trained hold the preprocessing record.
    """
    label: Label | None = None
    refuse_both(source, load_input or load_expected, as_record)
    one_by_one = wrong is not None or per_sample is not None
    if sheet is not None and wrong is None:
        raise OdtError("--sheet: must come with --wrong, but got it alone")
    if one_by_one and micro_batch is not None:
        raise OdtError(
            "--micro-batch: must be left out with --wrong and --per-sample, which run sample by "
            f"sample, but got {micro_batch}."
        )
    files = {"--sheet": sheet, "--per-sample": per_sample, "--confusion-csv": confusion_csv}
    read = {"MODEL": model, "--load-input": load_input, "--load-expected": load_expected}
    check_outputs(
        {name: str(path) for name, path in files.items() if path},
        {**read, "--source": source, "--sample-weight": sample_weight},
    )
    file = sequences_of(
        read_interface(model, signature, dict(input_shapes)), sequence_length, return_sequences
    )
    record = record_for(file, as_record) if source else None
    recipe = prepare(lower_adapted(file, adapters), Request(**options))
    samples = recipe.samples
    if recipe.lowered.left_out:
        click.echo(describe_left_out(recipe.lowered, "evaluation"), err=True)
    with Evaluator(
        recipe.graphs,
        recipe.info,
        micro_batch=micro_batch,
        workers=workers,
        weighted=sample_weight is not None,
        computed=inference_graphs(recipe.lowered),
    ) as evaluator:
        metrics = fitting_metrics(metric, *samples.losses[0], logits=samples.logits[0])
        if source and record:
            specs, new = evaluator.runtime, open_recorded(source, record, labelled=True)
            (part,) = new.parts.values()
            label = part.label_of
            data = new_samples(
                new,
                record,
                specs.input_specs,
                specs.losses,
                specs.target_specs,
                specs.quantizations,
            )
        else:
            data = open_data(load_input, load_expected, evaluator.runtime)
        if sample_weight is not None:
            data = data.weighted(weights_of(sample_weight, data.length))
        if check_data:
            data.check_all()
        form = form_of(data, samples)
        if confusion or confusion_csv or per_class:
            form = check_classes(form, data)
        counts = class_counter(form) if form else None
        shape = form or numbers_form(samples), samples.losses[0][1]
        results = SampleResults(data.length, *shape) if one_by_one else None
        with closing(Progress()) as bar:
            result = evaluator.run(
                data,
                range(data.length),
                metrics,
                partial(bar, "eval"),
                totals={"classes": counts} if counts else NONE,
                each=results.add if results else None,
            )
    if source and record:
        print_remarks(new)
    click.echo(f"{data.length} samples - {report.figures_line(result)}")
    names = _class_names(record or read_record(file), load_expected, load_input)
    classes = make_report(counts, names) if counts else None
    if classes:
        _print_classes(classes, confusion, confusion_csv, per_class)
    if results:
        table = SampleTable(results, classes.classes if classes else (), label)
        _print_samples(table, data, wrong, sheet, per_sample)


def _class_names(record: Record | None, *paths: str | None) -> Sequence[str]:
    """Class names in the JSON file beside a data file, or in a record; empty if there are none."""
    sidecars = [read_sidecar(path) for path in paths if path]
    return next((s.classes for s in (*sidecars, record) if s and s.classes), ())


def _print_classes(
    report: ClassificationReport, confusion: bool, confusion_csv: Path | None, per_class: bool
) -> None:
    """Prints the tables of classes that are asked for, and warns of classes never predicted."""
    if confusion:
        click.echo(f"\nconfusion matrix\n{report.confusion()}")
    if confusion_csv:
        report.confusion()  # refuses what has none
        assert report.confusion_matrix is not None
        rows = zip(report.classes, report.confusion_matrix.tolist(), strict=True)
        table = [("true \\ predicted", *report.classes), *((name, *row) for name, row in rows)]
        write_csv(confusion_csv, table)
    if per_class:
        click.echo(f"\n{report}")
    if report.warning and (per_class or report.confusion_matrix is not None):
        click.echo(f"Warning: {spell(report.warning)}", err=True)


def _print_samples(
    table: SampleTable,
    data: DataSet,
    wrong: int | None,
    sheet: Path | None,
    per_sample: Path | None,
) -> None:
    """Prints and writes what is asked for of single samples."""
    worst = table.results.wrong[:wrong].tolist()
    if wrong is not None:
        click.echo("\n" + "\n".join(table.wrong(worst)))
    if sheet is not None and worst:
        write_sheet(sheet, data.inputs[0], list(table.tile_labels(worst)), worst)
        click.echo(f"{sheet}: images of these samples")
    if per_sample is not None:
        write_csv(per_sample, table.rows())
        click.echo(f"{per_sample}: loss of each sample")
