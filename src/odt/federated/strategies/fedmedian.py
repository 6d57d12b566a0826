"""FedMedian: the median of the clients' values, for each value of each tensor.

It stays between the values of the honest clients if these are more than half. The numbers of
samples do not count.
Source: Yin et al., Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates (2018).
"""

from collections.abc import Sequence

import numpy as np

from odt.federated.strategies.strategy import Strategy
from odt.federated.update import Tensors, Update


class FedMedian(Strategy):
    """The median of the clients' tensors, value by value."""

    def aggregate(self, round: int, tensors: Tensors, updates: Sequence[Update]) -> Tensors:
        """Returns the median; of an even number of clients, the mean of the middle two."""
        return {
            name: np.asarray(np.median(np.stack([u.tensors[name] for u in updates]), axis=0))
            for name in tensors
        }
