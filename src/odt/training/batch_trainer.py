"""Training batch by batch: a base class of `odt.Trainer`, for loops written by hand."""

from collections.abc import Mapping
from typing import Any

from odt.core.recipe.option_values import check_learning_rate
from odt.core.runtime.parameters import by_name
from odt.data.sources import class_weighted
from odt.errors import OptionError
from odt.training.base_trainer import BaseTrainer, Logs
from odt.training.weights import Arrays


class BatchTrainer(BaseTrainer):
    """Trains a model on single batches; Trainer adds `fit`, checkpoints and export."""

    def train_on_batch(
        self,
        x: Any,
        y: Any,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
    ) -> Logs:
        """Runs one training step; returns loss and metrics before the update.

        Args:
            x: inputs (N, …), at most a batch.
            y: targets (N, …).
            sample_weight: weights of the samples' losses (N,).
            class_weight: mapping from classes to weights of their samples' losses.
        """
        data = self.open_batch(x, y, sample_weight)
        if class_weight:
            data, _ = class_weighted(data, self.samples.losses, class_weight)
        core = self.build(weighted=data.weights is not None)
        return self.logs(core.batch(data, data.length, update=True))

    def forward_backward(
        self, x: Any, y: Any, scale: float = 1.0, sample_weight: Any = None
    ) -> float:
        """Adds the gradients of a batch to `gradients`, for custom training loops.

        Args:
            x: inputs (N, …), at most a batch.
            y: targets (N, …).
            scale: factor of the loss and its gradients, such as 1/K to average K batches.
            sample_weight: weights of the samples' losses (N,). Give them from the first batch on:
                they cannot begin while gradients are accumulated.

        Returns:
            The loss multiplied by `scale`.

        Raises:
            TrainingError: if the loss is not finite; accumulated gradients are then discarded.
            DataError: if shapes do not match the model; or if values cannot be used, such as a
                label out of range: accumulated gradients are then discarded.
            OptionError: if weights of samples begin while gradients are accumulated.
        """
        data = self.open_batch(x, y, sample_weight)
        return self.build(weighted=data.weights is not None).accumulate(data, data.length, scale)

    def apply_gradients(self) -> None:
        """Updates the weights with `gradients`, then clears them."""
        self.build().apply_gradients()

    @property
    def gradients(self) -> Arrays:
        """Accumulated gradients by weight name; can be read and set in place."""
        trainer = self.build()
        return Arrays(lambda: by_name(trainer.graph, trainer.gradients))

    @property
    def weights(self) -> Arrays:
        """Trainable weights by name; can be read and set in place.

        With a moving average (`ema=`; quantized models have one by default), which `predict` and
        `export` use, arrays are read-only after the first step: `weights[name] = values` sets both.
        """
        graph, parameters = self.build().graph, self.build().parameters
        return Arrays(
            lambda: by_name(graph, parameters.tensors),
            lambda: by_name(graph, parameters.averages()),
        )

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next update; can be set between batches without a schedule.

        An update with the rate 0 changes the optimizer's state only.
        """
        parameters = self.build().parameters
        assert parameters.optimizer is not None
        return parameters.optimizer.rate(parameters.step + 1)

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        if value != 0:
            check_learning_rate(value)
        optimizer = self.build().parameters.optimizer
        assert optimizer is not None
        if optimizer.schedule:
            raise OptionError(
                "learning_rate",
                f"follows the schedule {optimizer.schedule}",
                f"{value:g}",
                "Leave the schedule out to set the rate.",
            )
        self.rate_is_set, self.build().undo = True, None
        optimizer.learning_rate = value
