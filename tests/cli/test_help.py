"""--help lists the common options of a command with many, and --help-all lists all."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from odt.cli.main import main
from odt.cli.options.sections import Command
from odt.kernels.registry import OPTIMIZERS

CONTEXT = click.Context(main)


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in main.list_commands(CONTEXT):
        command = main.get_command(CONTEXT, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {word}", c) for word, c in command.commands.items())
        else:
            yield name, command


COMMANDS = dict(commands())
LONG = [
    name for name, c in COMMANDS.items() if "--help-all" in {o for p in c.params for o in p.opts}
]


def shown(name: str, option: str) -> str:
    result = CliRunner().invoke(main, [*name.split(), option], prog_name="odt")
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def options_in(text: str) -> set[str]:
    """The long names at the beginning of the entries of a help text."""
    return set(re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", text, re.MULTILINE))


def options_of(name: str) -> set[str]:
    """The first long name of every option of a command."""
    options = [p for p in COMMANDS[name].params if isinstance(p, click.Option) and not p.hidden]
    return {next(word for word in o.opts if word.startswith("--")) for o in options} | {"--help"}


def test_the_commands_with_many_options_have_a_short_help() -> None:
    many = {
        "artifacts",
        "check",
        "compile",
        "eval",
        "fed init",
        "fed simulate",
        "gen-datafile",
        "plan",
        "predict",
        "train",
    }
    assert set(LONG) == many
    for name in LONG:
        assert isinstance(COMMANDS[name], Command)


@pytest.mark.parametrize("name", LONG)
def test_the_short_help_ends_with_the_way_to_all_options(name: str) -> None:
    short, whole = shown(name, "--help"), shown(name, "--help-all")
    common, listed = options_in(short), options_in(whole)
    assert 5 <= len(common) <= 25
    assert common < listed
    more = len(options_of(name)) - len(common)
    assert short.splitlines()[-1] == f"odt {name} --help-all shows {more} more options."
    assert "more options." not in whole


@pytest.mark.parametrize("name", COMMANDS)
def test_all_options_are_listed(name: str) -> None:
    text = shown(name, "--help-all" if name in LONG else "--help")
    assert options_of(name) <= options_in(text)


def test_the_help_of_train_has_what_most_people_need() -> None:
    text = shown("train", "--help")
    assert len(text.splitlines()) < 90
    for option in ("--load-input", "--epochs", "--loss", "--patience", "--export-tflite"):
        assert option in options_in(text)
    assert not {"--sparse", "--beta-1", "--qas"} & options_in(text)
    assert "Samsung ONE" not in text
    assert "Samsung ONE" in shown("train", "--help-all")


def test_the_help_of_compile_names_the_optimizers_without_compiled_kernels() -> None:
    refused = [name for name, rule in OPTIMIZERS.items() if rule.compiled is None]
    text = " ".join(shown("compile", "--help").split())
    assert f"Optimizer, but not {' or '.join(refused)}, " in text
    assert "Learning rate. Must be given" in text


def test_the_shell_completes_options_that_the_short_help_leaves_out() -> None:
    words = {"_ODT_COMPLETE": "bash_complete", "COMP_WORDS": "odt train --spar", "COMP_CWORD": "2"}
    done = subprocess.run(
        [str(Path(sys.executable).parent / "odt")],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "plain,--sparse\n"
