"""LinearLRScheduler: linear warm-up and decay of the learning rate."""

from odt.compat.ort.optimizer import Optimizer
from odt.core.recipe.option_values import check_learning_rate, check_whole
from odt.errors import OptionError


class LinearLRScheduler:
    """Linear warm-up and decay: the rate grows from 0 to `initial_lr`, then falls to 0.

    After t updates the rate is initial_lr · t / warmup_step_count in the warm-up, then
    initial_lr · (total_step_count − t) / (total_step_count − warmup_step_count), at least 0. With a
    warm-up the rate of the first update is 0.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        warmup_step_count: int,
        total_step_count: int,
        initial_lr: float,
    ) -> None:
        """Sets the learning rate of the next update.

        Args:
            optimizer: the optimizer, whose number of updates is t.
            warmup_step_count: number of updates of the warm-up.
            total_step_count: number of updates after which the rate is 0.
            initial_lr: rate at the end of the warm-up.

        Raises:
            OptionError: if a number is invalid, or the warm-up is longer than the total.
        """
        check_whole("warmup_step_count", warmup_step_count, 0)
        check_whole("total_step_count", total_step_count, 1)
        check_learning_rate(initial_lr)
        if warmup_step_count > total_step_count:
            rule = f"must be at most total_step_count, {total_step_count}"
            raise OptionError("warmup_step_count", rule, warmup_step_count)
        self._optimizer = optimizer
        self._warmup, self._total, self._peak = warmup_step_count, total_step_count, initial_lr
        self.step()

    def step(self) -> None:
        """Sets the learning rate of the next update; to be called after each `Optimizer.step`."""
        updates = self._optimizer.module.model.state.step
        if updates < self._warmup:
            fraction = updates / self._warmup
        else:
            fraction = max(self._total - updates, 0) / max(self._total - self._warmup, 1)
        self._optimizer.set_learning_rate(self._peak * fraction)
