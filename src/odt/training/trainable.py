"""Selection of the weights that train: `last`, `select`, `freeze`, `bias_only`."""

from collections.abc import Sequence

from odt.arguments import checked_arguments
from odt.core.options.training_options import SELECTION_OPTIONS
from odt.core.recipe.option_values import check_option, words_of
from odt.core.recipe.selection import Selection
from odt.dataclass import dataclass
from odt.errors import OptionError


@dataclass(frozen=True, slots=True)
class Trainable:
    """A selection of trainable weights; the default selects all.

    Patterns have the syntax of a shell (`*`, `?`, `[a-z]`). They match the name of a weight in the
    file, or the name of an operator that reads it, such as `CONV_2D`.

    Attributes:
        last: number of operators, from the end of the file, that train; None or -1 for all.
            Conversions and operators without gradient at the end do not count.
        operators: positions of the operators that train, such as "0-3,7" or [0, 1]; None for all.
        patterns: one or several patterns; only weights that match one of them train; all if empty.
        freeze: one or several patterns; weights that match one of them do not train.
        bias_only: whether only biases train.
        freeze_norm: whether to freeze batch normalization that the file has as MUL and ADD.
    """

    last: int | None = None
    operators: str | Sequence[int] | None = None
    patterns: str | Sequence[str] = ()
    freeze: str | Sequence[str] = ()
    bias_only: bool = False
    freeze_norm: bool = False


@checked_arguments
def last(count: int) -> Trainable:
    """Selects the last operators of the file, for transfer learning.

    Conversions (QUANTIZE, DEQUANTIZE) and operators without gradient at its end do not count.

    Args:
        count: number of operators; -1 for all.
    """
    return Trainable(last=count)


@checked_arguments
def select(*patterns: str) -> Trainable:
    """Selects weights by pattern, such as `select("head/*", "FULLY_CONNECTED")`.

    Args:
        *patterns: names of weights or operators, with wildcards.
    """
    return Trainable(patterns=patterns)


@checked_arguments
def freeze(*patterns: str) -> Trainable:
    """Selects all weights except those that match a pattern.

    Args:
        *patterns: names of weights or operators, with wildcards.
    """
    return Trainable(freeze=patterns)


def bias_only() -> Trainable:
    """Selects biases only."""
    return Trainable(bias_only=True)


def trainable_of(selection: Trainable | None) -> Trainable:
    """Returns the selection, or that of all weights for None.

    Raises:
        OptionError: if it is no Trainable, or its `last` is invalid.
    """
    chosen = Trainable() if selection is None else selection
    if not isinstance(chosen, Trainable):
        rule = "must be last(…), select(…), freeze(…), bias_only() or Trainable(…)"
        raise OptionError("trainable", rule, repr(chosen))
    check_option(SELECTION_OPTIONS["last"], chosen.last)
    return chosen


def selection_of(chosen: Trainable) -> Selection:
    """Returns the selection in the form that `core` uses.

    Raises:
        OptionError: if a pattern is not text.
    """
    patterns = words_of("patterns", chosen.patterns)
    frozen = words_of("freeze", chosen.freeze)
    return Selection(patterns, frozen, chosen.bias_only, chosen.freeze_norm)
