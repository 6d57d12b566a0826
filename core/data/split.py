"""Splits of samples into training and validation."""

import numpy as np

from odt.core.data.protocol import SampleOrder
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.rows.opdef import Array

MAX_CLASSES = 5  # that a warning names


@dataclass(frozen=True, slots=True)
class Split:
    """Numbers of the samples for training and for validation.

    Attributes:
        training, validation: the numbers, in the order of the data.
    """

    training: SampleOrder
    validation: SampleOrder


def split_last(length: int, fraction: float) -> Split:
    """Uses the last samples for validation, as onert_train and Keras do.

    Computes in float32, as onert_train does: 1,000 samples at 0.2 give 800 and 199. Of more than
    2^24 samples, float32 does not hold all numbers; none above `length` is used.

    Args:
        length: number of samples.
        fraction: fraction for validation, 0 … 1.

    Raises:
        OptionError: if `fraction` is not within 0 … 1.
    """
    check_fraction(fraction)
    one, total = np.float32(1), np.float32(length)
    border = one - np.float32(fraction)
    start = min(int(total * border), length)
    end = min(start + int(total * (one - border)), length)
    return Split(range(start), range(start, end))


def split_classes(labels: Array, fraction: float, seed: int) -> Split:
    """Draws the same fraction of each class for validation, to within one sample.

    Args:
        labels: class of each sample.
        fraction: fraction for validation, 0 … 1.
        seed: random seed of the draw.

    Raises:
        OptionError: if `fraction` is not within 0 … 1.
    """
    check_fraction(fraction)
    training = len(labels) - round(len(labels) * fraction)
    shuffled = np.random.default_rng((seed, len(labels))).permutation(len(labels))
    order = spread_classes(labels, shuffled)
    parts = np.sort(order[:training]), np.sort(order[training:])
    return Split(*parts)  # type: ignore[arg-type]  # arrays are read like Sequences


def spread_classes(labels: Array, order: Array) -> Array:
    """Reorders samples so that each class is spread evenly over the order.

    Args:
        labels: class of each sample.
        order: numbers of all samples; samples of a class keep their order.
    """
    sorted_labels = labels[order]
    place = np.empty(len(order))
    for label in set(labels.tolist()):  # np.unique would load numpy.ma
        members = np.flatnonzero(sorted_labels == label)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return order[np.argsort(place, kind="stable")]


def check_fraction(fraction: float) -> None:
    """Raises OptionError if `fraction` is not within 0 … 1."""
    if not 0 <= fraction <= 1:
        raise OptionError("validation_split", "must be 0 … 1", fraction)


def validation_warning(training: Array, validation: Array) -> str | None:
    """Returns a warning if classes are missing in the training or validation data, else None.

    Args:
        training: classes of the training samples.
        validation: classes of the validation samples.
    """
    train_classes = set(training.tolist())
    val_classes = set(validation.tolist())
    if val_classes - train_classes:
        return (
            f"validation has samples of class {_text(val_classes - train_classes)}, but training "
            "has none: its loss and metrics do not measure what is trained."
        )
    if len(val_classes) == 1 < len(train_classes):
        return (
            f"validation has only samples of class {_text(val_classes)}, but training has "
            f"{len(train_classes)} classes: its loss and metrics do not measure what is trained."
        )
    return None


def _text(classes: set[int]) -> str:
    """Lists the first classes for a message."""
    names = [str(label) for label in sorted(classes)[:MAX_CLASSES]]
    return ", ".join([*names, "…"] if len(classes) > MAX_CLASSES else names)
