"""The frame of the command line: commands found by file, errors and signals turned into exits."""

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support.paths import MLP_SM, ROOT

from odt.cli.main import Group, main, summary
from odt.errors import DataError

COMMANDS = main.list_commands(click.Context(main))


def group_of(command: click.Command) -> click.Group:
    """A group like odt's whose only command is `command`."""

    class One(Group):
        def list_commands(self, ctx: click.Context) -> list[str]:
            return ["one"]

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            return command

        def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            """There is nothing to say of it."""

    return One("odt", context_settings=main.context_settings)


def raising(error: BaseException, *options: str) -> click.Group:
    def fail(**values: object) -> None:
        raise error

    params: list[click.Parameter] = [click.Option([name]) for name in options]
    return group_of(click.Command("one", callback=fail, params=params))


@pytest.mark.parametrize("command", [[], ["train"]])
def test_version_shows_the_kernels_in_use(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODT_KERNELS", "numpy")
    result = CliRunner().invoke(main, [*command, "--version"])
    assert result.exit_code == 0
    assert re.fullmatch(r"odt \d+\.\d+\.\d+, NumPy kernels only: .+, \S+\n", result.output)


def test_version_refuses_kernels_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODT_KERNELS", "mmx")
    result = CliRunner().invoke(main, ["--version"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: ODT_KERNELS: must be numpy")


def test_python_dash_m_is_the_command() -> None:
    args = [sys.executable, "-m", "odt", "--version"]
    assert subprocess.check_output(args, text=True).startswith("odt ")


def test_help_imports_neither_numpy_nor_a_command() -> None:
    script = (
        "import sys; sys.argv = ['odt', '--help']\n"
        "from odt.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as e: assert e.code == 0\n"
        "print(sorted(m for m in sys.modules if m.startswith(('odt', 'numpy', 'h5py', 'tqdm'))))"
    )
    last = subprocess.check_output([sys.executable, "-c", script], text=True).splitlines()[-1]
    modules = {"odt", "odt.cli", "odt.cli.commands", "odt.cli.main", "odt.cli.output"}
    modules |= {"odt.cli.output.signals", "odt.collector", "odt.errors"}
    rows = ("odt.core", "odt.core.options", "odt.kernels", "odt.kernels.rows")
    rows_of = ("odt.core.options.", "odt.kernels.rows.", "odt.kernels.registry")
    others = {name for name in ast.literal_eval(last) if not name.startswith(rows_of)}
    assert modules <= others
    assert not others - modules - {*rows}


def test_help_lists_every_command() -> None:
    text = CliRunner().invoke(main, ["--help"]).output
    for name in COMMANDS:
        assert re.search(rf"^  {name}  +\S", text, re.MULTILINE), name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    assert re.fullmatch(r"[A-Z].{10,100}\.", summary(name)), f"{name}: begin the docstring with it"
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 4
    module = importlib.import_module(f"odt.cli.commands.{name.replace('-', '_')}")
    for parameter in module.command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{name} {parameter.opts[0]} has no help"


def test_an_odt_error_is_one_line_and_exit_1() -> None:
    result = CliRunner().invoke(raising(DataError("a.bin: must be so, but got 3.")), ["one"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: a.bin: must be so, but got 3.\n"


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        CliRunner().invoke(raising(ZeroDivisionError()), ["one"], catch_exceptions=False)


def test_ctrl_c_is_exit_130() -> None:
    result = CliRunner().invoke(raising(KeyboardInterrupt()), ["one"])
    assert (result.exit_code, result.stderr) == (130, "Stopped.\n")


def test_usage_errors_are_exit_2() -> None:
    result = CliRunner().invoke(main, ["no-such-command"])
    assert result.exit_code == 2
    assert "No such command 'no-such-command'" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--batch-size", "7"],
        ["--batch_size", "7"],
        ["--batch-size=7"],
        ["--batch_size=7"],
    ],
)
def test_options_are_spelled_with_dash_or_underscore(words: list[str]) -> None:
    seen = []
    option = click.Option(["--batch-size"], type=int)

    def keep(batch_size: int) -> None:
        seen.append(batch_size)

    command = click.Command("one", params=[option], callback=keep)
    result = CliRunner().invoke(group_of(command), ["one", *words])
    assert (result.exit_code, seen) == (0, [7])


def test_values_keep_their_underscores() -> None:
    seen = []
    option = click.Option(["--out"])

    def keep(out: str) -> None:
        seen.append(out)

    command = click.Command("one", params=[option], callback=keep)
    CliRunner().invoke(group_of(command), ["one", "--out", "my_file_1.bin"])
    assert seen == ["my_file_1.bin"]


def test_a_closed_pipe_is_quiet() -> None:
    """As in `odt --help | head -1`: the reader is gone before odt writes."""
    script = "import sys; sys.stdin.read(); from odt.cli.main import main; main(['--help'])"
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.close()
    assert process.stderr.read() == b""
    assert process.wait() == 1


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--batch-size", "--memory-budget"], "Give --memory-budget or a smaller --batch-size."),
        (["--batch-size"], "Give a smaller --batch-size."),
        ([], "Free some and try again."),
    ],
)
def test_a_lack_of_memory_is_one_line_that_names_the_remedy(
    options: list[str], remedy: str
) -> None:
    error = MemoryError("Unable to allocate 8.00 TiB")
    result = CliRunner().invoke(raising(error, *options), ["one"])
    line = f"Error: memory: must be enough, but got: Unable to allocate 8.00 TiB. {remedy}\n"
    assert (result.exit_code, result.stderr) == (1, line)


def test_a_misspelled_command_is_guessed() -> None:
    result = CliRunner().invoke(main, ["trian"])
    assert result.exit_code == 2
    assert "No such command 'trian'. Did you mean train?" in result.stderr


def test_the_shell_completes_commands_and_options() -> None:
    """As the line in the README asks for."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert 'eval "$(_ODT_COMPLETE=bash_source odt)"' in readme
    words = {"_ODT_COMPLETE": "bash_complete", "COMP_WORDS": "odt insp", "COMP_CWORD": "1"}
    done = subprocess.run(
        [str(Path(sys.executable).parent / "odt")],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "plain,inspect\n"


@pytest.mark.parametrize(
    ("former", "words"), [("diff", ["verify", "--diff"]), ("runs", ["report", "--list"])]
)
def test_a_former_name_runs_the_command_that_replaces_it(
    former: str, words: list[str], tmp_path: Path
) -> None:
    model = str(MLP_SM / "model.circle")
    rest = [model, model] if former == "diff" else [str(tmp_path)]
    done = CliRunner().invoke(main, [former, *rest])
    new = CliRunner().invoke(main, [*words, *rest])
    assert (done.exit_code, done.stdout) == (new.exit_code, new.stdout)
    assert done.stderr == f"odt {former} is now: odt {' '.join(words)}\n{new.stderr}"
    assert f"\n  {former} " not in CliRunner().invoke(main, ["--help"]).stdout
