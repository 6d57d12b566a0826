"""Checks the values of training options, which may come from Python, a checkpoint or a circle+."""

from collections.abc import Iterable
from numbers import Integral
from typing import Any

from odt.core.model.training_info import REDUCTIONS, TrainingInfo
from odt.core.options.option import Form, Number, Option, Switch, Whole, Word, rows_of
from odt.core.options.schedule_options import SCHEDULE_OPTIONS
from odt.core.options.training_options import TRAINING_OPTIONS
from odt.errors import OptionError
from odt.kernels.registry import OPTIMIZERS
from odt.kernels.rows.updatedef import is_number


def check_values(info: TrainingInfo) -> None:
    """Checks all values but the losses, the optimizer's name and the selection of weights.

    Raises:
        OptionError: if a value is invalid.
    """
    check_word("reduction", info.reduction, REDUCTIONS)
    check_option(SCHEDULE_OPTIONS["batch_size"], info.batch_size)
    check_learning_rate(info.learning_rate)
    for name, row in TRAINING_OPTIONS.items():
        check_option(row, getattr(info, name))
    if info.clip_norm and info.clip_value:
        raise OptionError("clip_norm, clip_value", "must not be given together", "both")
    for output, weight in info.loss_weights:
        if not is_number(weight) or weight < 0:
            raise OptionError("loss_weights", "must be numbers of at least 0", f"{output}={weight}")
    for option in OPTIMIZERS[info.optimizer].hyper_parameters:
        value = info.hyper_parameters.get(option.name)
        if value is not None and not option.allows(value):
            raise OptionError(option.name, f"must be {option.rule}", value)


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
    """Checks type and bounds of an option; raises OptionError.

    A value whose kind says nothing of it is checked by the code that reads it.

    Args:
        row: row of the option.
        value: its value.
    """
    kind = row.kind.kind if isinstance(row.kind, Form) else row.kind
    match kind:
        case Number():
            if not is_number(value) or not kind.holds(value):
                raise OptionError(row.name, f"must be {kind.rule}", value)
        case Whole(least, most):
            check_whole(row.name, value, least, most)
        case Word(words):
            check_word(row.name, value, words)
        case Switch():
            if value not in (True, False):
                raise OptionError(row.name, "must be True or False", value)


def check_learning_rate(value: object) -> None:
    """Checks that a learning rate is a finite number above 0; raises OptionError."""
    if not is_number(value) or value <= 0:
        raise OptionError("learning_rate", "must be a number above 0", value)


def check_word(field: str, word: object, words: Iterable[str]) -> None:
    """Checks that a word is one of several; raises OptionError."""
    allowed_words = tuple(words)
    if word not in allowed_words:
        raise OptionError(
            field, f"must be one of {', '.join(f'`{w}`' for w in allowed_words)}", word
        )


def check_whole(field: str, value: object, least: int, most: int | None = None) -> None:
    """Checks that a value is an integer, or None; raises OptionError."""
    if value is None:
        return
    if not isinstance(value, Integral) or int(value) < least:
        raise OptionError(field, f"must be a whole number of at least {least}", value)
    if most is not None and int(value) > most:
        raise OptionError(field, f"must be a whole number of at most {most}", value)
