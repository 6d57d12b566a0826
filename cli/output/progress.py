"""Runs the epochs of a training, with a bar where somebody looks."""

import sys
from collections.abc import Iterator, Sequence

from odt.cli.output.report import figure
from odt.core.checkpoints.resume import Saver
from odt.core.data.dataset import EpochOrder, Split
from odt.core.data.protocol import Data
from odt.core.training.trainer import Epoch, Trainer, Watch


def epochs_of(
    trainer: Trainer,
    data: Data,
    order: EpochOrder,
    epochs: int,
    parts: Split,
    stopped: Sequence[int],
    start: tuple[int, int],
    saver: Saver,
    patience: int | None,
) -> Iterator[Epoch]:
    """Trains and saves, with a bar on stderr where that is a terminal."""
    from tqdm import tqdm

    steps = len(parts.training) // trainer.info.batch_size
    first, done = start
    total = max(steps * (epochs - first + 1) - done, 0)
    with tqdm(total=total, unit="step", leave=False, disable=not sys.stderr.isatty()) as bar:

        def step(epoch: int, number: int, loss: float) -> None:
            bar.set_description(f"epoch {epoch}/{epochs}", refresh=False)
            bar.set_postfix(loss=figure("loss", loss), refresh=False)
            bar.update()
            saver.step(epoch, number)

        watch = Watch(step, lambda: bool(stopped))
        for epoch in trainer.fit(
            data,
            order,
            epochs=epochs,
            validation=parts.validation,
            watch=watch,
            start=first,
            skip=done,
            patience=patience,
        ):
            saver.epoch()
            bar.clear()
            yield epoch
