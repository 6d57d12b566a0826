"""Base class of strategies, and the weighted mean that several share."""

import math
from collections.abc import Sequence

import numpy as np

from odt.errors import OptionError
from odt.federated.update import Tensors, Update


class Strategy:
    """Makes the tensors of the next round from the updates of this one.

    Attributes:
        proximal_mu: factor μ of the proximal term of the clients' loss; 0 for none.
        moments: names of the arrays that the strategy keeps of each tensor.
        state: these arrays, by MOMENT/TENSOR; empty before the first round.
    """

    proximal_mu = 0.0
    moments: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.state: Tensors = {}

    def aggregate(self, round: int, tensors: Tensors, updates: Sequence[Update]) -> Tensors:
        """Returns the new tensors; changes neither `tensors` nor `updates`.

        Args:
            round: number of the round, from 1.
            tensors: tensors that the clients were sent.
            updates: checked updates, sorted by partition; at least one.
        """
        raise NotImplementedError


def check_number(name: str, value: float, least: float, *, below: float = math.inf) -> float:
    """Checks a number among the options of a strategy, and returns it.

    Args:
        name: name of the number, for the message.
        value: the number.
        least: smallest value.
        below: the value must be smaller than this.

    Raises:
        OptionError: if the value is out of range.
    """
    if not least <= value < below:
        limit = "" if below == math.inf else f" and below {below:g}"
        raise OptionError("strategy", f"`{name}` must be at least {least:g}{limit}", value)
    return value


def weighted_mean(updates: Sequence[Update]) -> Tensors:
    """Σ (nₖ / n) wₖ, in the order of the updates and in the dtype of the tensors.

    Args:
        updates: updates with nₖ samples and the tensors wₖ; n is Σ nₖ.
    """
    total = sum(float(update.samples) for update in updates)
    factors = [update.samples / total for update in updates]
    mean: Tensors = {}
    for name, first in updates[0].tensors.items():
        sums = np.asarray(first * factors[0])
        for update, factor in zip(updates[1:], factors[1:], strict=True):
            sums += update.tensors[name] * factor
        mean[name] = sums
    return mean
