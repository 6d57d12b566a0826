"""Loss and metrics of several batches together."""

from odt.core.data.dataset import DataSet
from odt.core.training.passes import Result, new_totals
from odt.core.training.trainer import Trainer


class BatchTotals:
    """Loss and metrics over all samples of an iterable of batches.

    Attributes:
        samples: number of samples so far.
        metrics: metrics over them.
    """

    def __init__(self, core: Trainer) -> None:
        """Begins with no samples.

        Args:
            core: trainer that computes the batches.
        """
        self.samples = 0
        self.metrics = new_totals(core.metrics)
        self._core = core
        self._loss = 0.0  # sum over samples
        self._steps = 0
        self._seconds = 0.0

    def add(self, batch: DataSet, *, update: bool) -> Result:
        """Computes a batch, with a training step if `update`; returns its loss and metrics."""
        result = self._core.batch(batch, batch.length, self.metrics, update=update)
        self.count(result, batch.length)
        return result

    def count(self, result: Result, samples: int) -> None:
        """Adds the loss and the time of a batch, whose samples the metrics already contain."""
        self.samples += samples
        self._loss += result.loss * samples
        self._steps += 1
        self._seconds += result.seconds

    @property
    def result(self) -> Result:
        """Loss and metrics of all batches; the loss is the mean over samples."""
        values = {name: metric.value() for name, metric in self.metrics.items()}
        return Result(self._loss / self.samples, values, self._steps, self._seconds)
