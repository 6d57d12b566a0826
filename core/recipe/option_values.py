"""Checks the values of training options, which may come from Python, a checkpoint or a circle+."""

from collections.abc import Iterable
from numbers import Integral

from odt.core.model.training_info import REDUCTIONS, TrainingInfo
from odt.core.options.option import Kind, Number, Whole, Word
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
    check_option("batch_size", info.batch_size, SCHEDULE_OPTIONS["batch_size"].kind)
    check_learning_rate(info.learning_rate)
    for name, row in TRAINING_OPTIONS.items():
        check_option(name, getattr(info, name), row.kind)
    if info.clip_norm and info.clip_value:
        raise OptionError("clip_norm, clip_value", "must not be given together", "both")
    for output, weight in info.loss_weights:
        if not is_number(weight) or weight < 0:
            raise OptionError("loss_weights", "must be numbers of at least 0", f"{output}={weight}")
    for option in OPTIMIZERS[info.optimizer].hyper_parameters:
        given = info.hyper_parameters.get(option.name)
        if given is not None and not option.allows(given):
            raise OptionError(option.name, f"must be {option.rule}", given)


def check_option(name: str, value: object, kind: Kind) -> None:
    """Checks type and bounds of an option; raises OptionError."""
    if isinstance(kind, Number):
        if not is_number(value) or not kind.holds(value):
            raise OptionError(name, f"must be {kind.rule}", value)
    elif isinstance(kind, Whole):
        check_whole(name, value, kind.least, kind.most)
    elif isinstance(kind, Word):
        check_word(name, value, kind.words)
    elif value not in (True, False):
        raise OptionError(name, "must be True or False", value)


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
