"""Warnings before training: samples left out, nothing trainable, no epochs left."""

from collections.abc import Iterator

from odt.core.checkpoints.resume import Resume
from odt.core.data.dataset import EpochOrder, Split
from odt.core.training.trainer import Trainer


def warnings_before_training(
    trainer: Trainer, parts: Split, order: EpochOrder, resume: Resume, first: int, epochs: int
) -> Iterator[str | None]:
    """Yields lines for standard error, before the first step.

    Args:
        trainer: about to train.
        parts: the samples.
        order: of those that train.
        resume: what training goes on from.
        first: the number of the first epoch.
        epochs: the number of the last.
    """
    if not trainer.parameters.trained:
        yield (
            "Warning: nothing trains: the selected operators have no weights. Give "
            "--num-of-trainable-ops -1, or more of them as `odt inspect` counts them."
        )
    if first > epochs > 0:
        yield (
            f"{resume.path}: has completed {first - 1} epochs, so none is left. --epochs "
            f"{epochs} counts from the first epoch: give more than {first - 1}."
        )
    else:
        yield left_out(len(parts.training), trainer.info.batch_size, order.shuffle)


def left_out(samples: int, batch: int, shuffle: bool) -> str | None:
    """Warns of the samples of an epoch that do not fill a batch; None if there are none."""
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
