"""Checks the values of training options, which may come from Python, a checkpoint or a circle+."""

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

import numpy as np

from odt.core.model.training_info import TrainingInfo
from odt.core.options.option import (
    ByOutput,
    ByPattern,
    Form,
    Number,
    Option,
    RowName,
    Switch,
    Whole,
    Word,
    rows_of,
)
from odt.core.options.training_options import TRAINING_OPTIONS
from odt.errors import OptionError
from odt.kernels.registry import OPTIMIZERS
from odt.kernels.rows.scalars import is_number

MAX_FLOAT32 = (2 - 2**-23) * 2.0**127
MAX_WHOLE = 2**63 - 1


def check_values(info: TrainingInfo) -> None:
    """Checks all values but the losses and the selection of weights.

    Raises:
        OptionError: if a value is invalid.
    """
    for row in TRAINING_OPTIONS.values():
        value = getattr(info, row.name)
        if type(value) is not type(row.default) or value != row.default:
            if value is None and row.default is not None:
                raise OptionError(row.name, "must be given", repr(value))
            check_option(row, value)
    if info.clip_norm and info.clip_value:
        raise OptionError("clip_norm, clip_value", "must not be given together", "both")
    check_hyper_parameters(info.optimizer, info.hyper_parameters)


def check_hyper_parameters(optimizer: str, values: Mapping[str, Any]) -> None:
    """Checks hyper-parameters of an optimizer; raises OptionError.

    Args:
        optimizer: name of the optimizer.
        values: values by name; None is one that is left out.
    """
    if not isinstance(values, Mapping):
        raise OptionError("hyper_parameters", "must have a name for each number", values)
    for option in OPTIMIZERS[optimizer].hyper_parameters:
        value = values.get(option.name)
        if value is None:
            continue
        if not option.allows(value):
            raise OptionError(option.name, f"must be {option.rule}", value)
        check_float32(option.name, value)


def check_options(options: Any) -> None:
    """Checks type and bounds of a group of options by their rows; raises OptionError.

    Args:
        options: an instance of a class of core/options; None is an option that is left out.
    """
    for name, row in rows_of(type(options)).items():
        value = getattr(options, name)
        if value is not None:
            check_option(row, value)


def check_option(row: Option, value: Any) -> None:
    """Checks type and bounds of an option.

    Values of other kinds, such as losses and schedules, are checked by the code that reads them.

    Args:
        row: row of the option.
        value: its value; pairs if the kind is ByOutput or ByPattern.

    Raises:
        OptionError: if the value is invalid.
    """
    kind = row.kind.kind if isinstance(row.kind, Form) else row.kind
    match kind:
        case Number():
            check_number(row.name, value, kind)
        case Whole(least, most):
            check_whole(row.name, value, least, most)
        case Word(words):
            check_word(row.name, value, words)
        case Switch():
            if not isinstance(value, int | np.bool_) or value not in (True, False):
                raise OptionError(row.name, "must be True or False", value)
        case RowName(register) if register is OPTIMIZERS:
            check_word(row.name, value, register)
        case ByOutput(Number() as numbers):
            for output, number in _pairs(row.name, value):
                check_number(row.name, number, numbers, f"{output}={number}")
        case ByPattern(numbers):
            for _, number in _pairs(row.name, value):
                check_number(row.name, number, numbers)


def _pairs(name: str, value: object) -> Iterable[tuple[Any, Any]]:
    """Returns a value that must be pairs of a name and a number; raises OptionError."""
    if not isinstance(value, list | tuple) or any(
        not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str)
        for pair in value
    ):
        raise OptionError(name, "must be pairs of a name and a number", value)
    return value


def check_number(name: str, value: object, kind: Number, got: str = "") -> None:
    """Checks that a value is a number within bounds; raises OptionError.

    Args:
        name: name of the argument.
        value: its value.
        kind: the bounds.
        got: the value in words; itself if left out.
    """
    if not is_number(value) or not kind.holds(value):
        raise OptionError(name, f"must be {kind.rule}", got or value, kind.remedy)
    check_float32(name, value)


def check_float32(name: str, value: float) -> None:
    """Checks that a number is no larger than float32 can hold; raises OptionError."""
    if value > MAX_FLOAT32:
        raise OptionError(name, f"must be at most {MAX_FLOAT32:.4g}, as float32 holds", value)


def check_learning_rate(value: object) -> None:
    """Checks that a learning rate is a finite number above 0; raises OptionError."""
    check_option(TRAINING_OPTIONS["learning_rate"], value)


def check_word(field: str, word: object, words: Iterable[str]) -> None:
    """Checks that a word is one of several; raises OptionError."""
    allowed_words = tuple(words)
    if not isinstance(word, str) or word not in allowed_words:
        raise OptionError(
            field, f"must be one of {', '.join(f'`{w}`' for w in allowed_words)}", word
        )


def words_of(field: str, names: Any, rule: str = "must be texts") -> tuple[str, ...]:
    """Returns one text or several as a tuple; an empty one for None.

    Args:
        field: name of the argument.
        names: a text, or texts.
        rule: what they must be, for the message.

    Raises:
        OptionError: if a value is not text.
    """
    several = [names] if isinstance(names, str) else () if names is None else names
    is_list = isinstance(several, Iterable) and not isinstance(several, Mapping)
    words = tuple(several) if is_list else ()
    if not is_list or not all(isinstance(word, str) for word in words):
        raise OptionError(field, rule, type(names).__name__)
    return words


def list_of_names(field: str, names: Any) -> tuple[str, ...] | None:
    """Returns a list of names as a tuple; None for None.

    Args:
        field: name of the argument.
        names: the names; one text is no list, since its letters are no names.

    Raises:
        OptionError: if they are no list of texts.
    """
    if names is None:
        return None
    is_list = isinstance(names, Iterable) and not isinstance(names, str | Mapping)
    words = tuple(names) if is_list else ()
    if not is_list or not all(isinstance(word, str) for word in words):
        raise OptionError(field, "must be a list of names", repr(names))
    return words


def check_mapping(field: str, values: object) -> None:
    """Checks that a value is a mapping, or None; raises OptionError."""
    if values is not None and not isinstance(values, Mapping):
        raise OptionError(field, "must be a mapping from names", type(values).__name__)


def whole_numbers(field: str, values: Any, least: int) -> tuple[int, ...]:
    """Returns several whole numbers as a tuple.

    Args:
        field: name of the argument.
        values: the numbers.
        least: smallest number.

    Raises:
        OptionError: if they are no list, or a number is invalid.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise OptionError(field, f"must be a list of whole numbers of at least {least}", values)
    numbers = tuple(values)
    for number in numbers:
        check_whole(field, "None" if number is None else number, least)  # no list leaves one out
    return tuple(map(int, numbers))


def check_whole(field: str, value: object, least: int, most: int | None = None) -> None:
    """Checks that a value is an integer, or None; raises OptionError."""
    if value is None:
        return
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        raise OptionError(field, f"must be a whole number of at least {least}", value)
    most = MAX_WHOLE if most is None else most
    if int(value) > most:
        raise OptionError(field, f"must be a whole number of at most {most}", value)
