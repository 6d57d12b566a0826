"""Warnings before training: samples left out, nothing trainable, no epochs left."""

from collections.abc import Iterator

from odt.core.checkpoints.resume import Resume
from odt.core.training.results import Epoch
from odt.core.training.trainer import Trainer
from odt.run_samples import Samples

WORSE = 1.5  # times the loss before training


def warnings_before_training(
    trainer: Trainer, samples: Samples, resume: Resume, first: int, epochs: int
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
        yield (
            "Warning: nothing trains: the selected operators have no weights. Give `last=-1`, or "
            "more operators; `Model.summary()` lists them."
        )
    if first > epochs > 0:
        yield (
            f"{resume.path}: has completed {first - 1} epochs, so none is left. "
            f"`epochs={epochs}` counts from the first epoch: give more than {first - 1}."
        )
    else:
        order, batch = samples.order, trainer.info.step_samples
        count = len(order.samples)
        if order.drop_last:
            yield incomplete_batch(count, batch, order.shuffle)
        elif count < batch:
            yield (
                f"`batch_size={batch}`: the training data has only {count} samples, so each step "
                "uses all of them."
            )


def incomplete_batch(samples: int, batch: int, shuffle: bool) -> str | None:
    """Returns a warning about samples that do not fill a batch; None if there are none."""
    left = samples % batch
    if not left:
        return None
    fits = next(size for size in range(batch, 0, -1) if samples % size == 0)
    hints = [] if shuffle else ["`shuffle=True` leaves out different samples in each epoch"]
    if 2 * fits >= batch:
        hints.append(f"`batch_size={fits}` leaves out none")
    fate = "are left out, different ones in each epoch" if shuffle else "are never trained"
    remedy = f" {'; '.join(hints)}." if hints else ""
    return f"{left} of {samples} samples fill no batch of {batch} and {fate}.{remedy}"


def worse_than_untrained(epoch: Epoch, before: float | None, learning_rate: float) -> str | None:
    """Returns a warning if an epoch's loss is well above the loss before training, else None.

    Args:
        epoch: results of the epoch.
        before: loss of epoch 0; None if it was not computed.
        learning_rate: learning rate of the epoch.
    """
    loss = epoch.training.loss
    if before is None or not loss > WORSE * before:
        return None
    return (
        f"Warning: epoch {epoch.number}: the loss {loss:.4g} is well above {before:.4g}, the loss "
        f"before training. Give a smaller `learning_rate=`, such as {learning_rate / 10:g} instead "
        f"of {learning_rate:g}."
    )
