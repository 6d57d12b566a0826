"""Writes docs/api.md from the docstrings of odt's public names and tested examples.

python tools/write_api_page.py
"""

import inspect
import re
import tomllib
from enum import Enum
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import odt
import odt.compat.ort
from odt.kernels.registry import LOSSES, OPTIMIZERS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/api.md"
WIDTH = 100  # of a call in one line
# Classes whose objects functions return: they take objects of the engine.
RETURNED = frozenset(("Model", "QuantizedModel", "Evaluation"))
EXAMPLES = {
    rule.class_name: f'trainer = odt.Trainer("model.circle", optimizer=odt.{rule.class_name}(1e-3))'
    for rule in OPTIMIZERS.values()
}
EXAMPLES |= {
    row.class_name: f'trainer = odt.Trainer("model.circle", loss=odt.{row.class_name}())'
    for row in LOSSES.values()
}
EXAMPLES |= {
    f"augment.{name}": f'odt.Trainer("model.circle").fit(x, y, augment=odt.augment.{name}())'
    for name in ("Noise", "TimeShift", "Gain", "Mixup")
}
EXAMPLES |= tomllib.loads((ROOT / "docs/api_examples.toml").read_text(encoding="utf-8"))
GROUPS = {
    "Models": (
        *("load_model", "Model", "TensorInfo", "NodeInfo"),
        *("new_model", "replace_head", "cut", "join", "lora", "quantize", "QuantizedModel"),
        "LayerNoise",
        *("read_training_info", "write_circle_plus", "remove_training_info", "TrainingInfo"),
    ),
    "Training": (
        *("Trainer", "CheckpointState", "DataSet", "History", "RateTest", "Teacher", "Arrays"),
        *("Logs", "generate_artifacts", "Artifacts"),
    ),
    "Personalization": ("personalize", "Personalization"),
    "Evaluation": (
        *("evaluate", "Evaluation", "predict", "NewData"),
        *("classification_report", "ClassificationReport", "sample_losses"),
        *("compare_models", "Difference", "Change", "compare_outputs", "Agreement"),
        *("report", "read_run", "Run", "compare_runs", "RunComparison"),
    ),
    "Optimizers": ("Optimizer", *(rule.class_name for rule in OPTIMIZERS.values())),
    "Losses": ("Loss", *(row.class_name for row in LOSSES.values())),
    "Learning rate schedules": (
        *("Schedule", "ConstantRate", "StepDecay", "ExponentialDecay", "PolynomialDecay"),
        *("CosineDecay", "CosineDecayRestarts", "OneCycle", "ReduceOnPlateau"),
    ),
    "Augmentation": tuple(f"augment.{name}" for name in odt.augment.__all__),
    "What trains": ("Trainable", "last", "select", "freeze", "bias_only"),
    "Callbacks": (
        *("Callback", "EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau", "CSVLogger"),
        "LambdaCallback",
    ),
    "Before training": ("plan", "MemoryForecast", "check", "CheckResult"),
    "Federated learning": tuple(f"federated.{name}" for name in odt.federated.PUBLIC),
    "The names of ONNX Runtime": tuple(f"compat.ort.{name}" for name in odt.compat.ort.PUBLIC),
    "Errors and warnings": tuple(
        name for name, module in odt.PUBLIC.items() if module == "odt.errors"
    ),
}
INTRODUCTION = """# Python API

<!-- Written by tools/write_api_page.py from docstrings and docs/api_examples.toml. -->

The Python API has the functions of the command line; `odt train` is built on it. Arrays are NumPy
arrays, or anything that `numpy.asarray` accepts; N is the number of samples. The examples begin
with

```python
import numpy as np
import odt

x = np.random.default_rng(0).normal(size=(96, 784)).astype("float32")
y = np.eye(10, dtype="float32")[np.arange(96) % 10]
```
"""


def signature(value: Any) -> str:
    """Returns the call signature of a class or function, or the members of an enumeration."""
    if inspect.isclass(value) and issubclass(value, Enum):
        return f": {', '.join(value.__members__)}"
    try:
        text = public_names(str(inspect.signature(value)))
    except (TypeError, ValueError):
        return ""
    return text.partition(" -> ")[0] if inspect.isclass(value) else text


