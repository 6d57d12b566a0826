"""Retired phrases are in no help text or page; retired_phrases.toml has what to write instead."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
from support.paths import ROOT

from odt.cli.main import main

RETIRED: dict[str, str] = tomllib.loads(
    Path(__file__).with_name("retired_phrases.toml").read_text(encoding="utf-8")
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def contexts(
    command: click.Command, path: str, parent: click.Context | None
) -> Iterator[click.Context]:
    """Contexts of a command and of those below it."""
    with click.Context(command, parent=parent, info_name=path) as ctx:
        yield ctx
        if isinstance(command, click.Group):
            for name in command.list_commands(ctx):
                below = command.get_command(ctx, name)
                assert below is not None
                yield from contexts(below, name, ctx)


def refuse_phrases(text: str, where: str) -> None:
    text = " ".join(text.split())
    for pattern, better in RETIRED.items():
        match = re.search(pattern, text, re.IGNORECASE)
        assert match is None, f"{where}: “{match[0]}”: write {better}"


def test_help_has_no_retired_phrase() -> None:
    for ctx in contexts(main, "odt", None):
        refuse_phrases(ctx.command.get_help(ctx), ctx.command_path)


def test_help_of_an_option_names_it_first() -> None:
    """No sentence without a noun: “Of the inputs.”, “What becomes of …”, “Likewise.”."""
    for ctx in contexts(main, "odt", None):
        for parameter in ctx.command.params:
            text = getattr(parameter, "help", None) or ""
            assert not re.match(r"(Of|What|How|Likewise|The same|To|At|In)\b", text), (
                f"{ctx.command_path} {parameter.opts[0]}: {text}"
            )


def test_pages_have_no_retired_phrase() -> None:
    for page in PAGES:
        refuse_phrases(page.read_text(encoding="utf-8"), page.name)


def test_every_retired_phrase_has_another() -> None:
    assert all(better and better != phrase for phrase, better in RETIRED.items())
