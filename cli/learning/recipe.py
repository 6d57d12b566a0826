"""Recipes of `odt learn`: the commands that make a model, and their options, as TOML."""

import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from odt.cli.options.recipe_file import toml
from odt.dataclass import dataclass
from odt.errors import OdtError
from odt.models.bases import BASES
from odt.runs.recipe import parse_recipe

Options: TypeAlias = dict[str, Any]  # value by option, without the dashes in front

DATA, HEAD, NEW, TRAIN, QUANTIZE = "gen-datafile", "replace-head", "new", "train", "quantize"
STEPS = (HEAD, DATA, NEW, TRAIN, QUANTIZE)  # in the order in which they run
SEEDED = (DATA, HEAD, NEW, TRAIN)  # commands that have an option `seed`
ON_BY_DEFAULT = ("shuffle", "stratify", "preprocessing")  # switches
ARGUMENTS = {HEAD: "model", NEW: "kind"}  # command → key of the recipe that is its argument
CHOSEN = {  # command → options that odt learn itself gives, or whose default it relies on
    DATA: ("source", "out-dir", "output-format", "prefix-name"),
    HEAD: ("output",),
    NEW: ("like", "output"),
    TRAIN: ("data", "run-dir", "export-tflite"),
    QUANTIZE: ("data", "output"),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """The commands that make a model of a source of data.

    Attributes:
        source: path of the data.
        steps: command → its options, in the order in which the commands run.
    """

    source: str
    steps: Mapping[str, Options]

    def with_options(self, changes: Mapping[str, Options]) -> "Recipe":
        """Returns the recipe with other values of options.

        Args:
            changes: command → its options that change.

        Raises:
            OdtError: if the recipe does not have the command, or an option is one that `odt learn`
                itself chooses.
        """
        for command in changes:
            if command not in self.steps:
                known = ", ".join(self.steps)
                raise OdtError(f"--set: must name one of the commands {known}, but got {command}.")
        steps = {name: options | changes.get(name, {}) for name, options in self.steps.items()}
        for name, options in steps.items():
            chosen = (*CHOSEN[name], "like") if name == DATA and HEAD in steps else CHOSEN[name]
            for key in chosen:
                if key in options:
                    raise OdtError(f"{name}.{key}: must be left out; odt learn chooses it.")
        return Recipe(self.source, steps)

    def with_source(self, source: str) -> "Recipe":
        """Returns the recipe for other data."""
        return Recipe(source, self.steps)

    def text(self, folder: str) -> str:
        """Returns the recipe as TOML.

        Args:
            folder: folder of the file, to which paths of the data and of a model are relative if
                they can be.
        """
        lines = [
            "# odt learn --config recipe.toml -o FOLDER runs these commands again.",
            f"source = {toml(_relative(self.source, folder))}",
        ]
        steps = dict(self.steps)
        if HEAD in steps and not _is_name(base := str(steps[HEAD].get("model", ""))):
            steps[HEAD] = steps[HEAD] | {"model": _relative(base, folder)}
        for command, options in steps.items():
            lines += ["", f"[{command}]"]
            lines += [f"{key} = {toml(value)}" for key, value in options.items()]
        return "\n".join(lines) + "\n"


def read_recipe(path: str) -> Recipe:
    """Reads a recipe.

    Raises:
        OdtError: if the file is no recipe of `odt learn`.
    """
    values = parse_recipe(path)
    source = values.pop("source", None)
    steps = {name: options for name, options in values.items() if isinstance(options, dict)}
    if (
        not isinstance(source, str)
        or len(steps) < len(values)
        or not {DATA, TRAIN} <= steps.keys() <= {*STEPS}
        or (HEAD in steps) == (NEW in steps)
    ):
        raise OdtError(
            f"{path}: must be a recipe of odt learn, with `source` and tables for {DATA}, {TRAIN}, "
            f"one of {HEAD} and {NEW}, and {QUANTIZE} if it is to run, but got "
            f"{', '.join(values) or 'no commands'}."
        )
    folder = os.path.dirname(path)
    if HEAD in steps and (base := str(steps[HEAD].get("model", ""))) not in BASES:
        steps[HEAD] = steps[HEAD] | {"model": os.path.join(folder, base)}
    ordered = {name: steps[name] for name in STEPS if name in steps}
    return Recipe(os.path.join(folder, source), ordered)


def parse_change(text: str) -> tuple[str, str, str | bool]:
    """Splits COMMAND.OPTION=VALUE; returns command, option and value, a bool for a switch.

    Raises:
        OdtError: if the text has another form.
    """
    name, equals, value = text.partition("=")
    command, dot, option = name.partition(".")
    if not (equals and dot and command and option):
        raise OdtError(
            f"--set: must be COMMAND.OPTION=VALUE, such as train.epochs=20, but got {text}."
        )
    switches = {"true": True, "false": False}
    return command.replace("_", "-"), option.replace("_", "-"), switches.get(value, value)


def words_of(command: str, options: Options) -> list[str]:
    """Returns a command with its options as words of a command line."""
    words = [command]
    for key, value in options.items():
        if key == ARGUMENTS.get(command):
            words.append(str(value))
        elif value is True:
            words.append(f"--{key}")
        elif value is False:
            if key in ON_BY_DEFAULT:
                words.append(f"--no-{key}")
        else:
            values = value if isinstance(value, list) else [value]
            words += [f"--{key}={each}" for each in values]
    return words


def _is_name(base: str) -> bool:
    """Whether a network is one of the package odt-models, and no file."""
    return base in BASES and not os.path.exists(base)


def _relative(path: str, folder: str) -> str:
    """Returns a path relative to a folder, or the absolute path if it is on another drive."""
    try:
        return os.path.relpath(path, folder)
    except ValueError:
        return os.path.abspath(path)
