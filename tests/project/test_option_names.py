"""Messages name options as Python does; the command line has a spelling for each of them."""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path

import click
import pytest
from support.paths import ROOT

import odt
import odt.federated.privacy
from odt.cli.commands.gen_datafile import random
from odt.cli.main import main
from odt.cli.output.spelling import OPTIONS, TEXTS, spell
from odt.compat import ort

FOLDERS = ("core", "kernels", "src/odt")
PATHS = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
REFERENCE = re.compile(r"`([a-z_0-9]+=[^`]*)`")
# Arguments of another name in Python, as outputs of odt.Teacher, or of none.
COMMANDS_ONLY = {"find_rate", "load_input", "mem_poll", "model", "out_dir", "png", "run_dir"}
COMMANDS_ONLY |= {"source", "svg", "teacher_outputs"}
PYTHON_ONLY = {
    "decay_steps",
    "hyper_parameters",
    "initial_learning_rate",
    "min_delta",
    "mode",
}  # no options of a command
ONERT = ROOT / "src/odt/experimental"  # its arguments are onert's
PUBLIC = [odt, odt.federated, odt.federated.privacy]
PUBLIC += [ort, ort.artifacts, ort.onnxblock.loss, ort.onnxblock.optim]


def texts(path: Path) -> Iterator[str]:
    """Strings of a module that are no docstrings; in an f-string a star stands for each value."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "*" for part in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in alone:
            yield str(node.value)


def fields(path: Path) -> Iterator[str]:
    """Options in a module's messages, `name=value`, and first arguments of OptionError."""
    for text in texts(path):
        yield from REFERENCE.findall(text)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "OptionError":
            first = node.args[0]
            if isinstance(first, ast.Constant):
                yield from (f"{name}=" for name in str(first.value).split(", "))


def options(command: click.Command) -> set[str]:
    """Options of a command and of those below it."""
    found = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found |= options(below)
    return found


def arguments() -> set[str]:
    """Arguments of the public functions, classes and methods."""
    found: set[str] = set()
    for public in (getattr(module, name) for module in PUBLIC for name in dir(module)):
        functions = [public]
        if inspect.isclass(public):
            if is_dataclass(public):
                found |= inspect.signature(public).parameters.keys()
            functions = [f for _, f in inspect.getmembers(public, inspect.isfunction)]
        for function in filter(inspect.isfunction, functions):
            found |= inspect.signature(function).parameters.keys()
    return found


KNOWN = options(main) | options(random)
ARGUMENTS = arguments()


@pytest.mark.parametrize(
    "path",
    [path for path in PATHS if ONERT not in path.parents],
    ids=lambda p: p.relative_to(ROOT).as_posix(),
)
def test_what_messages_name_is_an_argument_and_an_option(path: Path) -> None:
    for text in fields(path):
        field = text.partition("=")[0]
        if field.isupper():  # an environment variable
            continue
        if "src/odt/datasets" not in path.as_posix() and field not in COMMANDS_ONLY:
            assert field in ARGUMENTS, field
        if "src/odt" not in path.as_posix() and field not in PYTHON_ONLY:
            assert spell(f"`{text}`").split()[0] in KNOWN, field


def test_the_table_of_spellings_has_arguments_and_options() -> None:
    for argument, option in OPTIONS.items():
        assert argument in ARGUMENTS, argument
        assert f"--{option}" in KNOWN, option
        assert option != argument.replace("_", "-"), option
    for argument, text in TEXTS.items():
        name, equals, _ = argument.partition("=")
        assert not equals or name in ARGUMENTS, argument
        assert text.split()[0] in KNOWN | {"odt"}, text
