"""How a model is trained: loss, optimizer, batch size, what trains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OPTIMIZERS = ("sgd", "adam", "adamw")
LOSSES = ("categorical_crossentropy", "sparse_categorical_crossentropy", "mean_squared_error")
REDUCTIONS = ("sum_over_batch_size", "sum")


@dataclass(frozen=True, slots=True)
class TrainingInfo:
    """All that training needs to know beside model and data; the defaults are odt's.

    Attributes:
        optimizer: one of OPTIMIZERS.
        hyper_parameters: of the optimizer, by name; those left out have its defaults.
        learning_rate: of the optimizer.
        loss: one of LOSSES; None lets the output say.
        reduction: one of REDUCTIONS.
        from_logits: what the file says; the graph decides.
        batch_size: samples in a step.
        trainable_ops: positions of the operators that train; None for all.
    """

    optimizer: str = "adam"
    hyper_parameters: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float = 0.001
    loss: str | None = None
    reduction: str = "sum_over_batch_size"
    from_logits: bool | None = None
    batch_size: int = 32
    trainable_ops: tuple[int, ...] | None = None
