"""Text form of a loss and its hyper-parameters: NAME or NAME:OPTION=VALUE,…: huber:delta=2.

The command line, Python, recipes and checkpoints use this form.
"""

import math
import re
from collections.abc import Mapping

from odt.errors import OptionError
from odt.kernels.opdef import HyperParameter
from odt.kernels.registry import LOSSES

Values = dict[str, float | bool]
SWITCH = {"true": True, "false": False}


def parse_loss(text: str) -> tuple[str, Values]:
    """Parses a loss: its name, and the hyper-parameters that are given.

    Args:
        text: hyphens may stand for underscores; the name may be one of the row's other words.

    Raises:
        OptionError: if there is no such loss or hyper-parameter, or a value is not legal.
    """
    if text in LOSSES:
        return text, {}
    word, _, listed = text.partition(":")
    name = find_loss(word)
    if name is None and is_plugin(text):
        raise OptionError("loss", f"{text} is a loss of a Python module and must be given again")
    if name is None:
        raise OptionError("loss", f"must be one of {loss_choices()}", word)
    known = {h.name: h for h in LOSSES[name].hyper_parameters}
    values: Values = {}
    for item in listed.split(",") if listed else ():
        option, _, value = item.partition("=")
        option = option.strip().lower().replace("-", "_")
        if option not in known:
            names = ", ".join(f"`{n}`" for n in known) or "none"
            raise OptionError("loss", f"`{name}` has the options {names}", item.strip())
        values[option] = _value(name, known[option], value.strip())
    LOSSES[name].op.attrs(values, {})  # refuses what only the loss knows
    return name, values


def format_loss(name: str, values: Mapping[str, object]) -> str:
    """The text of a loss, from which `parse_loss` reads the same."""
    listed = ",".join(f"{n}={str(v).lower()}" for n, v in values.items())
    return f"{name}:{listed}" if listed else name


def canonical_loss(text: str) -> str:
    """The text of a loss with full names, without hyper-parameters that have their defaults.

    Raises:
        OptionError: as `parse_loss`.
    """
    return loss_label(*parse_loss(text))


def loss_label(name: str, options: Mapping[str, object]) -> str:
    """The text of a loss by its name and the options of its operator."""
    row = LOSSES[name]
    defaults = row.op.attrs({}, {})
    chosen = {h.name: options[h.name] for h in row.hyper_parameters if h.name in options}
    return format_loss(name, {n: v for n, v in chosen.items() if v != getattr(defaults, n)})


def loss_choices() -> str:
    """The names of all losses, for messages."""
    return ", ".join(f"`{name}`" for name in LOSSES)


def is_plugin(text: str) -> bool:
    """Whether a text names a loss of a Python module: module:object."""
    module, colon, path = text.partition(":")
    return bool(colon and path) and "=" not in path and find_loss(module) is None


def find_loss(word: str) -> str | None:
    """The name of a loss by any of its words; None if there is no such loss."""
    name = re.sub(r"[- ]", "_", word.strip().lower())
    if name in LOSSES:
        return name
    return next((n for n, row in LOSSES.items() if name in row.words), None)


def _value(loss: str, option: HyperParameter, text: str) -> float | bool:
    where = f"`{option.name}` of `{loss}`"
    if option.switch:
        if text.lower() not in SWITCH:
            raise OptionError("loss", f"{where} must be {option.rule}", text or "nothing")
        return SWITCH[text.lower()]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not option.allows(value):
        raise OptionError("loss", f"{where} must be {option.rule}", text or "nothing")
    return value
