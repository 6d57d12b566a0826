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
from odt.federated.privacy import SENSITIVITY

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

    Flower adds noise of z · C / n to the mean, for n sampled clients and clipping norm C. One
    client more, less or replaced moves the mean by up to 2 · C · f, where f is its fraction of the
    mean, so its noise multiplier is z / (2 · n · f): a client with more samples is hidden less.
    Adaptive clipping also releases how many updates were clipped, with noise of its own.

    Args:
        strategy: a strategy for which `is_private`.
        replies: replies of which the strategy computed the mean.
    """
    private: Any = strategy
    inner = private.strategy
    if type(inner) not in MEANS:
        return [0.0]
    weights = [float(r.content.metric_records[METRICS][inner.weighted_by_key]) for r in replies]
    fraction = max(weights) / sum(weights)
    noise = [private.noise_multiplier / (SENSITIVITY * private.num_sampled_clients * fraction)]
    if hasattr(private, "clipped_count_stddev"):
        noise.append(float(private.clipped_count_stddev))
    return noise
