"""The base of all loss classes."""

import importlib
import itertools
import os
import sys
from dataclasses import fields
from typing import Any, ClassVar

from odt.dataclass import dataclass
from odt.errors import OptionError
from odt.habits import unknown_argument
from odt.kernels.loss_text import format_loss, is_plugin
from odt.kernels.registry import LOSSES
from odt.kernels.rows.lossdef import LossDef

# Name of a custom loss → its value and gradient.
FUNCTIONS: dict[str, tuple[Any, Any]] = {}


@dataclass(frozen=True, slots=True)
class Loss:
    """Base class of losses; str() gives the text that `loss=` takes."""

    name: ClassVar[str] = ""

    def _refuse(self, name: str) -> OptionError:
        """Returns the error of an unknown argument, for `odt.dataclass`."""
        names = [f.name for f in fields(self)]
        return unknown_argument(name, f"odt.{type(self).__name__}", names, base="Loss")

    def __str__(self) -> str:
        return format_loss(self.name, {f.name: getattr(self, f.name) for f in fields(self)})


def load_loss(text: str) -> str:
    """Imports a loss given as module:object; the module may be a file in the current folder.

    Raises:
        OptionError: if the object cannot be imported or is not a loss.
    """
    module, _, path = text.partition(":")
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        value: Any = importlib.import_module(module)
        for name in path.split("."):
            value = getattr(value, name)
    except Exception as e:  # code of the user may raise any exception
        raise OptionError("loss", f"{text} must be a Python object, module:object", e) from e
    finally:
        sys.path.remove(here)
    return add_loss(value, text)


def add_loss(loss: Any, name: str = "") -> str:
    """Registers a custom loss: an object with value and gradient, a pair of them, or a LossDef.

    Args:
        loss: the custom loss; value and gradient are functions of targets and outputs.
        name: name of the loss; the object's own if left out.

    Returns:
        The name that selects the loss. Another object of the same class has the name with a number.

    Raises:
        OptionError: if the object does not have both functions.
    """
    name = name or f"{loss.__class__.__module__}:{loss.__class__.__qualname__}"
    if isinstance(loss, LossDef):
        LOSSES.add(loss)
        return loss.name
    if isinstance(loss, tuple) and len(loss) == 2:
        value, gradient = loss
    else:
        value = getattr(loss, "value", None)
        gradient = getattr(loss, "gradient", None)
    if not (callable(value) and callable(gradient)):
        raise OptionError("loss", f"{name} must have two functions, value and gradient")
    known = name
    for number in itertools.count(2):
        if known not in LOSSES or FUNCTIONS.get(known) == (value, gradient):
            break
        known = f"{name}#{number}"
    from odt.kernels.plugin_loss import plugin_loss

    FUNCTIONS[known] = value, gradient
    LOSSES.add(plugin_loss(known, value, gradient))
    return known


def loss_text(loss: Any) -> str:
    """Returns the text that selects a loss: text, an odt.Loss or a custom loss.

    Raises:
        OptionError: if a custom loss cannot be imported or is not a loss.
    """
    if isinstance(loss, Loss):
        return str(loss)
    if not isinstance(loss, str):
        return add_loss(loss)
    return load_loss(loss) if is_plugin(loss) and loss not in LOSSES else loss
