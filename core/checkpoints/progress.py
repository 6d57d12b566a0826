"""The position of training, and the options on which the bits of its results depend."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

from odt.core.options.option import NOWHERE
from odt.core.options.training_options import CHECKPOINT_OPTIONS, CheckpointOptions
from odt.core.storage.reading import printable
from odt.core.training.undo import UndoState
from odt.dataclass import dataclass

MAX_NUMBER = 2**63
# Fields in the order of the header. Every file has the first; a file without a later one has its
# default, or its value in EARLIER_VALUES. Options that are not in these lists follow.
FIRST = (
    "step",
    "epoch",
    "position",
    "shuffle",
    "seed",
    "samples",
    "batch",
    "micro_batch",
    "workers",
    "loss",
    "reduction",
    "trainable_ops",
    "kernels",
)
ORDER = (
    *FIRST[:-1],
    "trainable_tensors",
    "sparse",
    "kernels",
    "tied_by_buffer",
    "drop_last",
    "stratified",
    "schedule",
    "schedule_steps",
    "plateau",
    "best",
    "monitor",
    "accumulate",
    "clip_norm",
    "clip_value",
    "rates",
    "dropout",
    "class_weight",
    "sample_weight",
    "ema",
    "quant_ranges",
    "augment",
    "teacher_weight",
    "temperature",
    "undo",
)
# Earlier versions of odt, which did not write the field, trained tensors that share a buffer as one
# weight.
EARLIER_VALUES: Mapping[str, Any] = {"tied_by_buffer": True}
INPUTS = "input_values"  # is in the header only if it is not empty
# Options that checkpoints hold in the form of TrainingInfo.
STORED = tuple(name for name, row in CHECKPOINT_OPTIONS.items() if row.stored != NOWHERE)


@dataclass(frozen=True, slots=True)
class Progress(CheckpointOptions):
    """Position of training, and the options on which the bits of its results depend.

    The options of `CheckpointOptions` that are stored belong to it.

    Attributes:
        step: number of updates made.
        epoch: number of the current epoch; 1 is the first.
        position: number of completed steps of this epoch, each of `accumulate` batches.
        shuffle, seed: together with the epoch, they determine the order of samples.
        samples: number of training samples.
        batch, micro_batch, workers: batch size, and how a batch is split.
        loss: loss function as text; empty if outputs have losses of their own, or an imported
            checkpoint names none.
        trainable_ops: positions of the operators that train; None for all.
        trainable_tensors: weights of these operators that train; None for all.
        sparse: output channels that train, for filters trained in part, by tensor.
        kernels: kernels in use, compiled or NumPy.
        drop_last: whether a last batch that is not full was left out.
        stratified: whether validation samples were drawn from each class.
        tied_by_buffer: whether tensors that share a buffer were one weight, named after the first.
        schedule: schedule of the learning rate, as on the command line; empty for none.
        schedule_steps: updates over which the schedule extends, unless it sets its own number.
        plateau: state of a ReduceOnPlateau schedule.
        best: best value, its epoch, and the number of epochs since; empty for none.
        monitor: name of this value.
        rates: factors of the learning rate, by tensor.
        dropout: probabilities of zeros in the inputs of layers, by tensor of their weights.
        class_weight: weights of classes.
        sample_weight: checksum of the weights of single samples; empty for none.
        augment: augmentations, as on the command line; empty for none.
        input_values: inputs whose values the user gave, as on the command line; empty for none.
        undo: what undoing an epoch needs, if the learning rate is the default; empty if a user
            gave a rate.
    """

    step: int = 0
    epoch: int = 1
    position: int = 0
    shuffle: bool = False
    seed: int = 0
    samples: int = 0
    batch: int = 1
    micro_batch: int = 1
    workers: int = 1
    loss: str = ""
    trainable_ops: tuple[int, ...] | None = None
    trainable_tensors: tuple[int, ...] | None = None
    sparse: tuple[tuple[int, tuple[int, ...]], ...] = ()
    kernels: str = "numpy"
    tied_by_buffer: bool = False
    drop_last: bool = True
    stratified: bool = False
    schedule: str = ""
    schedule_steps: int = 0
    plateau: tuple[float, ...] = ()
    best: tuple[float, ...] = ()
    monitor: str = ""
    rates: tuple[tuple[int, float], ...] = ()
    dropout: tuple[tuple[int, float], ...] = ()
    class_weight: tuple[tuple[int, float], ...] = ()
    sample_weight: str = ""
    augment: str = ""
    input_values: str = ""
    undo: UndoState | tuple[()] = ()

    def stored(self) -> dict[str, Any]:
        """Returns the fields that a checkpoint holds, in the order of its header."""
        values = asdict(self)
        names = dict.fromkeys((*ORDER, *STORED))
        if self.input_values:
            names[INPUTS] = None
        return {name: values[name] for name in names}


def parse_progress(stored: Mapping[str, Any]) -> Progress:
    """Parses the progress of a header.

    Raises:
        KeyError: if a field is absent that every file has.
        TypeError: if a value is of another type.
        ValueError: if a number is outside its range, or a string cannot be encoded.
        OverflowError: if a number is larger than floats.
    """
    defaults = {f.name: f.default for f in fields(Progress) if f.name not in FIRST}
    values = {**defaults, **EARLIER_VALUES, **stored}
    for f in fields(Progress):
        value = values[f.name]
        if f.name in TUPLES:
            is_absent = value is None and f.default is None
            values[f.name] = None if is_absent else TUPLES[f.name](value)
        elif isinstance(f.default, str):
            string(value)
        elif isinstance(f.default, int) and not isinstance(f.default, bool):
            natural(value)
        elif type(value) is not type(f.default):
            raise TypeError(f"{f.name} {printable(repr(value))}")
        elif isinstance(value, float):
            _finite(value)
    return Progress(**values)


def natural(value: Any) -> int:
    """Checks a whole number; raises ValueError."""
    if type(value) is not int or not 0 <= value < MAX_NUMBER:
        raise ValueError(f"{printable(repr(value))} instead of a number from 0 to 2^63 - 1")
    return value


def _finite(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError(f"{printable(repr(value))} instead of a finite number")
    return float(value)


def _weight(value: Any) -> float:
    if _finite(value) < 0:
        raise ValueError(f"{printable(repr(value))} instead of a weight")
    return float(value)


def string(value: Any) -> str:
    """Checks a string; raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{printable(repr(value))} instead of a string")
    value.encode()  # JSON can express strings that UTF-8 cannot encode
    return value


