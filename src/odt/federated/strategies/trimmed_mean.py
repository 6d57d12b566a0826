"""Trimmed mean: the mean of the clients' values without the ⌊β n⌋ largest and smallest of n.

It is computed for each value of each tensor; the numbers of samples do not count. Source: Yin et
al., Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates (2018).
"""

from collections.abc import Sequence

import numpy as np

from odt.arguments import checked_arguments
from odt.federated.strategies.strategy import Strategy, check_number, whole_share
from odt.federated.update import Tensors, Update


class TrimmedMean(Strategy):
    """The mean without the largest and smallest values.

    Args:
        beta: fraction β of the clients that is left out at each end, from 0 and below 0.5.

    Raises:
        OptionError: if `beta` is out of range.
    """

    @checked_arguments
    def __init__(self, beta: float = 0.2) -> None:
        super().__init__()
        self.beta = check_number("beta", beta, 0, below=0.5)

    def aggregate(self, round: int, tensors: Tensors, updates: Sequence[Update]) -> Tensors:
        """Returns the mean of the values that are left."""
        cut = whole_share(self.beta, len(updates))
        new: Tensors = {}
        for name, w in tensors.items():
            values = np.sort(np.stack([u.tensors[name] for u in updates]), axis=0)
            new[name] = np.asarray(values[cut : len(updates) - cut].mean(axis=0), w.dtype)
        return new