def public_names(text: str) -> str:
    """Writes annotations as users do: `odt.Model`, not `odt.models.model.Model`."""

    def public(match: re.Match[str]) -> str:
        name = match[1]
        value = getattr(odt, name, None)
        is_same = getattr(value, "__module__", None) == match[0].rpartition(".")[0]
        return f"odt.{name}" if is_same else name

    text = re.sub(r"\bOptional\[(Literal\[[^]]*\])\]", r"\1 | None", text.replace("typing.", ""))
    text = re.sub(r"\b(?:collections\.abc|os)\.(?=[A-Z])", "", text)
    return re.sub(r"\bodt(?:\.[a-z_]+)+\.(\w+)", public, text)


def wrapped(call: str) -> list[str]:
    """Returns a call as lines, with a parameter on each if it is long."""
    if len(call) <= WIDTH:
        return [call]
    lines, depth = [""], 0
    for mark in call:
        depth += (mark in "([{") - (mark in ")]}")
        if mark == ")" and not depth:
            lines += [""]
        lines[-1] += mark
        if depth == 1 and mark in "(,":
            lines += [""]
    return [lines[0], *(f"    {x.strip()}" for x in lines[1:-1]), lines[-1]]


def section(name: str) -> list[str]:
    """Returns the section of a public name: signature, docstring, methods and example."""
    value = attrgetter(name)(odt)
    lines = [f"### `odt.{name}`", ""]
    is_class = inspect.isclass(value)
    if is_class or inspect.isfunction(value):
        if not is_class or not (issubclass(value, Exception) or name in RETURNED):
            lines += ["```text", *wrapped(f"odt.{name}{signature(value)}"), "```", ""]
        lines += [*text_of(value), ""]
        if is_class and inspect.isfunction(value.__init__) and value.__init__.__doc__:
            lines += [*text_of(value.__init__), ""]
    else:
        lines += [f"`{public_names(str(value))}`", ""]
    if is_class and not issubclass(value, Exception):
        bases = [base for base in value.__mro__[1:] if base in documented()]
        if bases:
            lines += [f"A subclass of `odt.{documented()[bases[0]]}`.", ""]
        for method, function in public_members(value):
            call = signature(function) if callable(function) else ""
            if len(method + call) <= WIDTH:
                lines += [f"**`{method}{call}`**", ""]
            else:
                lines += [f"**`{method}`**", "", "```text", *wrapped(method + call), "```", ""]
            lines += [*text_of(function), ""]
    if name in EXAMPLES:
        lines += ["```python", *EXAMPLES[name].strip().splitlines(), "```", ""]
    return lines


def text_of(value: Any) -> list[str]:
    """Returns a docstring: the first line as prose, the rest as preformatted text."""
    text = inspect.getdoc(value) or ""
    first, _, rest = text.partition("\n")
    return [first, *(["", "```text", rest.strip("\n"), "```"] if rest.strip() else [])]


@cache
def documented() -> dict[Any, str]:
    """Returns the classes on the page and their names."""
    names = [name for group in GROUPS.values() for name in group]
    by_value = {attrgetter(name)(odt): name for name in names}
    return {value: name for value, name in by_value.items() if inspect.isclass(value)}


def public_members(value: type) -> list[tuple[str, Any]]:
    """Returns public methods and properties that the class and its bases in odt define.

    Those of the class come first. Members of a base with a section of its own are left out.
    """
    members: dict[str, Any] = {}
    for base in value.__mro__:
        if base.__module__.startswith("odt.") and (base is value or base not in documented()):
            for name, defined in vars(base).items():
                member = getattr(value, name) if isinstance(defined, classmethod) else defined
                plain = not name.startswith("_") or name in ("__setitem__",)
                method = inspect.isfunction(member) or inspect.ismethod(member)
                if plain and (method or isinstance(member, property)):
                    members.setdefault(name, member)
    return list(members.items())


def page() -> str:
    """Returns the text of docs/api.md."""
    lines = [INTRODUCTION]
    for title, names in GROUPS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += section(name)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
