"""Which of the samples train and validate, and what there is to say of it."""

from odt.core.data import Split, split
from odt.errors import DataError


def cut_samples(length: int, wanted: int | None, share: float, batch: int) -> Split:
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


def left_out(samples: int, batch: int, shuffle: bool) -> str | None:
    """What to say of the samples of an epoch that fill no batch; None if there are none."""
    left = samples % batch
    if not left:
        return None
    fits = next(size for size in range(batch, 0, -1) if samples % size == 0)
    hints = [] if shuffle else ["--shuffle leaves out others in each epoch"]
    if 2 * fits >= batch:
        hints.append(f"--batch-size {fits} leaves out none")
    fate = "are left out, others in each epoch" if shuffle else "are never trained"
    remedy = f" {'; '.join(hints)}." if hints else ""
    return f"{left} of {samples} samples fill no batch of {batch} and {fate}.{remedy}"
