"""Base class of strategies, and the weighted mean that several share."""

from collections.abc import Sequence

import numpy as np

from odt.federated.update import Array, Tensors, Update


class Strategy:
    """Makes the tensors of the next round from the updates of this one.

    Attributes:
        proximal_mu: factor μ of the proximal term of the clients' loss; 0 for none.
    """

    proximal_mu = 0.0

    def aggregate(self, round: int, tensors: Tensors, updates: Sequence[Update]) -> Tensors:
        """Returns the new tensors; changes neither `tensors` nor `updates`.

        Args:
            round: number of the round, from 1.
            tensors: tensors that the clients were sent.
            updates: checked updates, sorted by partition; at least one.
        """
        raise NotImplementedError

    @property
    def state(self) -> dict[str, Array]:
        """Arrays that a resumed federation needs."""
        return {}

    @state.setter
    def state(self, arrays: dict[str, Array]) -> None:
        """Restores the arrays."""


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
