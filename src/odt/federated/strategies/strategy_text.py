"""Strategies by name, as text: NAME or NAME:OPTION=VALUE,OPTION=VALUE."""

import inspect
from typing import Any

from odt.arguments import checked_arguments
from odt.errors import OptionError
from odt.federated.strategies.fedadam import FedAdam
from odt.federated.strategies.fedavg import FedAvg
from odt.federated.strategies.fedmedian import FedMedian
from odt.federated.strategies.fedprox import FedProx
from odt.federated.strategies.fedyogi import FedYogi
from odt.federated.strategies.krum import Krum
from odt.federated.strategies.strategy import Strategy
from odt.federated.strategies.trimmed_mean import TrimmedMean
from odt.kernels.rows.option_text import parse_options

STRATEGIES: dict[str, type[Strategy]] = {
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedmedian": FedMedian,
    "trimmed_mean": TrimmedMean,
    "krum": Krum,
}


@checked_arguments
def parse_strategy(text: str) -> Strategy:
    """Parses a strategy such as fedavg, fedprox:mu=0.1 or fedadam:eta=0.01,beta-1=0.9.

    Args:
        text: name, and options after a colon.

    Raises:
        OptionError: if there is no such strategy or option, or a value is invalid.
    """
    word, options = parse_options("strategy", text)
    if word not in STRATEGIES:
        choices = ", ".join(f"`{name}`" for name in STRATEGIES)
        raise OptionError("strategy", f"must be one of {choices}", text)
    kind = STRATEGIES[word]
    parameters = list(inspect.signature(kind).parameters)
    values: dict[str, Any] = {}
    for name, value in options.items():
        if name not in parameters:
            names = ", ".join(f"`{n}`" for n in parameters) or "no options"
            raise OptionError("strategy", f"`{word}` has {names}", name)
        values[name] = _number(name, value)
    return kind(**values)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError("strategy", f"`{name}` must be a number", text) from None
