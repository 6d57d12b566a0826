"""Training info: loss, optimizer, batch size and trainable operators of a model.

A circle+ file holds it as a separate flatbuffer, in the buffer of the metadata entry
CIRCLE_TRAINING. Schema: schemas/circle_traininfo.fbs.
"""

import math
from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

import numpy as np

from odt.core.model.flatbuffer import FlatBuffer, Table
from odt.core.model.reader import Model
from odt.dataclass import dataclass
from odt.errors import ModelError, OptionError
from odt.kernels.scheduledef import Schedule
from odt.schemas import circle_traininfo as schema

REDUCTIONS = ("sum_over_batch_size", "sum")
# Ranges of quantized activations that move: none, all but the model's outputs, all.
QUANT_RANGES = FILE, _, FOLLOW_ALL = ("file", "follow", "follow-all")

METADATA_NAME = "CIRCLE_TRAINING"

# Values that a circle+ can store, by the schema's numbers.
STORABLE_OPTIMIZERS = tuple(name.lower() for name in schema.OPTIMIZERS)
STORABLE_LOSSES = tuple(name.lower() for name in schema.LOSSES)
OPTIMIZER_OPTIONS = dict(zip(STORABLE_OPTIMIZERS, schema.OPTIMIZER_OPTIONS[1:], strict=True))
LOSS_OPTIONS = dict(zip(STORABLE_LOSSES, schema.LOSS_OPTIONS[1:], strict=True))


@dataclass(frozen=True, slots=True)
class TrainingInfo:
    """Training options that belong to a model. The defaults are odt's.

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
        accumulate: batches in a step, whose gradients are accumulated.
        clip_norm, clip_value: largest norm of all gradients together, and largest magnitude of a
            gradient's values; 0 for no clipping.
        rates: factors of the learning rate of single weights, by tensor.
        dropout: weights of fully connected layers, by tensor, and the probability with which values
            of the layer's input become 0 in training.
        ema: decay of an exponential moving average of the weights after many steps; 0 for none.
        quant_ranges: one of QUANT_RANGES: how ranges of quantized activations move.
        qas: whether the weights of a quantized model are integers in memory, and are updated with
            quantization-aware scaling.
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
    accumulate: int = 1
    clip_norm: float = 0.0
    clip_value: float = 0.0
    rates: tuple[tuple[int, float], ...] = ()
    ema: float = 0.0
    quant_ranges: str = FILE
    qas: bool = False
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

    def given(self) -> dict[str, Any]:
        """Returns name → value of the fields that are present."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def stored_training_info(model: Model) -> StoredInfo | None:
    """Reads the training info of a circle+; None for a model without training info.

    Raises:
        ModelError: if the training info breaks a rule.
    """
    buffer = model.metadata.get(METADATA_NAME)
    if buffer is None:
        return None
    name = f"{model.path}: metadata {METADATA_NAME}"
    return decode_training_info(model.buffer(buffer), name, len(model.graph.nodes))


def decode_training_info(data: memoryview | bytes, name: str, operators: int) -> StoredInfo:
    """Decodes the training info of a circle+.

    Args:
        data: flatbuffer of the training info.
        name: its name in messages.
        operators: number of operators of the model.

    Raises:
        ModelError: if the bytes are not training info, or break a rule.
    """
    source = FlatBuffer(name, memoryview(data))
    if bytes(source.data[4:8]) != schema.IDENTIFIER:
        raise ModelError(
            f"{name}: bytes 4 to 7 must be {schema.IDENTIFIER.decode()}, "
            f"but got {bytes(source.data[4:8])!r}"
        )
    root = source.root()
    optimizer = STORABLE_OPTIMIZERS[_choice(root, "optimizer", len(STORABLE_OPTIMIZERS))]
    loss = STORABLE_LOSSES[_choice(root, "lossfn", len(STORABLE_LOSSES))]
    rates = _union(root, "optimizer_opt", OPTIMIZER_OPTIONS[optimizer], schema.OPTIMIZER_OPTIONS)
    options = _union(root, "lossfn_opt", LOSS_OPTIONS[loss], schema.LOSS_OPTIONS)
    hyper_parameters = {} if rates is None else _numbers(rates, OPTIMIZER_OPTIONS[optimizer])
    batch_size = root.number(_slot("batch_size"))
    if batch_size < 0:
        raise root.error(f"batch_size must be 1 or more, but got {batch_size}")
    trainable = root.numbers(_slot("trainable_ops"), "trainable_ops")
    unknown = [n for n in trainable if not 0 <= n < operators]
    if unknown:
        raise root.error(
            f"trainable_ops must be positions of the model's {operators} operators, "
            f"but got {unknown[0]}"
        )
    return StoredInfo(
        optimizer=optimizer,
        learning_rate=hyper_parameters.pop("learning_rate", 0.0) or None,
        hyper_parameters=hyper_parameters,
        loss=loss,
        reduction=REDUCTIONS[_choice(root, "loss_reduction_type", len(REDUCTIONS))],
        from_logits=_from_logits(options, LOSS_OPTIONS[loss]),
        batch_size=batch_size or None,
        trainable_ops=tuple(sorted(set(trainable))),
    )


def _slot(name: str) -> int:
    return schema.slot("ModelTraining", name)


def _choice(root: Table, name: str, count: int) -> int:
    value = root.number(_slot(name), "b")
    if not 0 <= value < count:
        raise root.error(f"{name} must be below {count}, but got {value}")
    return value