def _probability(value: Any) -> float:
    if not 0 <= (number := _finite(value)) < 1:
        raise ValueError(f"{printable(repr(value))} for a probability")
    return number


def _undo(values: tuple[float, ...]) -> UndoState | tuple[()]:
    """Checks the values of `Progress.undo`: none, or those of a state after whole updates."""
    if not values:
        return ()
    if len(values) == len(UndoState._fields):
        state = UndoState(*values)
        if state.step >= 0 and state.step.is_integer():
            return state
    raise ValueError(f"{printable(repr(values))} for the state before an epoch")


def _naturals(values: Any) -> tuple[int, ...]:
    return tuple(map(natural, values))


# Fields of Progress that JSON holds as lists.
TUPLES: Mapping[str, Callable[[Any], tuple[Any, ...]]] = {
    "trainable_ops": _naturals,
    "trainable_tensors": _naturals,
    "sparse": lambda value: tuple((natural(i), _naturals(c)) for i, c in value),
    "rates": lambda value: tuple((natural(i), _finite(factor)) for i, factor in value),
    "dropout": lambda value: tuple((natural(i), _probability(p)) for i, p in value),
    "class_weight": lambda value: tuple((natural(c), _weight(w)) for c, w in value),
    "plateau": lambda value: tuple(map(_finite, value)),
    "best": lambda value: tuple(map(_finite, value)),
    "undo": lambda value: _undo(tuple(map(_finite, value))),
}
