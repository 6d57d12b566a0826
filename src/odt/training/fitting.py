"""The loop of `Trainer.fit`: epochs, validation, callbacks, checkpoints."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from odt.core.checkpoints.progress import Progress
from odt.core.checkpoints.saver import Saver
from odt.core.data.dataset import DataSet
from odt.core.data.protocol import Data, scales_of
from odt.core.data.sample_weights import ClassWeights, Weighting, checksum, weighs_classes
from odt.core.data.split import validation_warning
from odt.core.options.fit_options import FIT_OPTIONS, FitOptions
from odt.core.recipe.resolve import contradiction
from odt.core.training.monitor import is_on_plateau
from odt.core.training.passes import Result
from odt.core.training.results import Epoch
from odt.core.training.undo import Undo, worst
from odt.core.training.watch import Feed, Watch
from odt.data.run_samples import Samples, arrange
from odt.data.sources import batches_of, class_weighted, is_batches, recorded, same_file
from odt.errors import DataError, OptionError, warn
from odt.kernels.registry import LOSSES
from odt.kernels.rows.lossdef import DISTRIBUTIONS, LABELS
from odt.kernels.rows.opdef import TensorSpec
from odt.training.batch_totals import BatchTotals
from odt.training.callbacks import Callback, History
from odt.training.default_rate import (
    HIGHEST_OF_LEARNED,
    NEW,
    choose_rate,
    constant_loss,
    highest_of,
)
from odt.training.evaluation import check_verbose
from odt.training.fit_warnings import (
    ValidationClasses,
    clipped_activations,
    one_class,
    undone,
    unscaled_inputs,
    warnings_before_training,
    worse_than_untrained,
)
from odt.training.pipelines import parsed_augmentations, pipeline_of
from odt.training.teacher_outputs import taught_samples

if TYPE_CHECKING:
    from odt.core.data.augmentations.augmentation import Augmentation
    from odt.training.live_curves import LiveCurves
    from odt.training.progress_bar import EpochLines
    from odt.training.trainer import Trainer

NEW_RUN = Progress(shuffle=True, drop_last=False, stratified=True)
UNTRAINED = 256  # most training samples of epoch 0, or labels if samples have several
LEAST_UNTRAINED = 16  # samples of epoch 0, however many labels they have
INSPECTED = 8  # of these, whose inputs a warning is about
WITH_BATCHES = ("epochs", "class_weight", "new_data")  # options that fit an iterable of batches


def fit(
    trainer: "Trainer",
    x: Any,
    y: Any,
    validation_data: Any,
    callbacks: Callback | Sequence[Callback],
    options: FitOptions,
    verbose: int | str,
    fine_tune: bool,
) -> History:
    """Trains for a number of epochs, as `Trainer.fit`.

    Args:
        trainer: the trainer.
        x: inputs.
        y: targets; None with a DataSet or an iterable.
        validation_data: samples for validation.
        callbacks: one or several callbacks of the user.
        options: the other arguments, checked.
        verbose: what shows progress.
        fine_tune: whether a default learning rate may be lowered, and epochs undone.
    """
    trainer.checkpoints.check_path("save_to", options.save_to)
    trainer.stop_training = trainer.worse = False
    session = trainer.session
    if options.new_data:
        if not session.resume.path:
            rule = "must come with the `checkpoint=` of the trainer"
            raise OptionError("new_data", rule, "it alone")
        session.resume = session.resume.on_new_data()
    run = Fit(trainer, callbacks, options, verbose)
    if is_batches(x, y):
        with _fitting(run):
            run.train_batches(x, validation_data)
        return run.history
    data = session.open(x, y, options.sample_weight, trains=True)
    validation_set = None
    if validation_data is not None:
        inputs, *others = pair(validation_data)
        validation_set = session.open(inputs, *others)
        warn(same_file(x, inputs, validation_set.length))
    trainer.record = recorded(x) or trainer.record
    if session.detection is not None:
        trainer.record = session.detection.recorded(trainer.record)
    samples, weighting = run.arrange(data, validation_set)
    augmentations = parsed_augmentations(run.options.augment)
    scales = scales_of(samples.all.weights)
    core = session.build(
        samples.count + (validation_set.length if validation_set else 0),
        scales=scales,
        prepared=session.prepared_nbytes(augmentations, scales),
        shuffled=samples.order.shuffle,
    )
    core.augment = ",".join(map(str, augmentations))
    core.parameters.mask_seed = samples.order.seed
    core.weighting = weighting
    saver = trainer.checkpoints.begin(
        samples.order, options.save_to, options.save_every, options.properties
    )
    fine_tune = fine_tune and session.recipe.lowered.adapted is None  # adapters begin at zero
    with _fitting(run):
        run.train_samples(samples, saver, fine_tune, augmentations)
    warn(clipped_activations(session.build()))
    return run.history


@contextmanager
def _fitting(run: "Fit") -> Iterator[None]:
    run.session.fitting = True
    try:
        yield
    finally:
        run.session.fitting = False
        run.close()


class Fit:
    """One call of `Trainer.fit`."""

    def __init__(
        self,
        trainer: "Trainer",
        callbacks: Callback | Sequence[Callback],
        options: FitOptions,
        verbose: int | str = 0,
    ) -> None:
        """Sets the trainer of the callbacks.

        Args:
            trainer: the trainer.
            callbacks: one or several callbacks of the user.
            options: the other arguments of `fit`, checked.
            verbose: what shows progress, as of `fit`.
        """
        self.options = options
        self.epochs = options.epochs
        self.max_steps = math.inf if options.max_steps is None else options.max_steps
        self.max_time = math.inf if options.max_time is None else options.max_time
        self.trainer = trainer
        self.session = trainer.session
        self.evaluation = trainer.evaluation
        self.checkpoints = trainer.checkpoints
        self.history = History()
        callbacks_of_user = [*callbacks] if isinstance(callbacks, Iterable) else [callbacks]
        for callback in callbacks_of_user:
            if not isinstance(callback, Callback):
                raise OptionError("callbacks", "must be callbacks", type(callback).__name__)
        self._progress = progress_of(verbose)
        self.callbacks = [self.history, *callbacks_of_user, *self._progress]
        for callback in self.callbacks:
            callback.trainer = trainer
        self._batch_begin = _overriding(self.callbacks, "on_train_batch_begin")
        self._batch_end = _overriding(self.callbacks, "on_train_batch_end")
        self._compute_outputs: Callable[[], None] | None = None  # of a teacher
        self.start: Epoch | None = None  # the results before training

    def close(self) -> None:
        """Ends the display of progress."""
        for progress in self._progress:
            progress.close()

    def arrange(self, data: DataSet, validation_set: DataSet | None) -> tuple[Samples, Weighting]:
        """Splits, orders and weighs samples; options that are left out are the checkpoint's.

        Args:
            data: the samples.
            validation_set: separate validation samples; None for none.
        """
        session = self.session
        options = self.options
        before = session.resume.progress if session.resume.checkpoint else NEW_RUN
        samples = arrange(
            data,
            session.samples.losses,
            session.recipe.info.batch_size,
            length=options.data_length,
            fraction=options.validation_split,
            stratify=before.stratified if options.stratify is None else options.stratify,
            shuffle=before.shuffle if options.shuffle is None else options.shuffle,
            seed=before.seed if options.seed is None else options.seed,
            drop_last=before.drop_last if options.drop_last is None else options.drop_last,
            validation_set=validation_set,
            accumulate=session.recipe.info.accumulate,
        )
        if options.validation_split and not len(samples.validation):
            warn(
                f"Warning: `validation_split={options.validation_split:g}`: no sample is left for "
                f"validation: all {samples.count} train."
            )
        if options.augment is None:
            self.options = replace(options, augment=before.augment)
        classes: ClassWeights = ()
        class_weight = options.class_weight
        if class_weight is None:
            class_weight = dict(before.class_weight)
        if weighs_classes(class_weight):
            losses = session.samples.losses
            training = samples.order.samples
            weighted, classes = class_weighted(data, losses, class_weight, training)
            samples = replace(samples, data=weighted)
        return samples, Weighting(classes, checksum(data.weights, data.position_weights))

    def train_samples(
        self,
        samples: Samples,
        saver: Saver,
        fine_tune: bool,
        augmentations: Sequence["Augmentation"] = (),
    ) -> None:
        """Trains on a data set, whose samples are read by number.

        Args:
            samples: samples of the run.
            saver: writes checkpoints.
            fine_tune: whether a default learning rate may be lowered, and epochs undone.
            augmentations: augmentations of the training samples.
        """
        trainer = self.trainer
        session = self.session
        resume = self.session.resume
        core = session.build()
        order = samples.order
        is_augmented = bool(augmentations)
        steps = order.steps(core.info.step_samples)
        first, done = resume.start(core.info.step_samples, steps)
        if first <= self.epochs:
            resume.check_samples(len(order.samples))
            resume.check_teacher(session.recipe.info)
        self._check_monitor(validates=len(samples.validation) > 0)
        source, feed = self._sources(samples, augmentations)
        steps_left = max(steps * (self.epochs - first + 1) - done, 0)
        steps_left = int(min(steps_left, max(self.max_steps - core.parameters.step, 0)))
        session.steps = steps_left
        core.start_schedule(steps_left)
        undoes = fine_tune and steps_left and session.rate_is_default
        core.undo = Undo(core.parameters) if undoes else None
        if session.detection is not None:
            session.detection.follow_samples(samples)
        self._begin(steps)
        if self._compute_outputs:
            self._compute_outputs()
        self._warn(samples)

        logs: dict[str, float] = {}
        with source as data, feed as prepared:
            if first <= self.epochs:
                warn(self._start(data, samples, steps_left, mixed=is_augmented))
                self._epoch_begin(first - 1)
            names = trainer.record.classes if trainer.record else ()
            classes = ValidationClasses(session, samples, names)
            for epoch in core.train(
                data,
                order,
                epochs=self.epochs,
                validation=samples.validation,
                validate_rest=samples.validation_set is not None,
                watch=_Steps(trainer, saver, steps, self._batch_begin, self._batch_end),
                max_steps=self.max_steps,
                max_seconds=self.max_time,
                start=first,
                skip=done,
                patience=self.options.patience,
                drop_last=order.drop_last,
                feed=prepared,
                evaluate=self.evaluation.validate,
            ):
                logs = self._finish_epoch(epoch, classes, mixed=is_augmented)
                # After the callbacks, so that a resumed run does not repeat what they have written.
                saver.epoch(undone=epoch.number if epoch.undone else 0)
                if trainer.stop_training:
                    break
                if epoch.number < self.epochs:
                    self._epoch_begin(epoch.number)
                classes.begin_epoch()
            warn(classes.end())
        self.checkpoints.finish()
        for callback in self.callbacks:
            callback.on_train_end(logs)

    def _finish_epoch(
        self, epoch: Epoch, classes: ValidationClasses, *, mixed: bool
    ) -> dict[str, float]:
        """Issues the warnings about an epoch and calls the callbacks; returns its logs.

        Args:
            epoch: the results of the epoch.
            classes: the classes predicted in validation.
            mixed: whether training samples were augmented.
        """
        best = self.session.build().best
        self.session.epoch = epoch
        logs = self.session.epoch_logs(epoch)
        warning = self._warning(epoch, mixed=mixed)
        warn(warning)
        classes.end_epoch(epoch.number, worse=bool(warning))
        # Without `keep_best`, which needs memory, the weights of the last epoch stay.
        if not epoch.undone and (not best.nbytes or best.epoch == epoch.number):
            self.trainer.worse = bool(warning)
        self._epoch_end(epoch.number - 1, logs)
        return logs

    def _sources(
        self, samples: Samples, augmentations: Sequence["Augmentation"]
    ) -> tuple[AbstractContextManager[Data], AbstractContextManager[Feed | None]]:
        """Returns the data that training reads, and the pipeline of augmented ones, if any.

        The data have the outputs of a teacher, or are cached, if the options ask for it.
        """
        session = self.session
        core = self.session.build()
        data = samples.all
        targets = samples.targets
        session.feed = None
        if session.teacher is not None:
            data, targets, self._compute_outputs = taught_samples(
                session.teacher, samples, session.samples, core, session.memory_budget
            )
        if core.caches:
            if augmentations:
                raise OptionError(
                    "augment",
                    "must be left out with `cache_frozen=`, whose values stay the same",
                    ",".join(map(str, augmentations)),
                )
            session.cache = core.frozen(data, targets, samples.parts)
            return session.cache, nullcontext()
        if augmentations:
            graph = session.recipe.graphs.at_file_batch
            source = data if session.detection is None else samples.data  # augments its boxes, too
            session.feed = pipeline_of(
                source, samples, graph, core.runtime, core.info.batch_size, augmentations
            )
            return nullcontext(data), session.feed
        return nullcontext(data), nullcontext()

    def train_batches(self, data: Any, validation_data: Any) -> None:
        """Trains on an iterable of batches; arguments are `x` and `validation_data` of `fit`."""
        trainer = self.trainer
        session = self.session
        self._check_batches()
        core = session.build()
        core.undo = None
        session.steps = None
        validate = self._validation(validation_data)
        logs: dict[str, float] = {}
        self._begin(None)
        for number in range(self.epochs):
            self._epoch_begin(number)
            totals = BatchTotals(core)
            batches = batches_of(data, session.samples, core.info.batch_size)
            for k, batch in enumerate(batches):
                if k:  # _epoch_begin has announced the first batch
                    for callback in self._batch_begin:
                        callback.on_train_batch_begin(k, {})
                samples = session.open_batch(*batch, class_weight=self.options.class_weight)
                session.build(scales=scales_of(samples.weights))
                batch_logs = session.logs(totals.add(samples, update=True))
                for callback in self._batch_end:
                    callback.on_train_batch_end(k, batch_logs)
                if trainer.stop_training:
                    break
            if not totals.samples:
                raise DataError("x: must give batches in every epoch, but it gave none.")
            logs = session.logs(totals.result)
            if validate is not None:
                logs |= session.logs(validate(), "val_")
            self._epoch_end(number, logs)
            if trainer.stop_training:
                break
        for callback in self.callbacks:
            callback.on_train_end(logs)

    def _validation(self, data: Any) -> Callable[[], Result] | None:
        """Returns a function that validates on samples or an iterable of batches; None for none."""
        if data is None:
            return None
        if not isinstance(data, tuple | list) and is_batches(data, None):
            return lambda: self.evaluation.batches(data, "validation_data")
        samples = self.session.open(*pair(data))
        if self.session.detection is not None:
            self.session.detection.follow(samples)
        order = range(samples.length)
        return lambda: self.evaluation.validate(samples, order, rest=True)

    def _check_batches(self) -> None:
        """Raises OptionError for options that need all samples instead of batches."""
        options = self.options
        if options.sample_weight is not None:
            rule = "must be in the batches (x, y, sample_weight) of an iterable"
            raise OptionError("sample_weight", rule, "it as an argument")
        values = {n: getattr(options, n) for n in FIT_OPTIONS if n not in WITH_BATCHES}
        # A switch that is off, such as `shuffle=False`, says what batches do in any case.
        given = [n for n, v in values.items() if v is not False and v != FIT_OPTIONS[n].default]
        info = self.session.recipe.info
        if info.accumulate > 1:
            given.append("accumulate")
        if self.session.options.keep_best:
            given.append("keep_best")
        if given:
            rule = "must be left out with an iterable of batches"
            raise OptionError(", ".join(given), rule)
        if is_on_plateau(info.schedule):
            rule = "must not be a ReduceOnPlateau with an iterable of batches"
            raise OptionError("schedule", rule, remedy="Use the callback ReduceLROnPlateau")

    def _warn(self, samples: Samples) -> None:
        """Issues the warnings before training; checks all samples if requested."""
        session = self.session
        core = self.session.build()
        resume = self.session.resume
        order = samples.order
        first, _ = resume.start(core.info.step_samples, order.steps(core.info.step_samples))
        data_sets = [samples.data]
        if samples.validation_set is not None:
            data_sets.append(samples.validation_set)
        for note in (*session.recipe.notes, *(n for data in data_sets for n in data.notes)):
            warn(note)
        warn(one_class(samples, session.samples.losses))
        wrong = contradiction(session.recipe.lowered.part.graph, core.info)
        warn(wrong and f"Warning: {wrong}")
        if self.options.check_data:
            for data in data_sets:
                data.check_all()
        changed = resume.warning(core, order)
        warn(changed and f"Warning: {changed}")
        if samples.labels is not None and samples.validation_labels is not None:
            warn(validation_warning(samples.labels, samples.validation_labels))
        if self.session.detection is not None:
            warn(self.session.detection.limit_warning(samples.data))
        for message in warnings_before_training(core, samples, resume, first, self.epochs):
            warn(message)

    def _untrained(self, data: Data, samples: Samples) -> Epoch:
        """Computes epoch 0: results before the first step on training and validation samples."""
        core = self.session.build()
        training = core.evaluate(data, self._untrained_samples(samples), rest=True)
        validation = None
        if len(samples.validation):
            rest = samples.validation_set is not None or not samples.order.drop_last
            validation = self.evaluation.validate(data, samples.validation, rest=rest)
        return Epoch(0, training, validation)

    def _untrained_samples(self, samples: Samples) -> Any:
        """Returns the numbers of the training samples of epoch 0, evenly spaced."""
        core = self.session.build()
        numbers = samples.order.samples
        count = most_untrained(core.runtime.losses[0], core.info.batch_size)
        places = np.linspace(0, len(numbers) - 1, min(len(numbers), count), dtype=np.int64)
        return np.asarray(numbers)[places]

    def _check_monitor(self, *, validates: bool) -> None:
        """Raises OptionError if epochs are compared by a value of validation, but there is none."""
        core = self.session.build()
        detection = self.session.detection
        if detection is not None and detection.metrics and not validates:
            warn(
                f"Warning: {', '.join(detection.metrics)}: measured on validation samples alone. "
                "Give `validation_split=` or `validation_data=`."
            )
        compares = self.options.patience is not None or core.plateau or core.best.nbytes
        if compares and core.best.monitor.name.startswith("val_") and not validates:
            raise OptionError(
                "monitor",
                f"{core.best.monitor.name} needs `validation_split=` or `validation_data=`",
                "neither",
                "Give one, or monitor another value such as loss.",
            )

    def _start(self, data: Data, samples: Samples, steps: int, *, mixed: bool) -> str | None:
        """Prepares the undoing of epochs, after epoch 0 of a new run; returns a warning.

        Args:
            data: the data that training reads.
            samples: the samples of the run.
            steps: number of steps of the run.
            mixed: whether training samples are augmented.
        """
        core = self.session.build()
        resume = self.session.resume
        first, done = resume.start(
            core.info.step_samples, samples.order.steps(core.info.step_samples)
        )
        is_new = (first, done) == (1, 0)
        warning = self._epoch_0(data, samples, steps, mixed=mixed) if is_new else None
        if core.undo:
            numbers = self._untrained_samples(samples)
            core.undo.measure = lambda: core.evaluate(data, numbers, rest=True).loss
            if not is_new:
                state = resume.progress.undo
                assert state, "without it, the rate of a checkpoint is not the default"
                core.undo.set_state(state)
            if done:
                core.undo.resume(lambda: resume.restore_before(core.graph, core.parameters))
        return warning

    def _epoch_0(self, data: Data, samples: Samples, steps: int, *, mixed: bool) -> str | None:
        """Computes the results before training and, from them, a default learning rate.

        Returns a line about the rate, or None; arguments are those of `_start`.
        """
        session = self.session
        core = self.session.build()
        session.epoch = self.start = self._untrained(data, samples)
        self.history.start = self.session.epoch_logs(session.epoch)
        losses = session.samples.losses
        loss_name, _ = losses[0]
        has_classes = LOSSES[loss_name].targets in (DISTRIBUTIONS, LABELS)
        if not has_classes and not core.undo:
            return None
        numbers = self._untrained_samples(samples)
        constant = constant_loss(samples.data, numbers, losses)
        if has_classes:
            loss = session.epoch.training.loss
            warn(unscaled_inputs(samples.data, numbers[:INSPECTED], loss, constant))
        warning = None
        if core.undo:
            warning = self._choose_rate(data, samples, steps, constant, mixed=mixed)
        if session.teacher:  # its loss cannot be compared with that of the labels
            core.undo = None
        return warning

    def _choose_rate(
        self, data: Data, samples: Samples, steps: int, constant: float, *, mixed: bool
    ) -> str | None:
        """Lowers the default rate if it would ruin the model; returns a line about it, or None.

        Also sets the loss with which the losses after epochs are compared.

        Args:
            data: the data that training reads.
            samples: the samples of the run.
            steps: number of steps of the run.
            constant: loss of the best constant prediction; NaN if unknown.
            mixed: whether training samples are augmented.
        """
        session = self.session
        core = self.session.build()
        start = self.start
        assert start is not None, "_epoch_0 has computed it"
        assert core.undo is not None, "the caller has checked it"
        loss = start.training.loss
        numbers = samples.order.samples
        highest = 1.0
        if session.recipe.lowered.adapted is None:  # adapters begin at zero: nothing is trained
            loss_name, _ = session.samples.losses[0]
            highest = highest_of(loss, constant, len(numbers), loss_name)
        is_trained = highest < 1
        is_new = loss >= NEW * constant  # False for NaN: a constant loss that is unknown
        usual = rate = core.info.learning_rate
        if session.may_lower_rate and not is_new:
            rate = choose_rate(core, data, numbers, steps, highest)
        session.rate_is_chosen = True
        before = start.validation or start.training
        core.undo.loss = before.loss
        core.undo.worst = worst(before.loss, before.spread)
        core.undo.running = is_trained and not (mixed or core.info.dropout)
        if rate == usual:
            return None
        core.set_rate(rate)
        losses = f"its loss is {loss:.4g}, that of a constant prediction {constant:.4g}."
        if not is_trained:
            why = f"A few steps with the learning rate {usual:g} raise the loss, {loss:.4g}."
        elif highest == HIGHEST_OF_LEARNED:
            why = f"The model has little to learn from these samples: {losses}"
        else:
            why = f"The model is already trained: {losses}"
        return f"{why} The learning rate is {rate:g}, not {usual:g}; `learning_rate=` sets another."

    def _warning(self, epoch: Epoch, *, mixed: bool) -> str | None:
        """Returns a warning if the loss after an epoch is above that before training, else None.

        Args:
            epoch: results of the epoch.
            mixed: whether training samples are augmented.
        """
        core = self.session.build()
        start = self.start
        if epoch.undone:
            assert core.undo is not None, "only `undo` undoes epochs"
            return undone(epoch, core.undo, core.info.learning_rate)
        if core.undo or start is None:
            return None
        after, before = epoch.validation, start.validation
        if after is not None and self.options.class_weight:
            return None  # training lowers a weighted loss; that of validation has no weights
        if after is None or before is None:
            if mixed or self.session.teacher:  # the loss of training is another one
                return None
            after, before = epoch.training, start.training
        return worse_than_untrained(epoch.number, after.loss, before, core.info.learning_rate)

    def _begin(self, steps: int | None) -> None:
        for callback in self.callbacks:
            callback.params = {"epochs": self.epochs, "steps": steps}
            callback.on_train_begin({})

    def _epoch_begin(self, number: int) -> None:
        for callback in self.callbacks:
            callback.on_epoch_begin(number, {})
        for callback in self._batch_begin:
            callback.on_train_batch_begin(0, {})

    def _epoch_end(self, number: int, logs: dict[str, float]) -> None:
        for callback in self.callbacks:
            callback.on_epoch_end(number, logs)


def progress_of(verbose: int | str) -> "list[EpochLines | LiveCurves]":
    """Returns what shows the progress of `fit`, by its argument `verbose`; none for a quiet run.

    Without the argument, an output that nobody watches stays quiet: one to a file or to another
    program. Then no callback is called after a step.

    Raises:
        OptionError: if the argument has no such value.
    """
    check_verbose(verbose)
    if verbose == 0:
        return []
    shell = notebook_shell() if verbose != 2 else None
    if verbose == "auto" and shell is None and not sys.stderr.isatty():
        return []
    # Imported here, because a quiet run needs neither bars nor curves.
    if shell is not None:
        from odt.training.live_curves import LiveCurves

        return [LiveCurves(shell)]
    from odt.training.progress_bar import EpochLines

    return [EpochLines("stdout" if verbose == 2 else "stderr", bar=verbose != 2)]


def notebook_shell() -> Any:
    """Returns the IPython shell of a notebook's kernel; None outside of notebooks."""
    ipython: Any = sys.modules.get("IPython")  # imported by the kernel, if there is one
    shell = ipython.get_ipython() if hasattr(ipython, "get_ipython") else None
    return shell if getattr(shell, "kernel", None) is not None else None


