"""FedAdam: v ← β₂ v + (1 − β₂) Δ², with the rate η √(1 − β₂ᵗ⁺¹) / (1 − β₁ᵗ⁺¹) in round t.

The rest is in adaptive.py. Source: Reddi et al., Adaptive Federated Optimization (2021); the
correction of the rate is Adam's, counted as in Flower 1.41.
"""

import math

from odt.federated.strategies.adaptive import Adaptive
from odt.federated.update import Array


class FedAdam(Adaptive):
    """Adam on the server, with the mean change of the clients as its gradient.

    Δ is the weighted mean of the clients' tensors minus the tensors w that they were sent. In each
    round, m ← β₁ m + (1 − β₁) Δ and v ← β₂ v + (1 − β₂) Δ²; m and v begin at 0.

    Args:
        eta: learning rate η of the server.
        beta_1: decay β₁ of the mean of the changes.
        beta_2: decay β₂ of the mean of their squares.
        tau: τ, the degree of adaptivity, above 0; larger values adapt less.

    Raises:
        OptionError: if a value is out of range.
    """

    def rate(self, round: int) -> float:
        """Learning rate η of a round, corrected for moments that began at 0.

        Args:
            round: number of the round, from 1.
        """
        t = round + 1
        return self.eta * math.sqrt(1 - self.beta_2**t) / (1 - self.beta_1**t)

    def second_moment(self, v: Array, square: Array) -> Array:
        """Returns β₂ v + (1 − β₂) Δ²."""
        new: Array = self.beta_2 * v + (1 - self.beta_2) * square
        return new
