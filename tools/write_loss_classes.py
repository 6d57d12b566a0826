"""Writes src/odt/losses.py, a class for each row of kernels/losses.

python tools/write_loss_classes.py
"""

import importlib
from pathlib import Path

from write_optimizer_classes import attribute

import odt
from odt.kernels.registry import LOSSES
from odt.kernels.rows.lossdef import LossDef

assert odt.__file__ is not None
CLASSES = Path(odt.__file__).with_name("losses.py")
TOP = '''"""Losses and their hyper-parameters, with Keras' names.

Written by tools/write_loss_classes.py from the rows in kernels/losses.
"""

from typing import ClassVar

from odt.dataclass import dataclass
from odt.loss import Loss

'''


def classes() -> str:
    """The whole module."""
    names = sorted(["Loss", *(row.class_name for row in LOSSES.values())])
    listed = "".join(f'    "{name}",\n' for name in names)
    return f"{TOP}__all__ = [\n{listed}]\n{''.join(map(class_of, LOSSES.values()))}"


def class_of(row: LossDef) -> str:
    """The class of a loss."""
    text = importlib.import_module(f"odt.kernels.losses.{row.name}").__doc__ or ""
    summary, attrs = " ".join(text.split("\n\n")[0].split()), row.op.attrs({}, {})
    lines = ["", "", "@dataclass(frozen=True, slots=True)", f"class {row.class_name}(Loss):"]
    if row.hyper_parameters:
        lines += [f'    """{summary}', "", "    Attributes:"]
        lines += [*map(attribute, row.hyper_parameters), '    """']
    else:
        lines += [f'    """{summary}"""']
    lines += ["", f'    name: ClassVar[str] = "{row.name}"']
    for h in row.hyper_parameters:
        kind = "bool" if h.switch else "float"
        lines += [f"    {h.name}: {kind} = {getattr(attrs, h.name)!r}"]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    CLASSES.write_text(classes(), encoding="utf-8")
