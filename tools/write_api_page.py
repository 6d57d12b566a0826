"""Writes docs/api.md and docs/api from the docstrings of odt's public names and tested examples.

python tools/write_api_page.py
"""

import inspect
import re
import sys
import tomllib
from dataclasses import dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import odt
import odt.compat.ort
from odt.core.data.augmentations.registry import CLASSES as AUGMENTATIONS
from odt.kernels.registry import LOSSES, OPTIMIZERS

ROOT = Path(__file__).parents[1]
INDEX, FOLDER = ROOT / "docs/api.md", ROOT / "docs/api"
MARK = "<!-- Written by tools/write_api_page.py from docstrings and docs/api_examples.toml. -->"
WIDTH = 100  # of a call in one line
# Classes whose objects functions return: they take objects of the engine.
RETURNED = frozenset(("Model", "QuantizedModel", "Evaluation", "Plot"))
# What constants and types are, which have no docstrings.
ABOUT = {
    "Logs": "Loss and metrics by name, as callbacks get them: `loss`, `val_loss`, `accuracy`, …",
    "federated.PAYLOADS": "Kinds of payloads: the types of the numbers that are sent.",
}
EXAMPLES = {
    rule.class_name: f'trainer = odt.Trainer("model.circle", optimizer=odt.{rule.class_name}(1e-3))'
    for rule in OPTIMIZERS.values()
}
EXAMPLES |= {
    row.class_name: f'trainer = odt.Trainer("model.circle", loss=odt.{row.class_name}())'
    for row in LOSSES.values()
}
EXAMPLES |= {
    f"augment.{kind.__name__}": f"print(odt.augment.{kind.__name__}())  # {kind()}"
    for kind in AUGMENTATIONS
}
EXAMPLES |= tomllib.loads((ROOT / "docs/api_examples.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Page:
    """A page of docs/api.

    Attributes:
        title: title of the page.
        about: what the names are for, as one line.
        names: public names, in the order of the page.
    """

    title: str
    about: str
    names: tuple[str, ...]


# By file name, in the order of docs/api.md.
PAGES = {
    "training": Page(
        "Training",
        "train, evaluate, predict, export and resume with a trainer",
        (
            *("Trainer", "CheckpointState", "DataSet", "History", "Plot", "RateTest"),
            *("Teacher", "Arrays", "Logs"),
        ),
    ),
    "selection": Page(
        "What trains",
        "select the weights that train",
        ("Trainable", "last", "select", "freeze", "bias_only"),
    ),
    "callbacks": Page(
        "Callbacks",
        "act during training: stop early, log, save",
        (
            *("Callback", "EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau", "CSVLogger"),
            "LambdaCallback",
        ),
    ),
    "losses": Page(
        "Losses", "what training minimizes", ("Loss", *(row.class_name for row in LOSSES.values()))
    ),
    "optimizers": Page(
        "Optimizers",
        "how weights are updated",
        ("Optimizer", *(rule.class_name for rule in OPTIMIZERS.values())),
    ),
    "schedules": Page(
        "Learning rate schedules",
        "change the learning rate during training",
        (
            *("Schedule", "ConstantRate", "StepDecay", "ExponentialDecay", "PolynomialDecay"),
            *("CosineDecay", "CosineDecayRestarts", "OneCycle", "ReduceOnPlateau"),
        ),
    ),
    "augment": Page(
        "Augmentation",
        "change samples at random during training",
        tuple(f"augment.{name}" for name in odt.augment.__all__),
    ),
    "models": Page(
        "Models",
        "read, make, cut, quantize and write model files",
        (
            *("load_model", "Model", "TensorInfo", "NodeInfo", "new_model", "replace_head", "cut"),
            *("join", "lora", "quantize", "QuantizedModel", "LayerNoise", "convert_gguf"),
            *(
                "load_tokenizer",
                "BytePairs",
                "read_training_info",
                "write_circle_plus",
                "remove_training_info",
                "TrainingInfo",
            ),
        ),
    ),
    "planning": Page(
        "Before training",
        "forecast memory and check whether a model can be trained",
        ("plan", "MemoryForecast", "benchmark_board", "Board", "check", "CheckResult"),
    ),
    "evaluation": Page(
        "Evaluation",
        "evaluate and compare model files, predict",
        (
            *("evaluate", "Evaluation", "predict", "NewData", "classification_report"),
            *("ClassificationReport", "sample_losses", "compare_models", "Difference", "Change"),
            *("compare_outputs", "Agreement"),
        ),
    ),
    "runs": Page(
        "Runs",
        "read, compare and show the folders of runs",
        ("report", "LiveReport", "read_run", "Run", "compare_runs", "RunComparison"),
    ),
    "artifacts": Page(
        "Artifacts",
        "prepare on a workstation what a device will train",
        ("generate_artifacts", "Artifacts"),
    ),
    "compilation": Page(
        "C programs",
        "train on devices without Python",
        ("compile", "CProgram"),
    ),
    "personalization": Page(
        "Personalization",
        "add classes to a classifier without forgetting the old ones",
        ("personalize", "Personalization"),
    ),
    "federated": Page(
        "Federated learning",
        "clients, servers, strategies and simulated federations",
        tuple(f"federated.{name}" for name in odt.federated.PUBLIC),
    ),
    "onnxruntime": Page(
        "The names of ONNX Runtime",
        "run scripts for the on-device training of ONNX Runtime",
        tuple(f"compat.ort.{name}" for name in odt.compat.ort.PUBLIC),
    ),
    "errors": Page(
        "Errors and warnings",
        "what users can cause and odt reports",
        (
            "OdtError",
            *(k for k, v in odt.PUBLIC.items() if v == "odt.errors" and k != "OdtError"),
        ),
    ),
}
# Methods of odt.Trainer that most scripts use, which come first; what for.
FIRST = {
    "fit": "train for a number of epochs",
    "evaluate": "compute loss and metrics",
    "predict": "compute outputs",
    "export": "write the trained model",
    "state": "read, set and save parameters and optimizer state",
}
INTRODUCTION = f"""# Python API

{MARK}

The Python API has the functions of the command line, which is built on it; [Python](python.md)
shows how to use it. Arrays are NumPy arrays, or anything that `numpy.asarray` accepts; N is the
number of samples. Numbers may be scalars of NumPy, and paths are text or `pathlib.Path`. Arguments
of another type raise `odt.OptionError`. The examples of all pages begin with

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
        text = public_names(str(evaluated(value)))
        package = "odt." if not value.__module__.startswith("odt.compat") else ""
        text = re.sub(r"(: |-> )'([A-Z]\w+)'", rf"\1{package}\2", text)  # names of later classes
    except (TypeError, ValueError):
        return ""
    return text.partition(" -> ")[0] if inspect.isclass(value) else text


def evaluated(value: Any) -> inspect.Signature:
    """Returns the signature of a class or function; annotations of public names are evaluated.

    An annotation is text if the module imports the class for type checkers only.
    """
    scope = {name: getattr(odt, name) for name in odt.PUBLIC} | vars(sys.modules[value.__module__])

    def real(annotation: Any) -> Any:
        try:
            return eval(annotation, scope) if isinstance(annotation, str) else annotation
        except NameError:  # a name that is not public
            return annotation

    shown = inspect.signature(value)
    parameters = [p.replace(annotation=real(p.annotation)) for p in shown.parameters.values()]
    return shown.replace(parameters=parameters, return_annotation=real(shown.return_annotation))


def public_names(text: str) -> str:
    """Writes annotations as users do: `odt.Model`, not `odt.models.model.Model`."""

    def public(match: re.Match[str]) -> str:
        name = match[1]
        value = getattr(odt, name, None)
        is_same = getattr(value, "__module__", None) == match[0].rpartition(".")[0]
        return f"odt.{name}" if is_same else name

    text = re.sub(r"\bOptional\[(Literal\[[^]]*\])\]", r"\1 | None", text.replace("typing.", ""))
    text = text.replace("pathlib._local.", "pathlib.")  # as Python 3.13 says
    text = re.sub(r"\b(?:collections\.abc|os)\.(?=[A-Z])", "", text)
    text = text.replace("numpy.random._generator.", "numpy.random.")
    text = re.sub(r"<class '(\w+)'>", r"\1", text.replace("<factory>", "{}"))
    return re.sub(r"\bodt(?:\.[a-z_]+)+\.(\w+)", public, text)


def wrap(call: str) -> list[str]:
    """Returns a call as lines: one, or one for each parameter if it is longer than WIDTH."""
    if len(call) <= WIDTH:
        return [call]
    parameters, arrow, result = call.partition(" -> ")
    lines, depth = [""], 0
    for mark in parameters:
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        if mark == ")" and not depth:
            lines += [""]
        lines[-1] += mark
        if depth == 1 and mark in "(,":
            lines += [""]
    last = lines[-1] + arrow + result
    return [lines[0], *(f"    {x.strip()}" for x in lines[1:-1]), last]


def section(name: str) -> list[str]:
    """Returns the section of a public name: signature, docstring, methods and example."""
    value = attrgetter(name)(odt)
    lines = [f"## `odt.{name}`", ""]
    is_class = inspect.isclass(value)
    if is_class or inspect.isfunction(value):
        if not is_class or not (issubclass(value, Exception) or name in RETURNED):
            lines += ["```text", *wrap(f"odt.{name}{signature(value)}"), "```", ""]
        lines += [*text_of(value), ""]
        if is_class and inspect.isfunction(value.__init__) and value.__init__.__doc__:
            lines += [f"### `{value.__name__}.__init__`", "", *text_of(value.__init__), ""]
    else:
        lines += [f"`{public_names(str(value))}`", "", ABOUT[name], ""]
    if is_class:
        bases = [base for base in value.__mro__[1:] if base in documented()]
        if bases:
            lines += [f"A subclass of `odt.{documented()[bases[0]]}`.", ""]
    if is_class and not issubclass(value, Exception):
        for method, function in public_members(value):
            lines += [f"### `{value.__name__}.{method}`", ""]
            if callable(function):
                lines += ["```text", *wrap(method + signature(function)), "```", ""]
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
    """Returns the classes on the pages and their names."""
    names = [name for page in PAGES.values() for name in page.names]
    by_value = {attrgetter(name)(odt): name for name in names}
    return {value: name for value, name in by_value.items() if inspect.isclass(value)}


def public_members(value: type) -> list[tuple[str, Any]]:
    """Returns public methods, properties and __setitem__ of the class and its bases in odt.

    Those of the class come first. Members of a base with a section of its own are left out, and
    those of augmentations, which are called by the methods of their base.
    """
    if issubclass(value, odt.augment.Augmentation) and value is not odt.augment.Augmentation:
        return []
    members: dict[str, Any] = {}
    for base in value.__mro__:
        if base.__module__.startswith("odt.") and (base is value or base not in documented()):
            for name, defined in vars(base).items():
                member = getattr(value, name) if isinstance(defined, classmethod) else defined
                plain = not name.startswith("_") or name == "__setitem__"
                method = inspect.isfunction(member) or inspect.ismethod(member)
                if plain and (method or isinstance(member, property)):
                    members.setdefault(name, member)
    if value is odt.Trainer:
        members = {name: members[name] for name in (*FIRST, *members)}
    return list(members.items())


def anchor(heading: str) -> str:
    """Returns the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


def index() -> str:
    """Returns the text of docs/api.md."""
    lines = [INTRODUCTION, "## The methods that most scripts use", "", "| method | for |"]
    lines += ["| --- | --- |"]
    for method, purpose in FIRST.items():
        link = f"[`Trainer.{method}`](api/training.md#{anchor(f'Trainer.{method}')})"
        lines.append(f"| {link} | {purpose} |")
    lines += ["", "## Modules", "", "| page | for | names |", "| --- | --- | --- |"]
    for file, page in PAGES.items():
        links = (f"[`{name}`](api/{file}.md#{anchor(f'odt.{name}')})" for name in page.names)
        lines.append(f"| [{page.title}](api/{file}.md) | {page.about} | {', '.join(links)} |")
    return "\n".join(lines) + "\n"


def page_text(page: Page) -> str:
    """Returns the text of a page of docs/api."""
    lines = [f"# {page.title}", "", MARK, ""]
    lines += [f"Part of the [Python API](../api.md): {page.about}.", ""]
    for name in page.names:
        lines += section(name)
    return "\n".join(lines).rstrip() + "\n"


def pages() -> dict[Path, str]:
    """Returns the texts of all pages by path."""
    return {INDEX: index(), **{FOLDER / f"{k}.md": page_text(p) for k, p in PAGES.items()}}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        path.unlink()
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
