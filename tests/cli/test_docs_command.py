"""odt docs: the topics, and the pages of the installed version as text."""

import bz2
import json
import re
from pathlib import Path

import click
import pytest
from support.datafiles import odt
from support.paths import ROOT

from odt.cli import pages
from odt.cli.main import main

CONTEXT = click.Context(main)
LONG = ("train", "plan", "gen-datafile", "fed simulate")
PAGES = pages.read_pages()


def test_every_page_for_users_is_a_topic_of_its_own() -> None:
    names = [
        p.stem for p in (*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/tutorials").glob("*.md"))
    ]
    assert len({*names}) == len(names)
    assert {*names} - {*PAGES} == {"api", "architecture", "benchmarks", "conv_2d"}


def test_the_list_names_every_topic_and_what_it_is_about() -> None:
    result = odt("docs")
    assert result.exit_code == 0
    listed = {*re.findall(r"^  ([\w-]+)  ", result.stdout, re.MULTILINE)}
    assert listed == {*PAGES} - {pages.INDEX}
    assert re.search(r"^  memory +\S", result.stdout, re.MULTILINE)


@pytest.mark.parametrize("topic", ["memory", "docs/memory.md", "Memory"])
def test_a_page_is_text_that_names_topics(topic: str) -> None:
    text = odt("docs", topic).stdout
    assert text.startswith("# Memory and time\n")
    assert "\n    $ odt plan " in text
    assert "```" not in text


def test_a_link_names_the_command_that_shows_its_page() -> None:
    page = "See [new data](../new-data.md#files), [the API](api/models.md), [a site](http://a.b)."
    text = pages.text_of(page, PAGES)
    assert text == "See new data (odt docs new-data), the API, a site (http://a.b)."


@pytest.mark.parametrize("topic", PAGES)
def test_no_page_holds_a_link_of_the_checkout(topic: str) -> None:
    text = pages.text_of(PAGES[topic], PAGES)
    assert not re.search(r"\]\((?!http)[^)]*\)", re.sub(r"^    .*$", "", text, flags=re.MULTILINE))


def test_the_archive_holds_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / pages.ARCHIVE).write_bytes(pages.archive_of(ROOT))
    assert json.loads(bz2.decompress((tmp_path / pages.ARCHIVE).read_bytes())) == PAGES
    before = odt("docs", "photos").stdout
    monkeypatch.setattr(pages, "PACKAGE", tmp_path)
    assert odt("docs", "photos").stdout == before


def test_help_names_topics_that_exist() -> None:
    text = "\n".join(odt(*name.split(), "--help-all").stdout for name in LONG)
    text += "\n".join(odt(name, "--help").stdout for name in main.list_commands(CONTEXT))
    assert not re.search(r"docs/\S+\.md", text)
    named = {*re.findall(r"odt docs ([a-z-]+)", " ".join(text.split()))}
    assert named >= {"augmentation", "reference", "data"}
    assert named <= {*PAGES, "one-page"}


def test_words_are_found_in_all_pages() -> None:
    lines = odt("docs", "--search", "boards with 64 mb").stdout.splitlines()
    assert "devices: ## Boards with 64 MB" in lines


def test_what_is_not_there_is_one_line() -> None:
    cases = {
        ("memry",): "Did you mean memory?",
        ("arena",): "odt docs --search arena lists",
        ("xyzzy",): "odt docs lists the topics",
        ("--search", "xyzzy"): "no page holds xyzzy",
        ("memory", "--search", "x"): "without TOPIC",
    }
    for words, message in cases.items():
        result = odt("docs", *words)
        assert result.exit_code == 1, words
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1
