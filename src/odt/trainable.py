"""Which weights train."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trainable:
    """A selection of weights; the default selects all.

    Patterns are those of a shell (`*`, `?`, `[a-z]`) and are compared with a weight's name in the
    file and with the kind of the operators that read it, such as `CONV_2D`.

    Attributes:
        last: the last N operators of the file train; None or -1 for all.
        operators: positions of the operators that train, such as "0-3,7"; None for all.
        patterns: if there are any, only weights that match one train.
        freeze: weights that match one of these patterns do not train.
        bias_only: only biases train.
        freeze_norm: BatchNorm that the converter wrote as MUL and ADD does not train.
    """

    last: int | None = None
    operators: str | None = None
    patterns: tuple[str, ...] = ()
    freeze: tuple[str, ...] = ()
    bias_only: bool = False
    freeze_norm: bool = False


def last(count: int) -> Trainable:
    """The last operators of the file train: transfer learning with a new or old head.

    Args:
        count: number of operators; -1 for all.
    """
    return Trainable(last=count)


def select(*patterns: str) -> Trainable:
    """Weights that match a pattern train, such as `select("head/*", "FULLY_CONNECTED")`."""
    return Trainable(patterns=patterns)


def freeze(*patterns: str) -> Trainable:
    """All weights train but those that match a pattern."""
    return Trainable(freeze=patterns)


def bias_only() -> Trainable:
    """Only biases train."""
    return Trainable(bias_only=True)
