"""FedProx: clients minimize F(w) + (μ / 2) ‖w − wᵗ‖²; the server averages as FedAvg does.

wᵗ are the tensors that the round began with. Each update of a client adds μ (w − wᵗ) to the
gradient, which keeps clients with different data close to each other. Source: Li et al., Federated
Optimization in Heterogeneous Networks (2020).
"""

from odt.arguments import checked_arguments
from odt.federated.strategies.fedavg import FedAvg
from odt.federated.strategies.strategy import check_number


class FedProx(FedAvg):
    """FedAvg with a proximal term in the loss of the clients.

    Args:
        mu: factor μ of the proximal term, 0 or more.

    Raises:
        OptionError: if `mu` is out of range.
    """

    @checked_arguments
    def __init__(self, mu: float = 0.01) -> None:
        super().__init__()
        self.proximal_mu = check_number("mu", mu, 0)
