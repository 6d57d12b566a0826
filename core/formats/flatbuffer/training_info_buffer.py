"""Reads and writes training info as the flatbuffer of a circle+.

Schema: schemas/circle_traininfo.fbs.
"""

import math

import numpy as np

from odt.core.formats.flatbuffer.flatbuffer import FlatBuffer, Table
from odt.core.model.model import Model
from odt.core.model.training_info import (
    LOSS_OPTIONS,
    METADATA_NAME,
    OPTIMIZER_OPTIONS,
    STORABLE_LOSSES,
    STORABLE_OPTIMIZERS,
    StoredInfo,
    TrainingInfo,
)
from odt.core.options.option import MAX_SAMPLES, ByOutput
from odt.core.options.training_options import REDUCTIONS, TRAINING_OPTIONS
from odt.errors import ModelError, OptionError
from odt.schemas import circle_traininfo as schema

# Options of single outputs, for which the format has no place.
BY_OUTPUT = [row.name for row in TRAINING_OPTIONS.values() if isinstance(row.kind, ByOutput)]


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


def trainable_span(data: bytes, name: str) -> tuple[int, int]:
    """Returns offset and number of the positions of trainable operators in encoded training info.

    Args:
        data: flatbuffer of the training info.
        name: its name in messages.

    Raises:
        ModelError: if the bytes are damaged.
    """
    root = FlatBuffer(name, memoryview(data)).root()
    return root.vector(_slot("trainable_ops"), 4, "trainable_ops")


def _slot(name: str) -> int:
    return schema.slot("ModelTraining", name)


def _choice(root: Table, name: str, count: int) -> int:
    value = root.number(_slot(name), "b")
    if not 0 <= value < count:
        raise root.error(f"{name} must be below {count}, but got {value}")
    return value


def _union(root: Table, name: str, type_name: str, names: tuple[str, ...]) -> Table | None:
    code = root.number(_slot(f"{name}_type"), "B")
    stored = names[code] if code < len(names) else f"type {code}"
    if stored not in ("NONE", type_name):
        raise root.error(f"{name} must be {type_name}, but got {stored}")
    return root.table(_slot(name), name) if stored == type_name else None


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
    import flatbuffers

    loss = _check_storable(info)
    names = schema.SLOTS[OPTIMIZER_OPTIONS[info.optimizer]]
    numbers = {"learning_rate": info.learning_rate, **info.hyper_parameters}
    trainable = range(operators) if info.trainable_ops is None else info.trainable_ops
    builder = flatbuffers.Builder(256)
    positions = builder.CreateNumpyVector(np.array(trainable, np.int32))
    builder.StartObject(len(names))
    for slot, name in enumerate(names):
        if name in numbers:
            builder.PrependFloat32Slot(slot, float(numbers[name]), None)  # no default: writes 0 too
    rates = builder.EndObject()
    loss_options = LOSS_OPTIONS[loss]
    builder.StartObject(len(schema.SLOTS[loss_options]))
    if schema.SLOTS[loss_options] and info.from_logits is not None:
        builder.PrependBoolSlot(0, info.from_logits, None)
    options = builder.EndObject()
    builder.StartObject(len(schema.SLOTS["ModelTraining"]))
    builder.PrependUOffsetTRelativeSlot(_slot("trainable_ops"), positions, 0)
    builder.PrependInt32Slot(_slot("batch_size"), info.batch_size, 0)
    builder.PrependUOffsetTRelativeSlot(_slot("lossfn_opt"), options, 0)
    builder.PrependUOffsetTRelativeSlot(_slot("optimizer_opt"), rates, 0)
    for name, value in (
        ("optimizer", STORABLE_OPTIMIZERS.index(info.optimizer)),
        ("optimizer_opt_type", schema.OPTIMIZER_OPTIONS.index(OPTIMIZER_OPTIONS[info.optimizer])),
        ("lossfn", STORABLE_LOSSES.index(loss)),
        ("lossfn_opt_type", schema.LOSS_OPTIONS.index(loss_options)),
        ("loss_reduction_type", REDUCTIONS.index(info.reduction)),
    ):
        builder.PrependUint8Slot(_slot(name), value, 0)
    builder.Finish(builder.EndObject(), file_identifier=schema.IDENTIFIER)
    return bytes(builder.Output())


def _check_storable(info: TrainingInfo) -> str:
    """Checks that a circle+ can store training info; returns its loss.

    Raises:
        OptionError: if it cannot.
    """
    if info.optimizer not in STORABLE_OPTIMIZERS:
        storable = " or ".join(STORABLE_OPTIMIZERS)
        raise OptionError("optimizer", f"must be {storable} in a circle+ file", info.optimizer)
    by_output = [name for name in BY_OUTPUT if getattr(info, name)]
    if by_output:
        raise OptionError(
            ", ".join(by_output),
            "must be left out for a circle+ file, which has one loss for all outputs",
            remedy="Export a Circle model, and give them again.",
        )
    if info.loss is None:
        storable = " or ".join(f"`{name}`" for name in STORABLE_LOSSES)
        raise OptionError("loss", "must be given for a circle+ file", "none", f"Give {storable}.")
    if info.loss not in STORABLE_LOSSES:
        raise OptionError(
            "loss",
            f"must be {' or '.join(f'`{name}`' for name in STORABLE_LOSSES)} in a circle+ file",
            f"`{info.loss}`",
            "Export a Circle model, and give the loss again.",
        )
    if info.batch_size > MAX_SAMPLES:
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
        storable = ", ".join(f"`{name}=`" for name in names)
        raise OptionError(
            ", ".join(unknown),
            "must be left out for a circle+ file, which stores only "
            f"{storable} of {info.optimizer}",
        )
    return info.loss
