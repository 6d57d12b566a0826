"""Base class of strategies, and the arithmetic that several share."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from odt.errors import OptionError
from odt.federated.update import Array, Tensors, Update
from odt.kernels.rows.scalars import is_number, plain

K = TypeVar("K")


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
    if not is_number(value) or not least <= value < below:
        limit = "" if below == math.inf else f" and below {below:g}"
        raise OptionError("strategy", f"`{name}` must be at least {least:g}{limit}", value)
    return float(plain(value))


def whole_share(fraction: float, count: int) -> int:
    """Returns ⌊fraction · count⌋ of exact numbers."""
    return math.floor(fraction * count + 1e-9)  # 0.29 · 100 is 28.999… in floats


def weighted_mean(updates: Sequence[Update]) -> Tensors:
    """Returns Σ (nₖ / n) wₖ, the mean of tensors wₖ weighted by samples nₖ; n is Σ nₖ.

    Args:
        updates: updates with the tensors and numbers of samples; at least one.
    """
    return mean_of([u.tensors for u in updates], [float(u.samples) for u in updates])


def mean_of(models: Sequence[Mapping[K, Array]], weights: Sequence[float]) -> dict[K, Array]:
    """Returns the weighted mean of tensors, summed in the order of the models, in their dtype.

    Args:
        models: tensors by key, of the same keys, shapes and dtypes in each model; at least one.
        weights: weight of each model, above 0; their sum need not be 1.
    """
    total = sum(weights)
    factors = [weight / total for weight in weights]
    mean: dict[K, Array] = {}
    for key, w in models[0].items():
        sums = np.asarray(w * factors[0])
        for tensors, factor in zip(models[1:], factors[1:], strict=True):
            sums += tensors[key] * factor
        mean[key] = sums
    return mean
