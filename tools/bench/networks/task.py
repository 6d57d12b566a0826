"""What a row trains: the shapes of its samples and targets, and the loss."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

SEED = 3  # of the samples, the same for all systems
CLASSES_USED = 10  # at most, so that a batch has few classes with many samples each

Values = NDArray[np.float32] | NDArray[np.int32]


class Task(Protocol):
    """Shapes of one sample, and the loss: "cce", "scce" or "mse", as in `Network`.

    If the inputs are tokens, `vocabulary` is the number of different tokens, else 0, and
    `float_tokens` says whether tokens are float32.
    """

    @property
    def input(self) -> tuple[int, ...]: ...
    @property
    def output(self) -> tuple[int, ...]: ...
    @property
    def loss(self) -> str: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def float_tokens(self) -> bool: ...


@dataclass(frozen=True)
class ShippedFile:
    """A file that others have trained and shipped.

    Attributes:
        file: its name, in tests/models or among the models of the shared data.
        float_tokens: whether tokens are float32.
    """

    file: str
    input: tuple[int, ...]
    output: tuple[int, ...]
    loss: str = "cce"
    vocabulary: int = 0
    float_tokens: bool = False


def random_batch(task: Task, samples: int) -> tuple[Values, Values]:
    """Returns random inputs, and targets.

    Targets are one-hot classes, for "scce" the class of each token in int32, or values of the
    output's shape.
    """
    rng = np.random.default_rng(SEED)
    x: Values = rng.random((samples, *task.input), np.float32)
    if task.vocabulary:
        x = np.floor(x * task.vocabulary)
        x = x if task.float_tokens else x.astype(np.int32)
    if task.loss == "mse":
        return x, rng.random((samples, *task.output), np.float32)
    *tokens, classes = task.output
    if task.loss == "scce":
        return x, rng.integers(0, classes, (samples, *tokens), np.int32)
    labels = rng.integers(0, min(classes, CLASSES_USED), samples)
    return x, np.eye(classes, dtype=np.float32)[labels]
