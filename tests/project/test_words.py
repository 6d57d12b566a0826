"""Retired words are in no name, help text or page; retired_words.toml has what to write instead."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.paths import ROOT

from odt.cli.main import main

RETIRED: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("retired_words.toml").read_text(encoding="utf-8")
)
FOLDERS = ("cli", "core", "kernels", "src")
MODULES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
C_FILES = sorted((ROOT / "kernels/native/src").glob("*.[ch]"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def names_of(tree: ast.Module) -> set[str]:
    """Classes, functions, parameters, variables and attributes that a module makes."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return found


def instead(found: set[str], section: str) -> str:
    return ", ".join(f"{word}: write {RETIRED[section][word]}" for word in sorted(found))


def helps(command: click.Command, path: str, parent: click.Context | None) -> Iterator[str]:
    """Help texts of a command and of those below it."""
    with click.Context(command, parent=parent, info_name=path) as ctx:
        yield command.get_help(ctx)
        if isinstance(command, click.Group):
            for name in command.list_commands(ctx):
                below = command.get_command(ctx, name)
                assert below is not None
                yield from helps(below, name, ctx)


def refuse_phrases(text: str, where: str) -> None:
    text = " ".join(text.split())
    for pattern, better in RETIRED["prose"].items():
        match = re.search(pattern, text, re.IGNORECASE)
        assert match is None, f"{where}: “{match[0]}”: write {better}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_names_are_the_fields(path: Path) -> None:
    names = {name.strip("_") for name in names_of(ast.parse(path.read_text(encoding="utf-8")))}
    found = names & RETIRED["names"].keys()
    assert not found, f"{path.relative_to(ROOT)}: {instead(found, 'names')}"


def test_file_names_are_the_fields() -> None:
    for path in [*MODULES, *C_FILES]:
        found = {path.stem} & RETIRED["files"].keys()
        assert not found, f"{path.relative_to(ROOT)}: {instead(found, 'files')}"


@pytest.mark.parametrize("path", C_FILES, ids=lambda p: p.name)
def test_c_names_are_the_fields(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    found = set(re.findall(r"[A-Za-z_]\w*", code)) & RETIRED["c"].keys()
    assert not found, f"{path.name}: {instead(found, 'c')}"


def test_help_has_no_retired_phrase() -> None:
    for text in helps(main, "odt", None):
        refuse_phrases(text, text.partition("\n")[0])


def test_help_of_an_option_names_it_first() -> None:
    """No sentence without a noun: “Of the inputs.”, “What becomes of …”, “Likewise.”."""
    with click.Context(main) as ctx:
        for name in main.list_commands(ctx):
            command = main.get_command(ctx, name)
            assert command is not None
            for parameter in command.params:
                text = getattr(parameter, "help", None) or ""
                assert not re.match(r"(Of|What|How|Likewise|The same|To|At|In)\b", text), (
                    f"odt {name} {parameter.opts[0]}: {text}"
                )


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages_have_no_retired_phrase(page: Path) -> None:
    refuse_phrases(page.read_text(encoding="utf-8"), page.name)


@pytest.mark.parametrize("section", RETIRED)
def test_every_retired_word_has_another(section: str) -> None:
    for word, better in RETIRED[section].items():
        assert better, word
        assert better != word
