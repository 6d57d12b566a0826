"""Writes src/odt/optimizers.py, a class for each row of kernels/optimizers.

python tools/write_optimizer_classes.py
"""

import importlib
import textwrap
from pathlib import Path

import odt
from odt.kernels.registry import OPTIMIZERS
from odt.kernels.rows.updatedef import HyperParameter, UpdateRule

assert odt.__file__ is not None
MODULE = Path(odt.__file__).with_name("optimizers.py")
TOP = '''"""Optimizers and their hyper-parameters, with Keras' names.

Written by tools/write_optimizer_classes.py from the rows in kernels/optimizers.
"""

from typing import ClassVar

from odt.dataclass import dataclass
from odt.kernels.rows.scheduledef import Schedule
from odt.optimizer import Optimizer

'''
CLASS = '''

@dataclass(frozen=True, slots=True)
class {class_name}(Optimizer):
    """{summary}

    Attributes:
        learning_rate: step size, above 0, or a Schedule.
{attributes}
    """

    name: ClassVar[str] = "{name}"
    learning_rate: float | Schedule = {learning_rate}
{fields}
'''


def module() -> str:
    """The whole module."""
    names = ["Optimizer", *(rule.class_name for rule in OPTIMIZERS.values())]
    constants_first = sorted(names, key=lambda name: (not name.isupper(), name))
    listed = "".join(f'    "{name}",\n' for name in constants_first)
    classes = "".join(class_of(rule) for rule in OPTIMIZERS.values())
    return f"{TOP}__all__ = [\n{listed}]\n{classes}"


def class_of(rule: UpdateRule) -> str:
    """The class of an optimizer."""
    return CLASS.format(
        class_name=rule.class_name,
        summary=summary(rule),
        attributes="\n".join(map(attribute, rule.hyper_parameters)),
        name=rule.name,
        learning_rate=rule.learning_rate,
        fields="\n".join(
            f"    {h.name}: {'bool' if h.switch else 'float'} = {value!r}"
            for h, value in defaults(rule).items()
        ),
    )


def summary(rule: UpdateRule) -> str:
    """The first paragraph of the docstring of the row's module, in one line."""
    return " ".join(documentation(rule).split("\n\n")[0].split())


def documentation(rule: UpdateRule) -> str:
    """The docstring of the row's module."""
    return importlib.import_module(f"odt.kernels.optimizers.{rule.name}").__doc__ or ""


def defaults(rule: UpdateRule) -> dict[HyperParameter, float | bool]:
    """The hyper-parameters that users may choose → their defaults."""
    attrs = rule.attrs()
    return {h: getattr(attrs, h.name) for h in rule.hyper_parameters}


def attribute(h: HyperParameter) -> str:
    """The line of a hyper-parameter in a docstring, wrapped."""
    note = f" ({h.note})" if h.note else ""
    help = h.help.removeprefix(f"{h.name.replace('_', ' ').capitalize()}: ")
    help = help[0].lower() + help[1:]
    if h.switch and not help.startswith("whether "):
        help = f"whether to {help}"
    text = f"{h.name}: {help}{note}."
    return textwrap.fill(text, 100, initial_indent=" " * 8, subsequent_indent=" " * 12)


if __name__ == "__main__":
    MODULE.write_text(module(), encoding="utf-8")
