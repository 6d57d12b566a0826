"""Which of the samples train and which validate."""

from odt.core.data.dataset import Split, split
from odt.errors import DataError


def split_samples(length: int, wanted: int | None, share: float, batch: int) -> Split:
    """The samples that train and those that validate.

    Args:
        length: of the files.
        wanted: how many of them, from --data-length; None for all.
        share: of --validation-split.
        batch: samples in a step.

    Raises:
        DataError: if there are not as many, or not as many as a batch to train.
    """
    if wanted is not None and wanted > length:
        raise DataError(
            f"--data-length: must be at most {length}, the samples of the files, but got {wanted}"
        )
    parts = split(wanted or length, share)
    samples = len(parts.training)
    if not samples:
        raise DataError(
            f"--validation-split {share:g}: must leave samples to train, but got none of "
            f"{wanted or length}. Give less."
        )
    if samples < batch:
        raise DataError(
            f"--batch-size {batch}: the training data has {samples} samples. Give "
            f"--batch-size {samples} or less, or more data."
        )
    return parts
