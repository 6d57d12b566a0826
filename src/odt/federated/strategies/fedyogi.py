"""FedYogi: v ← v − (1 − β₂) Δ² sign(v − Δ²).

v changes by at most (1 − β₂) Δ², so that it forgets slowly. The rest is in adaptive.py. Source:
Reddi et al., Adaptive Federated Optimization (2021).
"""

import numpy as np

from odt.federated.strategies.adaptive import Adaptive
from odt.federated.update import Array


class FedYogi(Adaptive):
    """Yogi on the server, with the mean change of the clients as its gradient.

    Δ is the weighted mean of the clients' tensors minus the tensors w that they were sent. In each
    round, m ← β₁ m + (1 − β₁) Δ and v ← v − (1 − β₂) Δ² sign(v − Δ²); m and v begin at 0.

    Args:
        eta: learning rate η of the server.
        beta_1: decay β₁ of the mean of the changes.
        beta_2: decay β₂ of the mean of their squares.
        tau: τ, the degree of adaptivity, above 0; larger values adapt less.

    Raises:
        OptionError: if a value is out of range.
    """

    def second_moment(self, v: Array, square: Array) -> Array:
        """Returns v − (1 − β₂) Δ² sign(v − Δ²)."""
        new: Array = v - (1 - self.beta_2) * square * np.sign(v - square)
        return new
