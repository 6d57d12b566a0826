"""Settings of a federation, with their checks."""

import json
import zlib
from dataclasses import fields
from typing import Any

import numpy as np

from odt.core.options.federation_options import FederationOptions
from odt.core.recipe.option_values import check_options
from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.federated.strategies.strategy import Strategy
from odt.federated.strategies.strategy_text import parse_strategy


@dataclass(frozen=True, slots=True)
class Settings(FederationOptions):
    """Settings of a federation; `odt.federated.simulate` explains each.

    Raises:
        OptionError: if a value is invalid.
    """

    def __post_init__(self) -> None:
        check_options(self)
        if self.min_clients > self.sampled:
            raise OptionError(
                "min_clients",
                f"must be at most {self.sampled}, the number of clients sampled in a round",
                self.min_clients,
            )

    @property
    def sampled(self) -> int:
        """Number of clients that are sampled in a round."""
        return max(1, round(self.fraction * self.clients))

    def new_strategy(self) -> Strategy:
        """Returns the strategy; one made from text has a new state."""
        return parse_strategy(self.strategy) if isinstance(self.strategy, str) else self.strategy

    @property
    def decay_rounds(self) -> int | None:
        """Number of rounds over which the learning rate falls; None for a constant rate."""
        return self.rounds if self.decay == "cosine" and self.rounds else None

    def json_values(self) -> dict[str, Any]:
        """Returns, as JSON values, the settings that must be equal when a federation resumes."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        # The rounds count only for a decay; moved to the end, they are compared last.
        values["rounds"] = values.pop("rounds") if self.decay_rounds else None
        if not isinstance(self.partition, str):
            clients = np.asarray(self.partition, np.int64)  # the same bytes for any dtype
            values["partition"] = f"clients {zlib.crc32(clients.tobytes()):08x}"
        if not isinstance(self.strategy, str):
            values["strategy"] = type(self.strategy).__name__
        json_values: dict[str, Any] = json.loads(json.dumps(values))
        return json_values
