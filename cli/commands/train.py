"""Train a model on data files and export it."""

import os
from typing import Any

import click

from odt.cli.options.adapters import adapters_option
from odt.cli.options.cache import frozen_options
from odt.cli.options.data_folder import data_folder
from odt.cli.options.exports import export_options
from odt.cli.options.fit import (
    EXAMPLES,
    best_options,
    fit_options,
    quantize_aware_option,
    quantize_weights_option,
    rate_options,
)
from odt.cli.options.onert import OneCommand, one_options
from odt.cli.options.run_dir import run_options
from odt.cli.options.sample_files import data_options, validation_options
from odt.cli.options.shared import (
    anchors_option,
    budget_option,
    checkpoint_option,
    hyper_parameter_options,
    interface_options,
    max_detections_option,
    metric_option,
    model_argument,
    schedule_options,
    selection_options,
    sequence_options,
    sparse_option,
    task_option,
    training_options,
)
from odt.cli.options.teacher import teacher_options
from odt.cli.options.train_options import TrainOptions
from odt.cli.output.signals import leave, stop_on_signals
from odt.collector import quick_imports
from odt.core.storage.usage import StageTimer
from odt.errors import LostFileError


@click.command(cls=OneCommand, examples=EXAMPLES)
@model_argument
@interface_options
@anchors_option
@max_detections_option
@data_folder("train", validated=True)
@data_options
@sequence_options
@budget_option
@schedule_options
@quantize_aware_option
@quantize_weights_option
@teacher_options
@training_options
@rate_options
@one_options
@metric_option
@task_option
@hyper_parameter_options
@selection_options
@sparse_option
@frozen_options
@adapters_option
@export_options
@checkpoint_option
@validation_options
@fit_options
@best_options
@run_options
def command(model: str, print_config: bool, **values: Any) -> None:
    """Train MODEL, a .circle, circle+, .tflite or .onnx file, on data files.

    Options that are left out come from the checkpoint (.odt), then from the training info of a
    circle+ file, then from odt's defaults: batch size 32, Adam with learning rate 0.001, all
    operators; categorical cross-entropy after a final SOFTMAX, binary cross-entropy after a final
    LOGISTIC.
    """
    # Imported here, because help does not need the engine.
    with quick_imports():
        from odt.cli.options import training_run as run
        from odt.cli.output.rate_report import find_rate
        from odt.cli.output.training_log import TrainingLog, warnings_as_lines
        from odt.cli.runs.start import in_run_dir, run_logs

    options = TrainOptions.from_values(values)
    if print_config:
        return run.print_recipe(model, options)
    options = in_run_dir(options)
    run.keep_outputs(options)
    stages = StageTimer(options.report.mem_poll)
    click.echo(f"{'Package' if os.path.isdir(model) else 'Model'} Filename {model}")
    with stages.stage("MODEL_LOAD"):
        source = run.model_of(model, options.model)
        run.check_files(source, options)
        if options.quantize_aware or options.quantize_weights:
            with warnings_as_lines():
                source, options = run.quantized(source, options)
        options = run.with_task(source, options)
        trainer = run.trainer_of(source, options)
    data = run.open_samples(trainer, options)
    run.show_detector(trainer)
    with stages.stage("PREPARE"):
        run.build(trainer, data)
    if options.rate_test.find_rate:
        return find_rate(trainer, data.samples, options.fit, options.rate_test.png)
    run.check_exports(trainer, options)
    logs = run_logs(trainer, options)
    lost: LostFileError | None = None
    with trainer, warnings_as_lines(logs), stop_on_signals() as stopped:
        log = TrainingLog(stopped, options)
        try:
            with stages.stage("EXECUTE"), log:
                run.fit(trainer, data, [log, *logs])
        except LostFileError as e:
            lost = e
        run.write_exports(trainer, options, lost)
    log.end(stages)
    if lost is not None:
        steps = f"Training ended after step {trainer.session.build().parameters.step}"
        raise LostFileError(f"{lost} {steps}; all requested files are written.")
    leave(stopped)
