"""Krum: the tensors of the client that is closest to its neighbors.

The score of a client is the sum of the squared distances to its n − f − 2 nearest others, at least
one, of n clients of which f may be malicious; the lowest score wins, and of equal scores the first.
The source proves that this is safe for n > 2f + 2. Source:
Blanchard et al., Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent (2017).
"""

from collections.abc import Sequence

import numpy as np

from odt.arguments import checked_arguments
from odt.errors import OptionError
from odt.federated.checks import distance
from odt.federated.strategies.strategy import Strategy, check_number
from odt.federated.update import Tensors, Update


class Krum(Strategy):
    """The tensors of one client, chosen by its distance to the others.

    Of n clients, the score of one is the sum of the squared distances to the n − f − 2 clients
    nearest to it, at least one.

    Args:
        malicious: number f of clients that may send wrong values.

    Raises:
        OptionError: if `malicious` is not a whole number of at least 0.
    """

    @checked_arguments
    def __init__(self, malicious: int = 0) -> None:
        super().__init__()
        if check_number("malicious", malicious, 0) % 1:
            raise OptionError("strategy", "`malicious` must be a whole number", malicious)
        self.malicious = int(malicious)

    def aggregate(self, round: int, tensors: Tensors, updates: Sequence[Update]) -> Tensors:
        """Returns the tensors of the client with the lowest score."""
        n = len(updates)
        squares = np.zeros((n, n))
        for a in range(n):
            for b in range(a):
                d = distance(updates[a].tensors, updates[b].tensors)
                squares[a, b] = squares[b, a] = d * d
        np.fill_diagonal(squares, np.inf)
        nearest = max(1, n - self.malicious - 2)
        scores = np.sort(squares, axis=1)[:, :nearest].sum(axis=1)
        return dict(updates[int(np.argmin(scores))].tensors)
