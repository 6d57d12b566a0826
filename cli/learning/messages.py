"""Messages of the commands that `odt learn` runs, with options that `odt learn` has."""

import re
import shlex
from collections.abc import Collection
from functools import partial

from odt.cli.learning.recipe import DATA
from odt.cli.output.spelling import spell

# An option with its value, if it has one: --label-column 3, --missing=median.
OPTION = re.compile(r"--([a-z][a-z0-9-]*)(?:[ =]((?:\"[^\"]*\"|[^\s.,;:]+)))?(?=[\s.,;:]|$)")
# An argument of a function with its value, in backticks: `leave_out="id"`.
ARGUMENT = re.compile(r"`(\w+)=\"([^\"`]*)\"`")
UNLABELLED = ", or give `unlabelled=True`"  # advice for data that are not for training
# Options that have another name in `odt learn`, or need no --set there.
DIRECT = {"seed": "--seed", "epochs": "--epochs", "label-column": "--target"}


def with_learn_options(message: str, command: str, options: Collection[str]) -> str:
    """Returns a message that names options of a command as `odt learn` takes them.

    Args:
        message: the message.
        command: the command.
        options: names of the command's options, without dashes in front.
    """
    message = message.replace(UNLABELLED, "")
    quoted = ARGUMENT.sub(partial(_argument, command, options), message)
    return OPTION.sub(partial(_option, command, options), spell(quoted))


def _argument(command: str, options: Collection[str], match: re.Match[str]) -> str:
    """Returns an argument as an option."""
    name = match[1].replace("_", "-")
    return _set(command, name, match[2]) if name in options else match[0]


def _option(command: str, options: Collection[str], match: re.Match[str]) -> str:
    """Returns an option as `odt learn` takes it; unchanged if it is none of the command."""
    name, value = match.groups()
    if name not in options or name == "set":
        return match[0]
    return _set(command, name, (value or "VALUE").strip('"'))


def _set(command: str, name: str, value: str) -> str:
    """Returns an option and its value as `odt learn` takes them."""
    if (command == DATA and name in DIRECT) or name in ("seed", "epochs"):
        return f"{DIRECT[name]} {value}"
    return f"--set {shlex.quote(f'{command}.{name}={value}')}"
