"""Training info: loss, optimizer, batch size and trainable operators of a model.

A circle+ file holds it as a separate flatbuffer, in the buffer of the metadata entry
CIRCLE_TRAINING. Schema: schemas/circle_traininfo.fbs.
"""

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from odt.core.options.training_options import TrainingOptions
from odt.dataclass import dataclass
from odt.kernels.rows.scheduledef import Schedule
from odt.schemas import circle_traininfo as schema

REDUCTIONS = ("sum_over_batch_size", "sum")

METADATA_NAME = "CIRCLE_TRAINING"

# Values that a circle+ can store, by the schema's numbers.
STORABLE_OPTIMIZERS = tuple(name.lower() for name in schema.OPTIMIZERS)
STORABLE_LOSSES = tuple(name.lower() for name in schema.LOSSES)
OPTIMIZER_OPTIONS = dict(zip(STORABLE_OPTIMIZERS, schema.OPTIMIZER_OPTIONS[1:], strict=True))
LOSS_OPTIONS = dict(zip(STORABLE_LOSSES, schema.LOSS_OPTIONS[1:], strict=True))


@dataclass(frozen=True, slots=True)
class TrainingInfo(TrainingOptions):
    """Training options that belong to a model. The defaults are odt's.

    The options of training steps, from clip_norm to qas, are given by name; docs/reference.md
    describes them.

    Attributes:
        optimizer: one of OPTIMIZERS.
        hyper_parameters: hyper-parameters of the optimizer by name; absent ones have their
            defaults.
        learning_rate: learning rate of the optimizer; the initial one if there is a schedule.
        schedule: schedule of the learning rate; None for a constant one.
        loss: one of LOSSES; None for the default loss of the output.
        output_losses: losses of single outputs, by name or number: one of LOSSES, or none.
        loss_weights: weights of the losses of single outputs, by name or number; 1 if absent.
        reduction: one of REDUCTIONS.
        from_logits: value in the file, for information only; the graph determines it.
        batch_size: samples in a batch.
        rates: factors of the learning rate of single weights, by tensor.
        dropout: weights of fully connected layers, by tensor, and the probability with which values
            of the layer's input become 0 in training.
        teacher_weight: weight of the loss for a teacher's outputs; 0 for no teacher.
        temperature: temperature of this loss.
        trainable_ops: positions of the operators that train; None for all.
        trainable_tensors: weights of these operators that train; None for all.
        sparse: output channels that train, for filters trained in part, by tensor.
    """

    optimizer: str = "adam"
    hyper_parameters: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float = 0.001
    loss: str | None = None
    reduction: str = "sum_over_batch_size"
    from_logits: bool | None = None
    batch_size: int = 32
    trainable_ops: tuple[int, ...] | None = None
    trainable_tensors: tuple[int, ...] | None = None
    sparse: tuple[tuple[int, tuple[int, ...]], ...] = ()
    output_losses: tuple[tuple[str, str], ...] = ()
    loss_weights: tuple[tuple[str, float], ...] = ()
    schedule: Schedule | None = None
    rates: tuple[tuple[int, float], ...] = ()
    dropout: tuple[tuple[int, float], ...] = ()
    teacher_weight: float = 0.0
    temperature: float = 1.0

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
