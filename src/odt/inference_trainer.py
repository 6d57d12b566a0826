"""Evaluation and prediction with a trainer's weights: a base class of `odt.Trainer`."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from odt.base_trainer import Logs
from odt.batch_totals import BatchTotals
from odt.batch_trainer import BatchTrainer
from odt.data import batches_of, is_batches
from odt.errors import DataError


class InferenceTrainer(BatchTrainer):
    """Evaluates and predicts with the current weights."""

    def evaluate(self, x: Any, y: Any = None, sample_weight: Any = None) -> Logs:
        """Computes loss and metrics on samples.

        Args:
            x: inputs, as in `fit`.
            y: targets (N, …), as in `fit`.
            sample_weight: weights of the samples' losses, as in `fit`; metrics are not weighted.

        Returns:
            Loss and metrics by name.
        """
        trainer = self.build()
        if is_batches(x, y):
            return self._evaluate_batches(x)
        data = self.open(x, y, sample_weight)
        return self.logs(trainer.evaluate(data, range(data.length), rest=True))

    def test_on_batch(self, x: Any, y: Any, sample_weight: Any = None) -> Logs:
        """Returns loss and metrics of a batch without an update.

        Args:
            x: inputs (N, …), at most a batch.
            y: targets (N, …).
            sample_weight: weights of the samples' losses (N,).
        """
        data = self.open_batch(x, y, sample_weight)
        return self.logs(self.build().batch(data, data.length, update=False))

    def predict(self, x: Any) -> Any:
        """Computes the model's outputs with the current weights.

        Args:
            x: inputs (N, …), as in `fit`.

        Returns:
            An array (N, …); a list of arrays if the model has several outputs.
        """
        data = self.open(x, targets=False)
        trainer = self.build()
        specs = trainer.runtime.output_specs
        outputs = [np.empty((data.length, *spec.shape), spec.dtype) for spec in specs]
        first = 0
        for rows in trainer.predict(data, range(data.length)):
            for whole, part in zip(outputs, rows, strict=True):
                whole[first : first + len(part)] = part
            first += len(rows[0])
        return outputs[0] if len(outputs) == 1 else outputs

    def _evaluate_batches(self, batches: Iterable[Any]) -> Logs:
        totals = BatchTotals(self.build())
        for batch in batches_of(batches, self.samples, self.recipe.info.batch_size):
            totals.add(self.open_batch(*batch), update=False)
        if not totals.samples:
            raise DataError("x: must give batches, but it gave none.")
        return self.logs(totals.result)
