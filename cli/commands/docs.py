"""Show the documentation of this version: topics, and the page on a topic."""

import difflib
import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath

import click

from odt.cli.options.completion import complete_words
from odt.cli.pages import read_pages, text_of, topics
from odt.errors import OdtError


@click.command()
@click.argument("topic", required=False, shell_complete=complete_words(read_pages))
@click.option("--search", metavar="WORDS", help="List the topics whose pages hold these words.")
def command(topic: str | None, search: str | None) -> None:
    """Show the page on TOPIC, such as photos or memory; without TOPIC, list the topics.

    The pages are those of the installed version. On a terminal, they are shown in the pager.
    """
    pages = read_pages()
    if not pages:
        raise OdtError(
            "The pages must be installed with odt, but there are none. Install it again."
        )
    if search is None:
        click.echo_via_pager(_topics(pages) if topic is None else _page(topic, pages))
        return
    if topic is not None:
        raise OdtError("--search: must be given without TOPIC, but got both.")
    lines = _hits(pages, search)
    if not lines:
        raise OdtError(f"--search: no page holds {search}. odt docs lists the topics.")
    click.echo("\n".join(lines))


def _topics(pages: Mapping[str, str]) -> str:
    """Returns the topics by section, each with what it is about."""
    formatter = click.HelpFormatter(width=100)
    formatter.write_text("odt docs TOPIC shows a page. Start with: odt docs one-page")
    for title, rows in topics(pages):
        with formatter.section(title):
            formatter.write_dl(rows)
    return formatter.getvalue()


def _page(topic: str, pages: Mapping[str, str]) -> str:
    """Returns the page on a topic.

    Raises:
        OdtError: if there is none.
    """
    name = PurePosixPath(topic.lower().replace("_", "-")).name.removesuffix(".md")
    if name in pages:
        return text_of(pages[name], pages)
    if _hits(pages, topic):
        hint = f"odt docs --search {shlex.quote(topic)} lists the pages that hold this word."
    elif close := difflib.get_close_matches(name, pages, n=3):
        hint = f"Did you mean {' or '.join(close)}?"
    else:
        hint = "odt docs lists the topics."
    raise OdtError(f"{topic}: must be a topic of the documentation, but there is none. {hint}")


def _hits(pages: Mapping[str, str], words: str) -> list[str]:
    """Returns the topics of the pages that hold some words, and the first line with them."""
    hits = []
    for name, page in pages.items():
        lines = map(str.strip, page.splitlines())
        first = next((line for line in lines if words.lower() in line.lower()), None)
        if first is not None:
            hits.append(f"{name}: {first}")
    return hits
