"""Every command in README.md, docs/ and the other pages runs, in order, in a folder of its own.

Blocks marked `sh` are run whole; of blocks marked `console`, the lines after `$ `. A comment right
before a block changes what is run, and must say why:

    <!-- first, because REASON:        commands to run before the block
    <!-- instead, because REASON:      commands to run in its place; the same, but smaller
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from support.paths import ROOT

from odt.cli.main import main

TOP = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:<!-- (?P<how>first|instead), because (?P<why>[^\n]{10,}):\n(?P<other>.*?)-->\n)?"
    r"^```(?P<kind>sh|console)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
SECONDS = 120  # one block; far more than any takes


@dataclass(frozen=True)
class Block:
    """Commands of a page, as they are run."""

    line: int
    script: str


def blocks_of(text: str) -> list[Block]:
    found = []
    for match in BLOCK.finditer(text):
        script = match["text"]
        if match["kind"] == "console":
            lines = [line for line in script.splitlines() if line.startswith("$ ")]
            script = "".join(f"{line[2:]}\n" for line in lines)
        if match["how"] == "first":
            script = match["other"] + script
        elif match["how"] == "instead":
            script = match["other"]
        found.append(Block(text.count("\n", 0, match.start("text")), script))
    return found


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a script where this Python and its odt come first on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        text=True,
        capture_output=True,
        timeout=SECONDS,
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_of_the_page_runs(page: Path, tmp_path: Path) -> None:
    for path in ROOT.iterdir():
        if not path.name.startswith(".") and path.name != "demo-out":
            (tmp_path / path.name).symlink_to(path)
    for block in blocks_of(page.read_text(encoding="utf-8")):
        result = run(block.script, tmp_path)
        where = f"{page.relative_to(ROOT)}, block at line {block.line}"
        assert result.returncode == 0, f"{where}:\n{block.script}\n{result.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_command_hides_from_the_test(page: Path) -> None:
    """A block of commands under another mark, or a comment that is no directive, is not run."""
    text = page.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert text.count("<!-- instead") + text.count("<!-- first") == sum(bool(b[0]) for b in blocks)
    left = BLOCK.sub("", text)
    for body in re.findall(r"^```\w*\n(.*?)^```$", left, re.DOTALL | re.MULTILINE):
        hidden = re.search(r"^(\$ )?(odt|make|pip|python3?) .*", body, re.MULTILINE)
        assert hidden is None, f"mark the block sh or console, so that it runs: {hidden[0]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_command_is_in_the_documentation() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in main.list_commands(click.Context(main)):
        assert f"odt {name}" in text, f"odt {name} is nowhere in README.md or docs/"


def test_blocks_are_read_as_documented() -> None:
    page = (
        "```sh\na\nb\n```\n"
        "```console\n$ c\noutput\n$ d\n```\n"
        "<!-- instead, because it is long:\ne\n-->\n```sh\nf\n```\n"
        "<!-- first, because it is bare:\ng\n-->\n```sh\nh\n```\n"
        "```\npicture\n```\n"
    )
    assert [b.script for b in blocks_of(page)] == ["a\nb\n", "c\nd\n", "e\n", "g\nh\n"]


def test_a_failing_command_fails_its_block(tmp_path: Path) -> None:
    assert run("false\ntrue\n", tmp_path).returncode == 1
