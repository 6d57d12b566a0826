"""Training info: loss, optimizer, batch size and trainable operators of a model.

A circle+ file holds it as a separate flatbuffer, in the buffer of the metadata entry
CIRCLE_TRAINING. Schema: schemas/circle_traininfo.fbs.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, fields
from typing import Any

from odt.core.options.training_options import TrainingOptions
from odt.dataclass import dataclass
from odt.schemas import circle_traininfo as schema

METADATA_NAME = "CIRCLE_TRAINING"

# Values that a circle+ can store, by the schema's numbers.
STORABLE_OPTIMIZERS = tuple(name.lower() for name in schema.OPTIMIZERS)
STORABLE_LOSSES = tuple(name.lower() for name in schema.LOSSES)
OPTIMIZER_OPTIONS = dict(zip(STORABLE_OPTIMIZERS, schema.OPTIMIZER_OPTIONS[1:], strict=True))
LOSS_OPTIONS = dict(zip(STORABLE_LOSSES, schema.LOSS_OPTIONS[1:], strict=True))


@dataclass(frozen=True, slots=True)
class TrainingInfo(TrainingOptions):
    """Training options that belong to a model. The defaults are odt's.

    docs/reference.md describes the options. A loss of None is the default loss of the output, a
    schedule of None a constant learning rate, a teacher_weight of 0 no teacher.

    Attributes:
        hyper_parameters: hyper-parameters of the optimizer by name; absent ones have their
            defaults.
        from_logits: value in the file, for information only; the graph determines it.
        trainable_ops: positions of the operators that train; None for all.
        trainable_tensors: weights of these operators that train; None for all.
        sparse: output channels that train, for filters trained in part, by tensor.
        rates: factors of the learning rate of single weights, by tensor.
        dropout: weights of fully connected layers, by tensor, and the probability with which values
            of the layer's input become 0 in training.
    """

    _: KW_ONLY
    from_logits: bool | None = None
    trainable_ops: tuple[int, ...] | None = None
    trainable_tensors: tuple[int, ...] | None = None
    sparse: tuple[tuple[int, tuple[int, ...]], ...] = ()
    rates: tuple[tuple[int, float], ...] = ()
    dropout: tuple[tuple[int, float], ...] = ()

    @property
    def step_samples(self) -> int:
        """Samples in a step."""
        return self.batch_size * self.accumulate

    @property
    def keeps_gradients(self) -> bool:
        """Whether gradients are kept until the last batch of a step."""
        return self.accumulate > 1 or self.clip_norm > 0 or self.clip_value > 0

    def __post_init__(self) -> None:
        # Plans are stored by computation, which must be hashable; lists are not.
        for f in fields(self):
            object.__setattr__(self, f.name, _in_tuples(getattr(self, f.name)))


def _in_tuples(value: Any) -> Any:
    """Converts lists in a value to tuples, also nested ones."""
    return tuple(map(_in_tuples, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class StoredInfo:
    """Training info stored in a circle+; None for fields that are absent.

    The attributes are those of TrainingInfo. Optimizer, loss and reduction are always present: an
    absent field means the first of the schema's values. Without trainable_ops, no operator trains,
    as in onert.
    """

    optimizer: str
    hyper_parameters: Mapping[str, float]
    learning_rate: float | None
    loss: str
    reduction: str
    from_logits: bool | None
    batch_size: int | None
    trainable_ops: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns name → value of the fields that are present."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None}
