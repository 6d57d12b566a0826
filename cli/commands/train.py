"""Trains a model on data and exports it."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import click

from odt.cli.options.cache import cache_options, what_to_keep
from odt.cli.options.onert import OneCommand, one_options, spelled_as_one
from odt.cli.options.sample_counts import split_samples
from odt.cli.options.shared import (
    LOSS_FIELDS,
    budget_option,
    check_data_option,
    checkpoint_options,
    data_options,
    hyper_parameter_options,
    metric_option,
    model_argument,
    open_data,
    schedule_options,
    selection_options,
    sparse_option,
    training_options,
)
from odt.cli.output import report
from odt.cli.output.output_paths import check_ending, check_outputs
from odt.cli.output.progress import epochs_of
from odt.cli.output.signals import keep_going, leave, stop_on_signals
from odt.cli.output.warnings import notes
from odt.core.checkpoints.resume import Resume, Saver, changed_constants, read_resume
from odt.core.data.dataset import EpochOrder
from odt.core.data.protocol import Data
from odt.core.export.exporter import export_model
from odt.core.model.dequantize import as_stored, dequantize_weights
from odt.core.model.reader import Model, read_model
from odt.core.model.training_info import TrainingInfo, encode_training_info, stored_training_info
from odt.core.planning.budget.forecast import DATA_PAGES
from odt.core.recipe.resolve import (
    contradiction,
    listed_operators,
    number_of_last,
    origins,
    resolve,
    values_used,
)
from odt.core.recipe.selection import Selection, choose_channels, select
from odt.core.storage.atomic_files import AtomicFile
from odt.core.storage.usage import StageTimer
from odt.core.training.metrics import fitting_metrics
from odt.core.training.trainer import Trainer, training_sample_specs
from odt.errors import LostFileError, OptionError
from odt.kernels.native.library import describe_kernels


@click.command(cls=OneCommand)
@model_argument
@data_options
@check_data_option
@click.option(
    "--epochs", type=click.IntRange(0), default=5, show_default=True, help="Times through the data."
)
@training_options
@one_options
@selection_options
@sparse_option
@hyper_parameter_options
@schedule_options
@budget_option
@cache_options
@click.option(
    "--validation-split",
    type=float,
    default=0.0,
    show_default=True,
    help="Share of the samples, the last of the file, that validates after each epoch.",
)
@click.option(
    "--keep-best",
    is_flag=True,
    help="Exports the weights of the epoch with the least val_loss, not those of the last.",
)
@click.option(
    "--patience",
    type=click.IntRange(1),
    metavar="N",
    help="Ends training after N epochs without a smaller val_loss.",
)
@metric_option
@click.option(
    "--shuffle/--no-shuffle", default=None, help="Takes the samples in a new order each epoch."
)
@click.option(
    "--seed", type=click.IntRange(0), help="Decides the orders of --shuffle; 0 if left out."
)
@checkpoint_options
@click.option(
    "--export-circle", type=click.Path(), metavar="FILE", help="Writes the trained model as Circle."
)
@click.option(
    "--export-tflite", type=click.Path(), metavar="FILE", help="Writes the trained model as TFLite."
)
@click.option(
    "--export-circleplus",
    type=click.Path(),
    metavar="FILE",
    help="Writes the trained model as circle+, with the values that trained it.",
)
@click.option(
    "--export-weights",
    type=click.Choice(["as-stored", "float"]),
    show_default="as-stored",
    help="How exports hold weights that the file has as float16 or int8.",
)
@click.option("--mem-poll", is_flag=True, help="Reports the process's memory in each phase.")
def command(
    model: str,
    load_input: str | None,
    load_expected: str | None,
    check_data: bool,
    epochs: int,
    num_of_trainable_ops: int | None,
    trainable_ops: str | None,
    trainable: tuple[str, ...],
    freeze: tuple[str, ...],
    bias_only: bool,
    freeze_norm: bool,
    sparse: tuple[tuple[str, float], ...],
    data_length: int | None,
    verbose_level: int,
    micro_batch: int | None,
    workers: int | None,
    memory_budget: int | None,
    cache_frozen: str | None,
    cache_dtype: str | None,
    validation_split: float,
    keep_best: bool,
    patience: int | None,
    metric: tuple[str, ...],
    shuffle: bool | None,
    seed: int | None,
    checkpoint: str | None,
    export_checkpoint: str | None,
    export_checkpoint_every: int | None,
    properties: tuple[tuple[str, str | int | float], ...],
    export_circle: str | None,
    export_tflite: str | None,
    export_circleplus: str | None,
    export_weights: str | None,
    mem_poll: bool,
    **options: Any,
) -> None:
    """Trains MODEL, a .circle, circle+ or .tflite file.

    What is not given comes from the training info of a circle+ file, else from odt's defaults:
    batches of 32, Adam with rate 0.001, all operators, and categorical cross-entropy for a final
    SOFTMAX, binary for a LOGISTIC. With --checkpoint in odt's own format it comes from there.
    """
    targets = {"circle": export_circle, "tflite": export_tflite, "circle+": export_circleplus}
    exports = {kind: target for kind, target in targets.items() if target}
    _refuse_alone("--property", properties, "--export-checkpoint", export_checkpoint)
    every = export_checkpoint_every
    _refuse_alone(
        "--export-checkpoint-every", every is not None, "--export-checkpoint", export_checkpoint
    )
    _refuse_alone("--export-weights", export_weights, "--export-circle or another export", exports)
    _refuse_alone("--keep-best", keep_best, "--export-circle or another export", exports)
    if exports or export_checkpoint:
        keep_going()
    timer = StageTimer(mem_poll)
    click.echo(f"{'Package' if os.path.isdir(model) else 'Model'} Filename {model}")
    with timer.stage("MODEL_LOAD"):
        source = read_model(model)
        _check_outputs(source, exports, export_checkpoint, checkpoint, load_input, load_expected)
        folded = dequantize_weights(source)
        resume = read_resume(checkpoint) if checkpoint else Resume("", None)
        before = resume.training_info(folded.graph)
        info, where = _resolve(source, num_of_trainable_ops, trainable_ops, options, before)
        selection = Selection(trainable, freeze, bias_only, freeze_norm)
        said = num_of_trainable_ops is not None or trainable_ops is not None
        info = select(folded.graph, info, selection, among=said)
        info = choose_channels(folded.graph, info, sparse)
    sample = training_sample_specs(folded.graph, info)
    metrics = fitting_metrics(metric, *sample.losses[0])
    for path in exports.values():
        AtomicFile(path).discard()  # better refused now than after hours of training
    data = open_data(load_input, load_expected, sample)
    if memory_budget is not None:
        data.limit_mapped(DATA_PAGES)
    parts = split_samples(data.length, data_length, validation_split, info.batch_size)
    then = resume.progress
    order = EpochOrder(
        parts.training,
        then.shuffle if shuffle is None else shuffle,
        then.seed if seed is None else seed,
    )
    _refuse_alone("--seed", seed is not None, "--shuffle", order.shuffle)
    _refuse_alone("--keep-best", keep_best, "--validation-split", parts.validation)
    _refuse_alone("--patience", patience, "--validation-split", parts.validation)
    keep = what_to_keep(cache_frozen, cache_dtype, data_length or data.length)
    with timer.stage("PREPARE"):
        m, w = resume.schedule(info.batch_size, micro_batch, workers)
        graph = resume.on(folded.graph)
        trainer = Trainer(
            graph,
            info,
            micro_batch=m,
            workers=w,
            budget=memory_budget,
            metrics=metrics,
            keep=keep,
            keep_best=keep_best,
        )
        source.give_pages_back()  # the weights that train are copied
    with trainer:
        if checkpoint:
            resume.restore(trainer.graph, trainer.parameters)
        used = values_used(source.graph, trainer.info)
        if export_circleplus:
            encode_training_info(used, len(source.graph.nodes))  # refused now if it cannot be said
        floats = export_weights == "float"
        if exports and not floats:
            as_stored(source, folded, trainer.weights())  # refused now if it cannot be stored
        block = _block(source, trainer.info)
        block["loss"] = ", ".join(dict.fromkeys(name for name, _ in trainer.runtime.losses))
        if verbose_level:
            block |= {"origins": where, "hyper_parameters": used.hyper_parameters}
        click.echo(report.parameter_block(**block))
        if verbose_level:
            click.echo(describe_kernels())
        if sparse or not selection.is_empty:
            click.echo(report.trained_line(trainer.parameters.trained.values()))
        warning = contradiction(source.graph, trainer.info)
        if warning:
            click.echo(f"Warning: {warning}", err=True)
        click.echo(report.memory_block(trainer.memory(), trainer.runtime.schedule))
        if memory_budget is not None and trainer.predicted is not None:
            click.echo(report.budget_line(trainer.predicted, memory_budget))
        for note in filter(None, (folded.note, *data.notes)):
            click.echo(note, err=True)
        if check_data:
            data.check_all()
        warning = resume.warning(trainer, order)
        if warning:
            click.echo(f"Warning: {warning}", err=True)
        start = resume.start(info.batch_size, len(parts.training) // info.batch_size)
        for note in filter(None, notes(trainer, parts, order, resume, start[0], epochs)):
            click.echo(note, err=True)
        saver = Saver(
            export_checkpoint,
            trainer,
            order,
            every=every or 0,
            properties=dict(properties),
            before=resume,
        )
        given: AbstractContextManager[Data] = nullcontext(data)
        if keep:
            cut = (parts.training, parts.validation)
            given = cache = trainer.frozen(data, data.without_inputs(), cut)
            click.echo(report.cache_line(keep, cache.nbytes, cache.arena_nbytes))
        times: list[float] = []
        lost: LostFileError | None = None
        with stop_on_signals() as stopped:
            try:
                with timer.stage("EXECUTE"), given as samples:
                    for epoch in epochs_of(
                        trainer, samples, order, epochs, parts, stopped, start, saver, patience
                    ):
                        times.append(epoch.training.seconds * 1000)
                        results = (epoch.training, epoch.validation)
                        line = report.epoch_line(
                            epoch.number, epochs, *results, as_one=spelled_as_one()
                        )
                        click.echo(line)
            except LostFileError as e:
                lost = e
            with _rescue(saver, next(iter(exports.values()), export_checkpoint)):
                saver.finish()
                trainer.best.restore()
                weights = {**changed_constants(folded.graph, graph), **trainer.weights()}
                for kind, path in exports.items():
                    plus = used if kind == "circle+" else None
                    export_model(
                        source, weights, path, kind.rstrip("+"), plus, float_weights=floats
                    )
    if (keep_best or patience) and trainer.best.epoch:
        click.echo(report.best_line(trainer.best, keep_best))
    click.echo(report.timing_table(timer.times_ms, times, start[0]))
    if mem_poll:
        click.echo(report.memory_tables(timer.usages))
    if lost is not None:
        step = trainer.parameters.step
        raise LostFileError(
            f"{lost} Training ended after step {step}; what was asked for is written."
        )
    leave(stopped)


@contextmanager
def _rescue(saver: Saver, asked: str | None) -> Iterator[None]:
    """Saves the weights where the model's own file is gone, of which other files are made.

    Args:
        saver: of the state.
        asked: a file that was to be written; its name goes before that of the rescued state.

    Raises:
        LostFileError: after that.
    """
    try:
        yield
    except LostFileError as e:
        path = f"{asked}.rescued.odt"
        saver.rescue(path)
        raise LostFileError(
            f"{e} The weights are saved as {path}; put the model file back, and export them with "
            "this --checkpoint and --epochs 0."
        ) from e


def _resolve(
    model: Model,
    number: int | None,
    listed: str | None,
    options: dict[str, Any],
    before: dict[str, Any],
) -> tuple[TrainingInfo, dict[str, str]]:
    """Training info, and where each of its fields comes from."""
    fields = (*LOSS_FIELDS, "optimizer", "learning_rate", "batch_size")
    info = stored_training_info(model)
    stored = info.given() if info else {}
    given = {name: options.pop(name) for name in fields}
    if listed is not None:
        if number is not None:
            raise OptionError(
                "--trainable-ops: must not be given with --num-of-trainable-ops, but got both"
            )
        given["trainable_ops"] = listed_operators(model.graph, listed)
    said = {name for name, value in given.items() if value is not None}
    if number is not None:
        said.add("trainable_ops")
    where = origins(stored, said) | dict.fromkeys(before.keys() - said, "checkpoint")
    resolved = resolve(model.graph, stored | before, given, options, number)
    for name, value in options.items():
        source = where["hyper_parameters"] if name in resolved.hyper_parameters else "default"
        where[name] = source if value is None else "command line"
    return resolved, where


def _check_outputs(
    model: Model,
    exports: dict[str, str],
    export_checkpoint: str | None,
    checkpoint: str | None,
    load_input: str | None,
    load_expected: str | None,
) -> None:
    """A model may be replaced by what it became, in its format, and a checkpoint by a later one."""
    written: dict[str, str | None] = {"--export-checkpoint": export_checkpoint}
    options = {kind: f"--export-{kind.replace('+', 'plus')}" for kind in exports}
    written |= {options[kind]: path for kind, path in exports.items()}
    read = {"--load-input": load_input, "--load-expected": load_expected}
    read |= {"MODEL": model.path, "--checkpoint": checkpoint}
    itself = {"circle": ("circle", "circleplus"), "tflite": ("tflite",)}[model.format]
    replaces = [(f"--export-{kind}", "MODEL") for kind in itself]
    check_outputs(written, read, [("--export-checkpoint", "--checkpoint"), *replaces])
    for kind, path in exports.items():
        check_ending(options[kind], path, kind)


def _refuse_alone(option: str, given: object, other: str, there: object) -> None:
    if given and not there:
        raise OptionError(f"{option}: must come with {other}, but got it alone")


def _block(model: Model, info: TrainingInfo) -> dict[str, Any]:
    return {
        "learning_rate": info.learning_rate,
        "batch_size": info.batch_size,
        "reduction": info.reduction,
        "optimizer": info.optimizer,
        "num_of_trainable_ops": number_of_last(model.graph, info.trainable_ops),
        "trainable_ops": info.trainable_ops or (),
    }
