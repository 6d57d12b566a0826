"""Update: what a client returns from a round."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from odt.dataclass import dataclass

Array: TypeAlias = np.ndarray[Any, Any]
Tensors: TypeAlias = dict[str, Array]  # name → array, in the order of the model


@dataclass(frozen=True, slots=True)
class Update:
    """The result of a client's round; nothing else leaves the client.

    Attributes:
        tensors: mapping from names to trained values, in the order of the model.
        samples: number of samples trained on, the client's weight in an average.
        metrics: loss and metrics of the client's last epoch.
    """

    tensors: Tensors
    samples: int
    metrics: Mapping[str, float]
