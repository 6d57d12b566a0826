"""Warnings of `Trainer.fit`: before training, about an epoch, and about validated classes."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from odt.core.checkpoints.start import Start
from odt.core.data.dataset import DataSet
from odt.core.options.training_options import FILE, FOLLOW_ALL
from odt.core.training.metrics import preferred_form
from odt.core.training.passes import NO_TOTALS, Result
from odt.core.training.results import Epoch
from odt.core.training.trainer import Trainer
from odt.core.training.undo import DIVISOR, Undo, worst
from odt.data.run_samples import Samples
from odt.errors import MAX_MESSAGE, one_line
from odt.kernels.families.class_counts import ClassCounts, class_counter
from odt.kernels.rows.opdef import Array, TensorSpec
from odt.text import quantity
from odt.training.session import Session

MAX_NAMED = 5  # classes that a warning names
MAX_NAME = 24  # characters of a class name
LEAST = 3  # validation samples of a class that is never predicted, for a warning
FAR = 5.0  # times the loss of a constant prediction, for a warning
PIXEL = 30.0  # a largest input above it is a pixel's; scaled values are smaller
CLIPPED = 0.01  # fraction of an activation's values outside its range, for a warning


def warnings_before_training(
    trainer: Trainer, samples: Samples, resume: Start, first: int, epochs: int
) -> Iterator[str | None]:
    """Yields warnings about a training that is about to start.

    Args:
        trainer: trainer before its first step.
        samples: samples of the run.
        resume: checkpoint from which training resumes.
        first: number of the first epoch.
        epochs: number of the last epoch.
    """
    if not trainer.parameters.trained:
        cause = "no operator that training computes has weights"
        if trainer.info.trainable_ops is not None:
            cause = "the selected operators have no weights. Give `last=-1`, or more operators"
        yield f"Warning: nothing trains: {cause}; `Model.summary()` lists the operators."
    if first > epochs > 0:
        done = first - 1
        yield (
            f"{resume.path}: has completed {quantity(done, 'epoch')}, so none is left. "
            f"`epochs={epochs}` counts from the first epoch: give more than {done}."
        )
    else:
        order, info = samples.order, trainer.info
        count = len(order.samples)
        if order.drop_last:
            yield incomplete_batch(count, info.batch_size, order.shuffle, info.accumulate)
        elif count < info.step_samples:
            batches = f", `accumulate={info.accumulate}`" if info.accumulate > 1 else ""
            yield (
                f"`batch_size={info.batch_size}`{batches}: the training data has only "
                f"{quantity(count, 'sample')}, so each step uses all of them."
            )


def incomplete_batch(samples: int, batch: int, shuffle: bool, accumulate: int = 1) -> str | None:
    """Returns a warning about samples that do not fill a step; None if there are none.

    Args:
        samples: number of training samples.
        batch: samples in a batch.
        shuffle: whether samples are shuffled.
        accumulate: batches in a step.
    """
    step = batch * accumulate
    rest = samples % step
    if not rest:
        return None
    divisor = next((n for n in range(batch, 0, -1) if samples % (n * accumulate) == 0), 0)
    hints = [] if shuffle else ["`shuffle=True` leaves out different samples in each epoch"]
    if 2 * divisor >= batch:
        hints.append(f"`batch_size={divisor}` leaves out none")
    fate = "are left out, different ones in each epoch" if shuffle else "are never trained"
    remedy = f" {'; '.join(hints)}." if hints else ""
    unit = f"batch of {batch}" if accumulate == 1 else f"step of {accumulate} batches of {batch}"
    return f"{rest} of {samples} samples fill no {unit} and {fate}.{remedy}"


def unscaled_inputs(
    data: DataSet, samples: Sequence[int], loss: float, constant: float
) -> str | None:
    """Returns a warning if inputs look like pixels that the model needs scaled, else None.

    Args:
        data: the samples.
        samples: numbers of the samples to look at.
        loss: loss before training.
        constant: loss of the best constant prediction; NaN if unknown.
    """
    if not loss > FAR * constant or len(data.inputs) != 1:
        return None
    column = data.inputs[0]
    rows = np.empty((len(samples), column.spec.size), column.spec.dtype)
    column.read(samples, rows)
    least, most = float(rows.min()), float(rows.max())
    if rows.dtype.kind != "f" or not (least >= 0 and PIXEL < most <= 255):
        return None
    return (
        f"Warning: the loss before training, {loss:.4g}, is far above that of a constant "
        f"prediction, {constant:.4g}, and the inputs have values up to {most:g}. The model may "
        "need them scaled, such as to 0..1 or -1..1: odt gen-datafile `scale=`."
    )


def worse_than_untrained(
    number: int, loss: float, before: Result, learning_rate: float
) -> str | None:
    """Returns a warning if the loss after an epoch is above that before training, else None.

    Args:
        number: number of the epoch.
        loss: loss after the epoch.
        before: result before training, on the same samples.
        learning_rate: learning rate of the epoch.
    """
    if loss <= worst(before.loss, before.spread):
        return None
    # As many digits as show the difference: 17 tell all floats apart.
    for digits in range(4, 18):
        after, start = f"{loss:.{digits}g}", f"{before.loss:.{digits}g}"
        if after != start:
            break
    return (
        f"Warning: epoch {number}: the loss {after} is above {start}, the loss "
        f"before training. Give a smaller `learning_rate=` than {learning_rate:g}; "
        "`find_rate=` suggests one."
    )


def undone(epoch: Epoch, undo: Undo, learning_rate: float) -> str:
    """Returns the line about an epoch that was undone.

    Args:
        epoch: results of the epoch.
        undo: the losses that were compared.
        learning_rate: learning rate from now on.
    """
    why = (
        f"the loss {undo.after:.4g} is above {undo.loss:.4g}, the loss before training, by more "
        f"than its spread over batches, {undo.worst - undo.loss:.2g}"
    )
    if math.isnan(undo.after):
        why = "its loss is not finite"
    return (
        f"Warning: epoch {epoch.number} is undone: {why}. The learning rate is {learning_rate:g} "
        f"from now on, not {learning_rate * DIVISOR:g}; `learning_rate=` sets another."
    )


def one_class(samples: Samples, losses: Sequence[tuple[str, TensorSpec]]) -> str | None:
    """Returns a warning if all training samples are of one class, else None.

    Args:
        samples: samples of the run.
        losses: name of each loss, and the spec of one sample of its output.
    """
    if samples.labels is None:
        only = samples.data.only_class(losses)
    else:
        first = int(samples.labels[0])
        only = first if (samples.labels == first).all() else None
    if only is None:
        return None
    return (
        f"Warning: all training samples are of class {only}, so the model learns to predict it "
        "for everything. Add samples of other classes."
    )


def clipped_activations(trainer: Trainer) -> str | None:
    """Returns a warning if a fixed range cuts off many values of an activation, else None."""
    clipped = trainer.parameters.ranges.most_clipped()
    if clipped is None:
        return None
    tensor, fraction = clipped
    if fraction < CLIPPED:
        return None
    name = one_line(trainer.graph.tensors[tensor].name.removesuffix("/range"), MAX_MESSAGE)
    word = "follow" if trainer.info.quant_ranges == FILE else FOLLOW_ALL
    return (
        f'Warning: {fraction:.0%} of the values of the activation "{name}" are outside the range '
        f'that the file has for it, and are cut off. Give `quant_ranges="{word}"`.'
    )


def never_predicted(
    actual: Array, predicted: Array, classes: Sequence[str], least: int = 1
) -> str | None:
    """Returns a warning of classes that samples have but that are never predicted, else None.

    Args:
        actual: number of samples of each class.
        predicted: number of samples predicted as each class.
        classes: names of the classes; if their number is another, numbers replace them.
        least: number of samples that a class must have to be named.
    """
    missing = np.flatnonzero((actual >= least) & (predicted == 0))
    if not missing.size:
        return None
    has_names = len(classes) == len(actual)
    labels = [
        f"{one_line(classes[k], MAX_NAME) if has_names else k} ({quantity(actual[k], 'sample')})"
        for k in missing[:MAX_NAMED]
    ]
    if missing.size > MAX_NAMED:
        labels.append("…")
    verb = "is" if missing.size == 1 else "are"
    return (
        f"{missing.size} of {np.count_nonzero(actual)} classes {verb} never predicted: "
        f"{', '.join(labels)}. "
        'Training with `class_weight="balanced"` or more samples may help.'
    )


class ValidationClasses:
    """Counts the classes of validation, to warn of those that the trained model never predicts."""

    def __init__(self, session: Session, samples: Samples, names: Sequence[str]) -> None:
        """Begins to count.

        Args:
            session: model, options and memory.
            samples: samples of the run.
            names: names of the classes; empty if they are unknown.
        """
        self._core = session.build()
        self._names = names
        self._form = None
        if samples.validation_labels is not None and session.teacher is None:
            specs = session.samples
            self._form = preferred_form(*specs.losses[0], logits=specs.logits[0])
        self._counts: ClassCounts | None = None
        self._counter: ClassCounts | None = None
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Begins to count the validation samples of an epoch."""
        self._counter = class_counter(self._form) if self._form else None
        self._core.counts = {"classes": self._counter} if self._counter else NO_TOTALS

    def end_epoch(self, number: int, *, worse: bool) -> None:
        """Keeps the counts of the epoch whose weights are those of the end.

        Args:
            number: number of the epoch.
            worse: whether its loss was too high: then classes say nothing about the data.
        """
        if worse:
            self._counts = None
        # Without `keep_best`, which needs memory, the weights of the last epoch stay.
        elif not self._core.best.nbytes or self._core.best.epoch == number:
            self._counts = self._counter
        self._core.counts = NO_TOTALS  # callbacks may evaluate

    def end(self) -> str | None:
        """Returns a warning of classes that are never predicted, or None."""
        self._core.counts = NO_TOTALS
        if self._counts is None:
            return None
        actual, predicted = self._counts.actual, self._counts.predicted
        missing = never_predicted(actual, predicted, self._names, LEAST)
        return f"Warning: validation: {missing}" if missing else None
