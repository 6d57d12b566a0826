"""Learning rate range test: `Trainer.find_rate`."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from odt.core.data.dataset import DataSet, EpochOrder
from odt.core.data.protocol import Data, SampleOrder, scales_of
from odt.core.options.fit_options import FIT_OPTIONS
from odt.core.recipe.option_values import check_option
from odt.core.training.rate_test import rate_test
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.kernels.rows.scalars import is_number
from odt.text import table
from odt.training.session import Session

if TYPE_CHECKING:
    from odt.charts.plot import Plot

MARGIN = 10.0  # the suggestion is the rate of the lowest loss divided by this
ROWS = 25  # of the table


@dataclass(frozen=True, slots=True)
class RateTest:
    """Result of a learning rate range test; printed as a table.

    Attributes:
        rates: learning rate of each step.
        losses: loss of the next batch after the step.
        changes: these losses minus the losses that the weights before the test have on the same
            batches, as a moving average over the steps.
        suggestion: a tenth of the rate with the lowest change; None if no rate lowers the loss.
    """

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    changes: tuple[float, ...]
    suggestion: float | None

    @property
    def best(self) -> int | None:
        """The step with the lowest change; None if no rate lowers the loss."""
        if not self.changes:
            return None
        lowest = int(np.argmin(self.changes))
        return lowest if self.changes[lowest] < 0 else None

    def plot(self) -> "Plot":
        """Returns the plot of the losses over the rates, which a notebook shows."""
        from odt.training import rate_html

        return rate_html.plot(self.rates, self.losses, self.changes, self.suggestion)

    def __repr__(self) -> str:
        return f"RateTest({len(self.rates)} rates, suggestion={self.suggestion})"

    def _repr_html_(self) -> str:
        return self.plot()._repr_html_()

    def __str__(self) -> str:
        rows = [("LEARNING RATE", "LOSS", "CHANGE", "")]
        best = self.best
        interval = max(-(-len(self.rates) // ROWS), 1)
        shown = set(range(0, len(self.rates), interval))
        if best is not None:
            shown.add(best)
        for k in sorted(shown):
            note = "lowest" if k == best else ""
            values = f"{self.rates[k]:.2e}", f"{self.losses[k]:.4f}", f"{self.changes[k]:+.4f}"
            rows.append((*values, note))
        return "\n".join(table(rows, right=(0, 1, 2)))


def find_rate(
    session: Session,
    data: DataSet,
    lowest: float = 1e-7,
    highest: float = 10.0,
    steps: int = 100,
    seed: int = 0,
) -> RateTest:
    """Runs the test, as `Trainer.find_rate`.

    Args:
        session: model, options and memory.
        data: the samples.
        lowest: rate of the first step.
        highest: rate of the last step.
        steps: number of steps.
        seed: random seed of the order of the samples.

    Raises:
        OptionError: if the rates are not in order, or the model has a teacher.
    """
    check_option(FIT_OPTIONS["seed"], seed)
    if not (is_number(lowest) and is_number(highest) and 0 < lowest < highest):
        rule = "must be rates above 0, in order"
        raise OptionError("lowest, highest", rule, f"{lowest} and {highest}")
    if session.teacher is not None:
        raise OptionError("teacher", "must be left out with `find_rate=`", "both")
    core = session.build(data.length, scales=scales_of(data.weights))
    order = EpochOrder(range(data.length), shuffle=True, seed=seed)
    parts = _parts(order, core.info.step_samples, steps + 1)
    rates = np.geomspace(lowest, highest, steps).tolist()
    source: AbstractContextManager[Data] = nullcontext(data)
    if core.caches:
        source = core.frozen(data, data.without_inputs(), [range(data.length)])
    with source as samples:
        losses, changes = rate_test(core, samples, parts, rates)
    result = RateTest(tuple(rates[: len(losses)]), tuple(losses), tuple(changes), None)
    if result.best is None:
        return result
    return replace(result, suggestion=float(f"{result.rates[result.best] / MARGIN:.1g}"))


def _parts(orders: EpochOrder, size: int, count: int) -> list[SampleOrder]:
    """Returns the samples of steps, without incomplete ones, from as many epochs as needed.

    Args:
        orders: order of the samples in each epoch.
        size: number of samples in a step; fewer if there are not so many.
        count: number of steps.
    """
    size = min(size, len(orders.samples))
    parts: list[SampleOrder] = []
    epoch = 1
    while len(parts) < count:
        order = orders.order(epoch)
        parts += [order[first : first + size] for first in range(0, len(order) - size + 1, size)]
        epoch += 1
    return parts[:count]
