"""Text form of a loss and its hyper-parameters: NAME or NAME:OPTION=VALUE,…, such as huber:delta=2.

The command line, Python, recipes and checkpoints use this form.
"""

import math
import re
from collections.abc import Mapping

from odt.errors import OptionError
from odt.kernels.registry import LOSSES
from odt.kernels.rows.option_text import parse_options
from odt.kernels.rows.updatedef import HyperParameter

Values = dict[str, float | bool]
SWITCH = {"true": True, "false": False}


def parse_loss(text: str) -> tuple[str, Values]:
    """Parses a loss: its name, and the hyper-parameters that are given.

    Args:
        text: text with underscores or hyphens; the name may be one of the row's other words.

    Raises:
        OptionError: if there is no such loss or hyper-parameter, if one occurs twice, or if a value
            is invalid.
    """
    if text in LOSSES:
        return text, {}
    word, _, _ = text.partition(":")
    name = find_loss(word)
    if name is None and is_plugin(text):
        raise OptionError(
            "loss",
            f"{text} is a custom loss of a Python module and must be given again, because odt "
            "imports no module that a file names",
        )
    if name is None:
        raise OptionError("loss", f"must be one of {loss_choices()}", word)
    parameters = {h.name: h for h in LOSSES[name].hyper_parameters}
    values: Values = {}
    for option, value in parse_options("loss", text)[1].items():
        if option not in parameters:
            names = ", ".join(f"`{n}`" for n in parameters) or "none"
            raise OptionError("loss", f"`{name}` has the options {names}", option or "nothing")
        values[option] = _value(name, parameters[option], value)
    LOSSES[name].op.attrs(values, {})  # checks rules that only the loss knows
    return name, values


def format_loss(name: str, values: Mapping[str, object]) -> str:
    """Formats a loss as text that `parse_loss` reads."""
    listed = ",".join(f"{n}={str(v).lower()}" for n, v in values.items())
    return f"{name}:{listed}" if listed else name


def canonical_loss(text: str) -> str:
    """Returns the text of a loss with full names, without hyper-parameters with default values.

    Raises:
        OptionError: as in `parse_loss`.
    """
    return loss_label(*parse_loss(text))


def stored_loss(text: str) -> str:
    """Returns the text of a loss that a file names, as `canonical_loss` does; imports nothing.

    Every loss from a file passes through here. A custom loss, module:object, must be on the command
    line or come from Python, because its module is code.

    Raises:
        OptionError: as in `parse_loss`, and for a custom loss that this process has not loaded.
    """
    return text if text == "none" else canonical_loss(text)


def loss_label(name: str, options: Mapping[str, object]) -> str:
    """Returns the text of a loss from its name and the options of its operator."""
    row = LOSSES[name]
    defaults = row.op.attrs({}, {})
    values = {h.name: options[h.name] for h in row.hyper_parameters if h.name in options}
    return format_loss(name, {n: v for n, v in values.items() if v != getattr(defaults, n)})


def loss_choices() -> str:
    """Returns the names of all losses, for messages."""
    return ", ".join(f"`{name}`" for name in LOSSES)


def is_plugin(text: str) -> bool:
    """Whether a text names a loss in a Python module: module:object."""
    module, colon, path = text.partition(":")
    return bool(colon and path) and "=" not in path and find_loss(module) is None


def find_loss(word: str) -> str | None:
    """Returns the name of a loss from any of its words; None if there is no such loss."""
    name = re.sub(r"[- ]", "_", word.strip().lower())
    if name in LOSSES:
        return name
    return next((n for n, row in LOSSES.items() if name in row.words), None)


def _value(loss: str, option: HyperParameter, text: str) -> float | bool:
    where = f"`{option.name}` of `{loss}`"
    if option.switch:
        if text not in SWITCH:
            raise OptionError("loss", f"{where} must be {option.rule}", text or "nothing")
        return SWITCH[text]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not option.allows(value):
        raise OptionError("loss", f"{where} must be {option.rule}", text or "nothing")
    return value
