"""Samples of a training run: training samples with their order, and validation samples."""

from collections.abc import Sequence

import numpy as np

from odt.core.data.dataset import DataSet, EpochOrder
from odt.core.data.joined import JoinedSamples
from odt.core.data.protocol import Data, SampleOrder
from odt.core.data.split import split_classes, split_last
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.rows.opdef import Array, TensorSpec


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of a training run.

    Attributes:
        data: samples for training, and those that are split off for validation.
        count: number of these samples.
        order: order of the training samples in each epoch.
        validation: numbers of the validation samples in `all`.
        labels: class of each training sample; None if the targets are not classes, or without
            validation.
        validation_labels: class of each validation sample; None as for `labels`.
        validation_set: separate validation samples; None if they are split off.
    """

    data: DataSet
    count: int
    order: EpochOrder
    validation: SampleOrder
    labels: Array | None
    validation_labels: Array | None
    validation_set: DataSet | None = None

    @property
    def all(self) -> Data:
        """The samples for training and validation."""
        if self.validation_set is None:
            return self.data
        return JoinedSamples(self.data, self.validation_set, self.count, self.validation_set.length)

    @property
    def targets(self) -> Data:
        """The targets of `all`."""
        targets = self.data.without_inputs()
        if self.validation_set is None:
            return targets
        return JoinedSamples(
            targets, self.validation_set.without_inputs(), self.count, self.validation_set.length
        )

    @property
    def parts(self) -> list[range]:
        """Ranges of the samples in `all` that a cache computes together.

        Training and validation are ranges of their own, unless samples are drawn from all.
        """
        training = self.order.samples
        validation = self.validation
        if isinstance(training, range) and isinstance(validation, range):
            return [training, validation]
        parts = [range(self.count)]
        if self.validation_set is not None:
            parts.append(range(self.count, self.count + self.validation_set.length))
        return parts


def arrange(
    data: DataSet,
    losses: Sequence[tuple[str, TensorSpec]],
    batch: int,
    *,
    length: int | None,
    fraction: float,
    stratify: bool,
    shuffle: bool,
    seed: int,
    drop_last: bool,
    validation_set: DataSet | None = None,
    accumulate: int = 1,
) -> Samples:
    """Splits samples into training and validation samples, and orders them.

    Args:
        data: the samples.
        losses: name of each loss, and the spec of one sample of its output.
        batch: samples in a batch.
        length: number of samples to use; None for all.
        fraction: fraction used for validation.
        stratify: whether to draw the fraction from each class, if the targets are classes;
            otherwise the last samples are used.
        shuffle: whether to shuffle the samples in each epoch.
        seed: random seed of the order and of the split.
        drop_last: whether to leave out a last step that is not full.
        validation_set: separate validation samples.
        accumulate: batches in a step.

    Raises:
        OptionError: if samples are split off although `validation_set` is given, or the data has
            fewer samples than requested, or too few to train.
    """
    if length is not None and length > data.length:
        raise OptionError(
            "data_length", f"must be at most {data.length}, the number of samples", length
        )
    if validation_set is not None and fraction:
        raise OptionError(
            "validation_split", "must be left out with `validation_data=`", f"{fraction:g}"
        )
    count = length or data.length
    labels = data.labels(losses) if fraction or validation_set is not None else None
    if labels is not None:
        labels = labels[:count]
    if labels is not None and stratify and validation_set is None:
        parts = split_classes(labels, fraction, seed)
    else:
        parts = split_last(count, fraction)
    samples = len(parts.training)
    if not samples:
        raise OptionError(
            "validation_split",
            f"must leave some of the {count} samples for training",
            f"{fraction:g}",
            "Give less.",
        )
    if samples < batch * accumulate and drop_last:
        most = f"must be at most {samples}, the number of training samples"
        if accumulate > 1:
            rule = f"times `accumulate={accumulate}` {most}"
            raise OptionError("batch_size", rule, batch, "Give less of either, or more data.")
        remedy = f"Give `batch_size={samples}` or less, or more data."
        raise OptionError("batch_size", most, batch, remedy)
    order = EpochOrder(parts.training, shuffle, seed, drop_last)
    validation = parts.validation
    validation_labels = None
    if validation_set is not None:
        validation = range(count, count + validation_set.length)
        validation_labels = validation_set.labels(losses)
    elif labels is not None:
        validation_labels = labels[np.asarray(validation)]
    if labels is not None:
        labels = labels[np.asarray(order.samples)]
    return Samples(
        data=data,
        count=count,
        order=order,
        validation=validation,
        labels=labels,
        validation_labels=validation_labels,
        validation_set=validation_set,
    )
