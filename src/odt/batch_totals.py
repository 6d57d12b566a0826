"""Loss and metrics of several batches together."""

from odt.core.data.dataset import DataSet
from odt.core.training.passes import Result, start
from odt.core.training.trainer import Trainer


class BatchTotals:
    """Loss and metrics over all samples of an iterable of batches.

    Attributes:
        samples: number of samples so far.
    """

    def __init__(self, core: Trainer) -> None:
        self.samples = 0
        self._core, self._metrics = core, start(core.metrics)
        self._loss, self._steps, self._seconds = 0.0, 0, 0.0

    def add(self, batch: DataSet, *, update: bool) -> Result:
        """Returns loss and metrics of one batch; runs a training step if `update`."""
        result = self._core.batch(batch, batch.length, self._metrics, update=update)
        self.samples += batch.length
        self._loss += result.loss * batch.length
        self._steps += 1
        self._seconds += result.seconds
        return result

    @property
    def result(self) -> Result:
        """Returns loss and metrics of all batches; the loss is the mean over samples."""
        values = {name: metric.value() for name, metric in self._metrics.items()}
        return Result(self._loss / self.samples, values, self._steps, self._seconds)
