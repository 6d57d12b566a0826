"""Progress of `fit` in a notebook: curves that grow while the model trains.

The cell's output is one display of HTML that the kernel replaces, so that no widget, no script and
no other package is needed, and a saved notebook keeps the last state.
"""

import math
import time
from typing import Any

from odt.charts.chart import svg
from odt.charts.epoch_charts import epoch_charts
from odt.charts.html import paragraph, row_of_images
from odt.core.training.passes import unseen
from odt.text import duration, figure
from odt.training.callbacks import Callback, Logs

INTERVAL = 0.2  # seconds between two updates of the display
SHARE = 20  # updates take at most 1 / SHARE of the time


class LiveCurves(Callback):
    """Shows curves and the time left in a notebook.

    Args:
        shell: the IPython shell of the notebook's kernel.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._id = f"odt-{id(self)}-{time.time_ns()}"
        self._core: Any = None  # the engine's trainer, which reports its evaluations
        self._points: dict[str, list[tuple[float, float]]] = {}
        self._total: int | None = None  # steps of the run
        self._done = 0  # steps of the run so far
        self._epoch = 0  # epochs that are complete
        self._sum = 0.0  # of the losses of the epoch
        self._steps = 0  # of the epoch so far
        self._phase = "epoch 0"
        self._state = ""  # what runs or has ended besides steps; empty for steps
        self._begun = time.monotonic()  # time at which the run began
        self._shown = self._begun  # time of the last update
        self._interval = INTERVAL
        self._ended = False  # whether the run ended, and was not interrupted

    def on_train_begin(self, logs: Logs) -> None:
        """Begins the display."""
        session = self.trainer.session
        self._core = session.build()
        self._total = session.steps
        self._core.seen = self._seen
        self._show(update=False)

    def _seen(self, done: int, total: int) -> None:
        """Shows how far an evaluation is."""
        self._state = f"{self._phase}: {done:,} of {total:,} samples"
        self._show_if_due()

    def on_epoch_begin(self, epoch: int, logs: Logs) -> None:
        """Begins the epoch's point of the curve; adds the results before the first epoch."""
        start = self.trainer.session.epoch
        if start is not None and start.number == 0 and not self._points:
            self._add(0, self.trainer.session.epoch_logs(start))
        self._epoch = epoch
        self._sum = 0.0
        self._steps = 0
        self._phase = "validation"
        self._state = ""

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Moves the end of the curve."""
        self._done += 1
        self._sum += logs["loss"]
        self._steps += 1
        self._show_if_due()

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Adds the epoch's values."""
        self._epoch = epoch + 1
        self._steps = 0
        self._state = ""
        self._add(self._epoch, logs)
        self._show_if_due()

    def on_train_end(self, logs: Logs) -> None:
        """Notes that the run has not been interrupted."""
        self._ended = True

    def close(self) -> None:
        """Shows the last state."""
        if self._core is not None:
            self._core.seen = unseen
            self._state = f"ended after {duration(self._seconds)}"
            if not self._ended:
                self._state = f"interrupted after {duration(self._seconds)}"
            self._show()

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def _add(self, epoch: int, logs: Logs) -> None:
        for name, value in logs.items():
            if math.isfinite(value):
                self._points.setdefault(name, []).append((epoch, value))

    def _show_if_due(self) -> None:
        if time.monotonic() - self._shown >= self._interval:
            self._show()

    def _show(self, *, update: bool = True) -> None:
        """Publishes the display, or replaces it."""
        begun = time.monotonic()
        text = self._text()
        self._shell.display_pub.publish(
            {"text/plain": text, "text/html": f"<div>{self._html(text)}</div>"},
            {},
            transient={"display_id": self._id},
            update=update,
        )
        self._shown = time.monotonic()
        self._interval = max(INTERVAL, SHARE * (self._shown - begun))

    def _text(self) -> str:
        """Returns the epoch, the step and the time left."""
        epochs = self.params["epochs"] or 0
        steps = self.params["steps"]
        complete_or_begun = self._epoch + 1 if self._steps else self._epoch
        number = min(complete_or_begun, epochs)
        parts = [f"epoch {number} of {epochs}"]
        if self._steps:
            of_all = "" if steps is None else f" of {steps:,}"
            parts.append(f"step {self._steps:,}{of_all}")
            parts.append(f"loss {figure(self._sum / self._steps)}")
        else:
            parts += (f"{name} {figure(line[-1][1])}" for name, line in self._points.items())
        if self._state:
            parts.append(self._state)
        elif self._done and self._total:
            left = self._seconds / self._done * (self._total - self._done)
            parts.append(f"{duration(self._seconds)}, {duration(left)} left")
        return " · ".join(parts)

    def _html(self, text: str) -> str:
        """Returns the text, the bar and the curves."""
        parts = [paragraph(text)]
        if self._total:
            parts.append(f'<progress value="{self._done}" max="{self._total}"></progress><br/>')
        points = dict(self._points)
        if self._steps:  # the mean of the epoch's steps so far
            at = self._epoch + self._steps / max(self.params["steps"] or self._steps, 1)
            points["loss"] = [*points.get("loss", ()), (at, self._sum / self._steps)]
        if points:
            charts = [svg([chart]) for chart in epoch_charts(points)]
            parts.append(row_of_images(charts, "curves of loss and metrics"))
        return "".join(parts)
