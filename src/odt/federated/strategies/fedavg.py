"""FedAvg: w ← Σ (nₖ / n) wₖ, the mean of the clients' tensors weighted by their samples.

Source: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data
(2017). With the updates sorted by partition these are the bits of Flower 1.41's FedAvg.
"""

from collections.abc import Sequence

from odt.federated.strategies.strategy import Strategy, weighted_mean
from odt.federated.update import Tensors, Update


class FedAvg(Strategy):
    """The mean of the clients' tensors, weighted by their numbers of samples."""

    def aggregate(self, round: int, tensors: Tensors, updates: Sequence[Update]) -> Tensors:
        """Returns Σ (nₖ / n) wₖ."""
        return weighted_mean(updates)
