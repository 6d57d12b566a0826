"""The samples of a training run: those that train, in their order, and those that validate."""

from collections.abc import Sequence
from dataclasses import dataclass

from odt.core.data.dataset import DataSet, EpochOrder
from odt.core.data.protocol import SampleOrder
from odt.core.data.split import split_classes, split_last
from odt.errors import OptionError
from odt.kernels.opdef import Array, TensorSpec


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of a training run.

    Attributes:
        data: all samples.
        order: order of the training samples in each epoch.
        validation: numbers of the samples that are split off for validation.
        labels: class of each sample; None if the targets are no classes, or nothing is split off.
    """

    data: DataSet
    order: EpochOrder
    validation: SampleOrder
    labels: Array | None


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
) -> Samples:
    """Splits samples into training and validation samples, and orders them.

    Args:
        data: the samples.
        losses: name of each loss, and the spec of one sample of its output.
        batch: batch size.
        length: number of samples to use; None for all.
        fraction: fraction used for validation.
        stratify: draws the fraction from each class, if the targets are classes; otherwise the
            last samples are used.
        shuffle: as in EpochOrder.
        seed: of the order and of the split.
        drop_last: as in EpochOrder.

    Raises:
        OptionError: if the data has fewer samples than wanted, or too few to train.
    """
    if length is not None and length > data.length:
        raise OptionError(
            "data_length", f"must be at most {data.length}, the samples of the data", length
        )
    count = length or data.length
    labels = data.labels(losses) if fraction else None
    if labels is not None:
        labels = labels[:count]
    if labels is not None and stratify:
        parts = split_classes(labels, fraction, seed)
    else:
        parts = split_last(count, fraction)
    samples = len(parts.training)
    if not samples:
        raise OptionError(
            "validation_split",
            f"must leave some of {count} samples to train",
            f"{fraction:g}",
            "Give less.",
        )
    if samples < batch and drop_last:
        raise OptionError(
            "batch_size",
            f"must be at most {samples}, the samples that train",
            batch,
            f"Give `batch_size={samples}` or less, or more data.",
        )
    return Samples(
        data, EpochOrder(parts.training, shuffle, seed, drop_last), parts.validation, labels
    )
