"""Federated learning: clients train on their own data, a server averages what they trained.

Only tensors, counts and metrics leave a client. `odt docs federated` has worked examples.
"""

import importlib
from typing import Any

# Public name → its module, loaded when the name is first used; type checkers read __init__.pyi.
PUBLIC = {
    "Client": "odt.federated.client",
    "Update": "odt.federated.update",
    "Strategy": "odt.federated.strategies.strategy",
    "FedAvg": "odt.federated.strategies.fedavg",
    "FedProx": "odt.federated.strategies.fedprox",
    "FedAdam": "odt.federated.strategies.fedadam",
    "FedYogi": "odt.federated.strategies.fedyogi",
    "FedMedian": "odt.federated.strategies.fedmedian",
    "TrimmedMean": "odt.federated.strategies.trimmed_mean",
    "Krum": "odt.federated.strategies.krum",
    "parse_strategy": "odt.federated.strategies.strategy_text",
    "new_trainer": "odt.federated.defaults",
    "simulate": "odt.federated.simulation",
    "History": "odt.federated.history",
    "Round": "odt.federated.history",
    "merge": "odt.federated.merging",
    "check_tensors": "odt.federated.checks",
    "check_update": "odt.federated.checks",
    "PAYLOADS": "odt.federated.payloads",
    "broadcast": "odt.federated.payloads",
    "received": "odt.federated.payloads",
    "encode": "odt.federated.payloads",
    "decode": "odt.federated.payloads",
    "privacy_loss": "odt.federated.privacy",
    "tensors_of": "odt.federated.tensors",
    "load_tensors": "odt.federated.tensors",
}


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'odt.federated' has no attribute {name!r}")
    value = getattr(importlib.import_module(PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC})
