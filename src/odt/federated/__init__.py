"""Federated learning: clients train on their own data, a server averages what they trained.

Only tensors, counts and metrics leave a client. docs/federated.md has worked examples.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the table below, for type checkers
    from odt.federated.checks import check_tensors as check_tensors
    from odt.federated.checks import check_update as check_update
    from odt.federated.client import Client as Client
    from odt.federated.defaults import new_trainer as new_trainer
    from odt.federated.history import History as History
    from odt.federated.history import Round as Round
    from odt.federated.merging import merge as merge
    from odt.federated.payloads import PAYLOADS as PAYLOADS
    from odt.federated.payloads import broadcast as broadcast
    from odt.federated.payloads import decode as decode
    from odt.federated.payloads import encode as encode
    from odt.federated.payloads import received as received
    from odt.federated.privacy import privacy_loss as privacy_loss
    from odt.federated.simulation import simulate as simulate
    from odt.federated.strategies.fedadam import FedAdam as FedAdam
    from odt.federated.strategies.fedavg import FedAvg as FedAvg
    from odt.federated.strategies.fedmedian import FedMedian as FedMedian
    from odt.federated.strategies.fedprox import FedProx as FedProx
    from odt.federated.strategies.fedyogi import FedYogi as FedYogi
    from odt.federated.strategies.krum import Krum as Krum
    from odt.federated.strategies.strategy import Strategy as Strategy
    from odt.federated.strategies.strategy_text import parse_strategy as parse_strategy
    from odt.federated.strategies.trimmed_mean import TrimmedMean as TrimmedMean
    from odt.federated.tensors import load_tensors as load_tensors
    from odt.federated.tensors import tensors_of as tensors_of
    from odt.federated.update import Update as Update

# Public name → its module, loaded when the name is first used.
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

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in PUBLIC:
            raise AttributeError(f"module 'odt.federated' has no attribute {name!r}")
        value = getattr(importlib.import_module(PUBLIC[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *PUBLIC})
