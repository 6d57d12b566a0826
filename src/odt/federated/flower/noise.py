"""Noise of Flower's strategies for central differential privacy, round by round."""

from collections.abc import Sequence
from typing import Any

from flwr.app import Message
from flwr.serverapp.strategy import (
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedProx,
    FedYogi,
    Strategy,
)

from odt.federated.flower.record_keys import METRICS

# Their models are functions of the weighted mean, in which each client has a fraction.
MEANS = (FedAdagrad, FedAdam, FedAvg, FedAvgM, FedProx, FedYogi)


def is_private(strategy: Strategy) -> bool:
    """Whether a strategy adds noise for central differential privacy.

    Args:
        strategy: strategy of the federation.
    """
    return getattr(strategy, "noise_multiplier", 0) > 0


def noise_multipliers(strategy: Strategy, replies: Sequence[Message]) -> list[float]:
    """Returns the noise multipliers of a round's releases; 0 if the loss is not bounded.

    Flower adds noise to the mean as if all clients had the same weight. A client with a larger
    fraction of the mean is hidden less: its noise multiplier is z / (n · fraction), for n sampled
    clients. Adaptive clipping also releases how many updates were clipped, with noise of its own.

    Args:
        strategy: a strategy for which `is_private`.
        replies: replies of which the mean was made.
    """
    made: Any = strategy
    inner = made.strategy
    if type(inner) not in MEANS:
        return [0.0]
    weights = [float(r.content.metric_records[METRICS][inner.weighted_by_key]) for r in replies]
    fraction = max(weights) / sum(weights)
    noise = [made.noise_multiplier / (made.num_sampled_clients * fraction)]
    if hasattr(made, "clipped_count_stddev"):
        noise.append(float(made.clipped_count_stddev))
    return noise