def _union(root: Table, name: str, wanted: str, names: tuple[str, ...]) -> Table | None:
    code = root.number(_slot(f"{name}_type"), "B")
    stored = names[code] if code < len(names) else f"type {code}"
    if stored not in ("NONE", wanted):
        raise root.error(f"{name} must be {wanted}, but got {stored}")
    return root.table(_slot(name), name) if stored == wanted else None


def _numbers(table: Table, name: str) -> dict[str, float]:
    """Reads the numbers of a table, as the shortest decimals of the same float32."""
    values = {}
    for slot, field_name in enumerate(schema.SLOTS[name]):
        value = table.scalar(slot, "f")
        if value is None:
            continue
        if not 0 <= value < math.inf or (field_name.startswith("beta") and value >= 1):
            rule = "at least 0 and below 1" if field_name.startswith("beta") else "0 or more"
            raise table.error(f"{field_name} must be {rule}, but got {value:g}")
        values[field_name] = float(str(np.float32(value)))
    return values


def _from_logits(options: Table | None, name: str) -> bool | None:
    if options is None or "from_logits" not in schema.SLOTS[name]:
        return None
    slot = schema.slot(name, "from_logits")
    return bool(options.number(slot, "B")) if options.place(slot, 1) else None


def encode_training_info(info: TrainingInfo, operators: int) -> bytes:
    """Encodes training info as the flatbuffer of a circle+.

    Args:
        info: resolved training info.
        operators: number of operators of the model; all trainable ones are listed.

    Raises:
        OptionError: for values that a circle+ cannot store.
    """
    if info.optimizer not in STORABLE_OPTIMIZERS:
        known = " or ".join(STORABLE_OPTIMIZERS)
        raise OptionError("optimizer", f"must be {known} in a circle+ file", info.optimizer)
    if info.output_losses or info.loss_weights:
        raise OptionError(
            "output_losses, loss_weights",
            "must be left out for a circle+ file, which has one loss for all outputs",
            remedy="Export a Circle model, and give them again.",
        )
    if info.loss is None:
        known = " or ".join(f"`{name}`" for name in STORABLE_LOSSES)
        raise OptionError("loss", "must be given for a circle+ file", "none", f"Give {known}.")
    if info.loss not in STORABLE_LOSSES:
        raise OptionError(
            "loss",
            f"must be {' or '.join(f'`{name}`' for name in STORABLE_LOSSES)} in a circle+ file",
            f"`{info.loss}`",
            "Export a Circle model, and give the loss again.",
        )
    if info.batch_size >= 2**31:
        raise OptionError("batch_size", "must be below 2^31 in a circle+ file", info.batch_size)
    if info.trainable_tensors is not None or info.sparse:
        raise OptionError(
            "patterns, freeze, bias_only, sparse",
            "must train all weights of an operator or none in a circle+ file",
            "some of them",
            "Export a Circle model, and select the weights again.",
        )
    names = schema.SLOTS[OPTIMIZER_OPTIONS[info.optimizer]]
    numbers = {"learning_rate": info.learning_rate, **info.hyper_parameters}
    unknown = [n for n, value in numbers.items() if n not in names and value]
    if unknown:
        known = ", ".join(f"`{name}=`" for name in names)
        raise OptionError(
            ", ".join(unknown),
            f"must be left out for a circle+ file, which stores only {known} of {info.optimizer}",
        )
    trainable = range(operators) if info.trainable_ops is None else info.trainable_ops
    import flatbuffers

    builder = flatbuffers.Builder(256)
    listed = builder.CreateNumpyVector(np.array(trainable, np.int32))
    builder.StartObject(len(names))
    for slot, name in enumerate(names):
        if name in numbers:
            builder.PrependFloat32Slot(slot, float(numbers[name]), None)  # no default: writes 0 too
    rates = builder.EndObject()
    loss_options = LOSS_OPTIONS[info.loss]
    builder.StartObject(len(schema.SLOTS[loss_options]))
    if schema.SLOTS[loss_options] and info.from_logits is not None:
        builder.PrependBoolSlot(0, info.from_logits, None)
    options = builder.EndObject()
    builder.StartObject(len(schema.SLOTS["ModelTraining"]))
    builder.PrependUOffsetTRelativeSlot(_slot("trainable_ops"), listed, 0)
    builder.PrependInt32Slot(_slot("batch_size"), info.batch_size, 0)
    builder.PrependUOffsetTRelativeSlot(_slot("lossfn_opt"), options, 0)
    builder.PrependUOffsetTRelativeSlot(_slot("optimizer_opt"), rates, 0)
    for name, value in (
        ("optimizer", STORABLE_OPTIMIZERS.index(info.optimizer)),
        ("optimizer_opt_type", schema.OPTIMIZER_OPTIONS.index(OPTIMIZER_OPTIONS[info.optimizer])),
        ("lossfn", STORABLE_LOSSES.index(info.loss)),
        ("lossfn_opt_type", schema.LOSS_OPTIONS.index(loss_options)),
        ("loss_reduction_type", REDUCTIONS.index(info.reduction)),
    ):
        builder.PrependUint8Slot(_slot(name), value, 0)
    builder.Finish(builder.EndObject(), file_identifier=schema.IDENTIFIER)
    return bytes(builder.Output())