class _Steps(Watch):
    """Saves and calls callbacks after each step, until one of them stops training."""

    def __init__(
        self,
        trainer: "Trainer",
        saver: Saver,
        steps: int,
        begin: Sequence[Callback],
        end: Sequence[Callback],
    ) -> None:
        """Watches a run.

        Args:
            trainer: the trainer, which callbacks may stop.
            saver: writes checkpoints.
            steps: number of steps in an epoch.
            begin: callbacks that see the beginning of a step.
            end: callbacks that see its end.
        """
        self._trainer = trainer
        self._saver = saver
        self._steps = steps
        self._begin = begin
        self._end = end

    def step(self, epoch: int, step: int, loss: float) -> None:
        self._saver.step(epoch, step)
        for callback in self._end:
            callback.on_train_batch_end(step - 1, {"loss": loss})
        if step < self._steps and not self.stop():
            for callback in self._begin:
                callback.on_train_batch_begin(step, {})

    def stop(self) -> bool:
        return self._trainer.stop_training


def _overriding(callbacks: Sequence[Callback], method: str) -> list[Callback]:
    """Returns the callbacks that override a method, so that a step calls no others."""
    base = getattr(Callback, method)
    return [c for c in callbacks if getattr(type(c), method) is not base or method in vars(c)]


def most_untrained(loss: tuple[str, TensorSpec], batch: int) -> int:
    """Returns the most training samples of epoch 0: some batches, if samples have many labels.

    Args:
        loss: name of the first loss, and the spec of one sample of its output.
        batch: samples of a batch.
    """
    name, output = loss
    if LOSSES[name].targets != LABELS:
        return UNTRAINED
    labels = max(math.prod(output.shape[:-1]), 1)
    return min(UNTRAINED, max(UNTRAINED // labels, LEAST_UNTRAINED, 2 * batch))


def pair(data: Any) -> tuple[Any, ...]:
    """Returns the arguments of Session.open for validation data: a tuple or one object.

    Raises:
        DataError: if a tuple has neither two nor three values, or the object yields batches.
    """
    if not isinstance(data, tuple | list):
        if is_batches(data, None):
            raise DataError(
                "validation_data: must be (x, y), (x, y, sample_weight) or a DataSet, or batches "
                f"if x is batches, but got {type(data).__name__}."
            )
        return (data,)
    if len(data) not in (2, 3):
        raise DataError(
            "validation_data: must be (x, y), (x, y, sample_weight) or a DataSet, but got "
            f"{len(data)} values."
        )
    return tuple(data)
