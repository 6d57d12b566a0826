"""Adaptive strategies: the mean change of the clients is a gradient for an optimizer on the server.

    Δ = w̄ − w            w̄ is the weighted mean of the clients, w the tensors they began with
    m ← β₁ m + (1 − β₁) Δ
    v ← …                 FedAdam and FedYogi differ here
    w ← w + η m / (√v + τ)

Source: Reddi et al., Adaptive Federated Optimization (2021), algorithm 2. m and v begin at 0, as in
Flower 1.41.
"""

from collections.abc import Sequence

import numpy as np

from odt.errors import OptionError
from odt.federated.strategies.strategy import Strategy, check_number, weighted_mean
from odt.federated.update import Array, Tensors, Update


class Adaptive(Strategy):
    """Base class of FedAdam and FedYogi.

    Args:
        eta: learning rate η of the server.
        beta_1: decay β₁ of the mean of the changes.
        beta_2: decay β₂ of the mean of their squares.
        tau: τ, the degree of adaptivity, above 0; larger values adapt less.

    Raises:
        OptionError: if a value is out of range.
    """

    moments = ("m", "v")

    def __init__(
        self, eta: float = 0.01, beta_1: float = 0.9, beta_2: float = 0.99, tau: float = 1e-3
    ) -> None:
        super().__init__()
        self.eta = check_number("eta", eta, 0)
        self.beta_1 = check_number("beta_1", beta_1, 0, below=1)
        self.beta_2 = check_number("beta_2", beta_2, 0, below=1)
        self.tau = check_number("tau", tau, 0)
        if not self.tau:  # 0 / 0 of a tensor that does not change
            raise OptionError("strategy", "`tau` must be above 0", tau)

    def aggregate(self, round: int, tensors: Tensors, updates: Sequence[Update]) -> Tensors:
        """Returns w + η m / (√v + τ), with the `rate` η of the round."""
        mean, rate = weighted_mean(updates), self.rate(round)
        new: Tensors = {}
        for name, w in tensors.items():
            delta = mean[name] - w
            m = self.state.get(f"m/{name}", np.zeros_like(w))
            v = self.state.get(f"v/{name}", np.zeros_like(w))
            m = self.beta_1 * m + (1 - self.beta_1) * delta
            v = self.second_moment(v, delta * delta)
            self.state |= {f"m/{name}": np.asarray(m), f"v/{name}": np.asarray(v)}
            new[name] = np.asarray(w + rate * m / (np.sqrt(v) + self.tau))
        return new

    def rate(self, round: int) -> float:
        """Learning rate η of a round.

        Args:
            round: number of the round, from 1.
        """
        return self.eta

    def second_moment(self, v: Array, square: Array) -> Array:
        """Returns the new v.

        Args:
            v: v of the round before.
            square: Δ².
        """
        raise NotImplementedError
