"""Progress of `fit`: bars on a terminal, and a line for each epoch."""

import sys
import time
from typing import Any, Self

from odt.core.training.passes import unseen
from odt.progress import Progress
from odt.text import figure
from odt.training.callbacks import Callback, Logs


class ProgressBar(Callback):
    """Progress bars of steps and evaluations; a context manager, whose end removes them."""

    def __init__(self) -> None:
        self._bar = Progress("step")
        self._evaluation = Progress()
        self._core: Any = None  # the engine's trainer, which reports its evaluations
        self._phase = "epoch 0"
        self._done = 0  # steps of the run
        self._sum = 0.0  # of the losses of the epoch
        self._steps = 0  # of the epoch so far

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes the bars."""
        self._evaluation.close()
        self._bar.close()
        if self._core is not None:
            self._core.seen = unseen

    def on_train_begin(self, logs: Logs) -> None:
        """Begins the bar of all steps, of an unknown number if an iterable gives the batches."""
        session = self.trainer.session
        self._core = session.build()
        self._bar.begin("epoch", session.steps)
        self._core.seen = self._seen

    def _seen(self, done: int, total: int) -> None:
        """Moves the bar of an evaluation."""
        self._bar.clear()
        self._evaluation(self._phase, done, total)
        if done >= total:
            self._evaluation.close()

    def on_epoch_begin(self, epoch: int, logs: Logs) -> None:
        """Shows the epoch on the bar."""
        self._evaluation.close()
        self._bar.rename(f"epoch {epoch + 1}/{self.params['epochs']}")
        self._sum = 0.0
        self._steps = 0
        self._phase = "validation"

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Advances the bar."""
        self._done += 1
        self._sum += logs["loss"]
        self._steps += 1
        self._bar.move(self._done, self._mean)
        if batch + 1 == self.params["steps"]:
            self._bar.clear()  # for the warnings about the epoch

    def _mean(self) -> str:
        """Formats the mean loss of the epoch's steps."""
        return f"loss={figure(self._sum / self._steps)}"

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Clears the bars for other output."""
        self._evaluation.close()
        self._bar.clear()


class EpochLines(ProgressBar):
    """Prints a line for each epoch, as Keras does.

    Args:
        stream: stdout or stderr.
        bar: whether a terminal shows the bars, too.
    """

    def __init__(self, stream: str, *, bar: bool) -> None:
        super().__init__()
        self._stream = stream
        self._shows_bar = bar
        self._begun = 0.0  # time at which the epoch began

    def on_train_begin(self, logs: Logs) -> None:
        """Begins the bar."""
        if self._shows_bar:
            super().on_train_begin(logs)

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Advances the bar."""
        if self._shows_bar:
            super().on_train_batch_end(batch, logs)

    def on_epoch_begin(self, epoch: int, logs: Logs) -> None:
        """Notes the time."""
        super().on_epoch_begin(epoch, logs)
        self._begun = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Prints the epoch's line: its time, loss and metrics."""
        super().on_epoch_end(epoch, logs)
        seconds = time.monotonic() - self._begun
        values = (f"{name}: {figure(value)}" for name, value in logs.items())
        line = " - ".join(
            [f"Epoch {epoch + 1}/{self.params['epochs']}", f"{seconds:.1f}s", *values]
        )
        print(line, file=getattr(sys, self._stream), flush=True)
