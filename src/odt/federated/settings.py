"""Settings of a federation, with their checks."""

import json
import zlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from odt.core.recipe.option_values import check_whole, check_word
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.federated.payloads import check_kind
from odt.federated.strategies.strategy import Strategy
from odt.federated.strategies.strategy_text import parse_strategy
from odt.federated.update import Array

LEAST = {"clients": 1, "rounds": 0, "epochs": 1, "min_clients": 1, "seed": 0}
DECAYS = ("cosine", "none")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a federation; `odt.federated.simulate` explains each.

    Raises:
        OptionError: if a value is invalid.
    """

    clients: int = 10
    partition: str | Sequence[int] | Array = "iid"
    strategy: str | Strategy = "fedavg"
    rounds: int = 20
    epochs: int = 1
    decay: str = "cosine"
    fraction: float = 1.0
    offline: float = 0.0
    min_clients: int = 1
    payload: str = "float32"
    norm_bound: float | None = None
    seed: int = 0
    client_validation: float = 0.0

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            check_whole(name, getattr(self, name), least)
        check_word("decay", self.decay, DECAYS)
        check_kind(self.payload)
        self._check(0 < self.fraction <= 1, "fraction", "must be above 0 and at most 1")
        self._check(0 <= self.offline < 1, "offline", "must be at least 0 and below 1")
        self._check(
            0 <= self.client_validation < 1, "client_validation", "must be at least 0 and below 1"
        )
        bound = self.norm_bound
        self._check(bound is None or bound > 0, "norm_bound", "must be a number above 0")
        self._check(
            self.min_clients <= self.sampled,
            "min_clients",
            f"must be at most {self.sampled}, the number of clients sampled in a round",
        )

    def _check(self, good: bool, name: str, rule: str) -> None:
        if not good:
            raise OptionError(name, rule, getattr(self, name))

    @property
    def sampled(self) -> int:
        """Number of clients that are sampled in a round."""
        return max(1, round(self.fraction * self.clients))

    def new_strategy(self) -> Strategy:
        """Returns the strategy; one made from text has a new state."""
        return parse_strategy(self.strategy) if isinstance(self.strategy, str) else self.strategy

    @property
    def falling(self) -> int | None:
        """Number of rounds over which the learning rate falls; None for a constant rate."""
        return self.rounds if self.decay == "cosine" and self.rounds else None

    def described(self) -> dict[str, Any]:
        """The settings as JSON values; those that must be equal when a federation resumes."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["rounds"] = values.pop("rounds") if self.falling else None  # compared last
        if not isinstance(self.partition, str):
            values["partition"] = f"clients {zlib.crc32(np.asarray(self.partition).tobytes()):08x}"
        if not isinstance(self.strategy, str):
            values["strategy"] = type(self.strategy).__name__
        described: dict[str, Any] = json.loads(json.dumps(values))
        return described
