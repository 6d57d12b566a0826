"""Loss and metrics of several batches together."""

from odt.core.data.dataset import DataSet
from odt.core.training.passes import Result, new_totals
from odt.core.training.trainer import Trainer
from odt.errors import DataError


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
        self._loss = 0.0  # sum, weighted by `_weight`
        self._weight = 0.0
        self._steps = 0
        self._seconds = 0.0

    def add(self, batch: DataSet, *, update: bool) -> Result:
        """Computes a batch, with a training step if `update`; returns its loss and metrics."""
        result = self._core.batch(batch, batch.length, self.metrics, update=update)
        self.count(result, batch, update=update)
        return result

    def count(self, result: Result, batch: DataSet, *, update: bool) -> None:
        """Adds the loss and the time of a batch, whose samples the metrics already contain.

        Args:
            result: loss and time.
            batch: the samples.
            update: whether the batch has trained: its loss counts as in an epoch over arrays, by
                samples, and not by labels.

        Raises:
            DataError: if labels of one of several outputs are ignored, unless losses are sums.
        """
        if self._core.info.reduction == "sum":
            weight = 1.0
        else:
            weight = float(batch.length) if update else _labels(batch)
        self.samples += batch.length
        self._loss += result.loss * weight
        self._weight += weight
        self._steps += 1
        self._seconds += result.seconds

    @property
    def result(self) -> Result:
        """Loss and metrics of all batches; the loss is the mean over samples, or labels that count.

        Of sums it is the mean over batches.
        """
        values = {name: metric.value() for name, metric in self.metrics.items()}
        loss = self._loss / self._weight if self._weight else 0.0
        return Result(loss, values, self._steps, self._seconds)


def _labels(batch: DataSet) -> float:
    """Returns the samples of a batch, each counted by the fraction of its labels that count.

    Raises:
        DataError: if labels of one of several outputs are ignored: a batch has one loss.
    """
    counted = batch.weights.counted if batch.weights else ()
    if not counted:
        return float(batch.length)
    if len(counted) > 1:
        raise DataError(
            "x: batches for several outputs must have no ignored labels, but have some. Evaluate "
            "all samples together, as arrays."
        )
    (fractions,) = counted
    return batch.length if fractions is None else float(fractions.sum())
