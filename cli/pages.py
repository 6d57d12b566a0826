"""Pages of the documentation that are installed with odt, as text for a terminal.

setup.py runs this file to write the pages into the wheel. It imports nothing of odt.
"""

import bz2
import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath

PACKAGE = Path(__file__).parents[1]  # of a wheel; in a checkout, its root
ARCHIVE = "pages.json.bz2"
FOLDERS = ("docs", "docs/tutorials")
INDEX = "index"
LEFT_OUT = ("api", "architecture", "benchmarks", "conv_2d")  # pages on odt's development, and lists
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]*)\)")
# A row of a table in the index: what a page is about, and the link to it.
ROW = re.compile(r"\| (.+?) \| \[[^\]]*\]\((.+?)\.md(?:#.*?)?\) \|")


def pages_of(folder: Path) -> dict[str, str]:
    """Returns the pages of a checkout: topic → Markdown.

    Args:
        folder: folder of the checkout.
    """
    paths = [path for name in FOLDERS for path in sorted((folder / name).glob("*.md"))]
    return {p.stem: p.read_text(encoding="utf-8") for p in paths if p.stem not in LEFT_OUT}


def archive_of(folder: Path) -> bytes:
    """Returns the pages of a checkout as the file of a wheel."""
    return bz2.compress(json.dumps(pages_of(folder), ensure_ascii=False).encode())


def read_pages() -> Mapping[str, str]:
    """Returns the pages of this installation: topic → Markdown; none if they are missing."""
    path = PACKAGE / ARCHIVE
    if path.exists():
        pages: dict[str, str] = json.loads(bz2.decompress(path.read_bytes()))
        return pages
    return pages_of(PACKAGE)


def topics(pages: Mapping[str, str]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yields the sections of the index, each with its topics and what they are about."""
    title = ""
    rows: list[tuple[str, str]] = []
    for line in pages[INDEX].splitlines():
        if line.startswith("## "):
            if rows:
                yield title, rows
            title = line.removeprefix("## ")
            rows = []
        elif match := ROW.match(line):
            topic = PurePosixPath(match[2]).name
            if topic in pages:
                rows.append((topic, _plain(match[1])))
    yield title, rows


def text_of(page: str, pages: Mapping[str, str]) -> str:
    """Returns a page as text: links to other pages name the command that prints them."""
    blocks = re.split(r"(^```.*?^```$\n?)", page, flags=re.DOTALL | re.MULTILINE)
    parts = []
    for block in blocks:
        if block.startswith("```"):
            parts.append(_code(block))
        else:
            parts.append(LINK.sub(partial(_link, pages), block))
    return "".join(parts)


def _code(block: str) -> str:
    """Returns a block of code without its fences, indented."""
    return "".join(f"    {line}\n" if line else "\n" for line in block.splitlines()[1:-1])


def _link(pages: Mapping[str, str], match: re.Match[str]) -> str:
    """Returns a link as text."""
    text, target = match.groups()
    if target.startswith("http"):
        return f"{text} ({target})"
    path = PurePosixPath(target.partition("#")[0])
    # The pages of docs/api, which are not installed, have names of other pages.
    is_page = path.suffix == ".md" and path.stem in pages and "api" not in path.parts
    return f"{text} (odt docs {path.stem})" if is_page else text


def _plain(text: str) -> str:
    """Returns a cell of a table without the marks of Markdown."""
    return LINK.sub(r"\1", text).replace("`", "").replace("**", "")
