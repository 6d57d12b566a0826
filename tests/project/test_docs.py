"""Every command in README.md, docs/ and the other pages runs, in order, in a folder of its own.

Blocks marked `sh` are run whole; of blocks marked `console`, the commands after `$ `. What a block
needs to run in the tests is in doc_blocks.toml, by page, heading and number of the block.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from support.limits import FOREVER
from support.paths import ROOT

from odt.cli.main import main

TOP = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$|^#+ (?P<heading>[^\n]+)$", re.DOTALL | re.MULTILINE
)
CHANGES: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("doc_blocks.toml").read_text(encoding="utf-8")
)["block"]
# A figure that a command prints: "accuracy: [0] 0.8430", "mean absolute error 0.0123".
FIGURE = re.compile(
    r"(accuracy|error|auc|f1|recall|precision|iou)\S* (?:\[0\] )?(\d+\.\d+)", re.IGNORECASE
)
TOLERANCE = 0.026  # two of 80 samples
RELATIVE_TOLERANCE = 0.05  # of errors
TERMS = ("resume", "early stopping", "transfer learning", "fine-tuning", "multi-label")
CPP_COMPILERS = [name for name in ("g++", "clang++") if shutil.which(name)]
MODEL = bytes(range(256)) + b"end"
READS_MODEL = """
#include <cstdint>
#include <cstdio>
#include "model.h"
int main() {
  if (reinterpret_cast<std::uintptr_t>(model) % 16) return 1;
  return std::fwrite(model, 1, model_size, stdout) != model_size;
}
"""


@dataclass(frozen=True)
class Block:
    """Commands of a page, as they are run.

    Attributes:
        heading: the heading it stands under.
        number: of the block under this heading, from 1.
        printed: what the commands print, according to the page.
    """

    line: int
    heading: str
    number: int
    script: str
    printed: str


def blocks_of(text: str) -> list[Block]:
    found: list[Block] = []
    heading, counts = "", Counter[str]()
    for match in FENCE.finditer(text):
        if match["heading"]:
            heading = match["heading"]
        if match["kind"] not in ("sh", "console"):
            continue
        script, printed = match["text"], ""
        if match["kind"] == "console":
            lines = re.findall(r"^\$ ((?:.*\\\n)*.*\n)", script, re.MULTILINE)
            script = "".join(lines)
            printed = re.sub(r"^\$ (?:.*\\\n)*.*\n", "", match["text"], flags=re.MULTILINE)
        counts[heading] += 1
        line = text.count("\n", 0, match.start("text"))
        found.append(Block(line, heading, counts[heading], script, printed))
    return found


def script_of(page: str, block: Block, changes: list[dict[str, Any]] = CHANGES) -> str:
    """The commands of a block, with what doc_blocks.toml says of it."""
    for change in changes:
        place = change["page"], change["heading"], change.get("block", 1)
        if place == (page, block.heading, block.number):
            return f"{change.get('first', '')}{change.get('instead', block.script)}"
    return block.script


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a script where this Python and its odt come first on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        text=True,
        capture_output=True,
        timeout=FOREVER,
        check=False,
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_of_the_page_runs(page: Path, tmp_path: Path) -> None:
    for path in ROOT.iterdir():
        if not path.name.startswith(".") and path.name != "demo-out":
            (tmp_path / path.name).symlink_to(path)
    name = page.relative_to(ROOT).as_posix()
    for block in blocks_of(page.read_text(encoding="utf-8")):
        script = script_of(name, block)
        result = run(script, tmp_path)
        where = f"{name}, block at line {block.line}"
        assert result.returncode == 0, f"{where}:\n{script}\n{result.stderr}"
        stated, measured = FIGURE.findall(block.printed), FIGURE.findall(result.stdout)
        for metric, figure in stated:
            # Instruction sets round differently, so training ends a little differently.
            allowed = TOLERANCE if float(figure) <= 1 else RELATIVE_TOLERANCE * float(figure)
            near = [
                m for n, m in measured if n == metric and abs(float(m) - float(figure)) <= allowed
            ]
            assert near, f"{where} states {metric} {figure}, but got {measured}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_command_hides_from_the_test(page: Path) -> None:
    """A block of commands under another mark is not run."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        if match["heading"] or match["kind"] in ("sh", "console"):
            continue
        hidden = re.search(r"^(\$ )?(odt|make|pip|python3?) .*", match["text"], re.MULTILINE)
        assert hidden is None, f"mark the block sh or console, so that it runs: {hidden[0]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_hold_no_comments(page: Path) -> None:
    comments = re.findall(r"<!-- (?!Written by tools/).*", page.read_text(encoding="utf-8"))
    assert not comments, "what a block needs to run is in doc_blocks.toml"


def test_every_entry_of_doc_blocks_has_its_block_and_a_reason() -> None:
    for change in CHANGES:
        blocks = blocks_of((ROOT / change["page"]).read_text(encoding="utf-8"))
        places = {(b.heading, b.number) for b in blocks}
        assert (change["heading"], change.get("block", 1)) in places, change
        assert len(change["why"]) >= 10
        assert ("first" in change) != ("instead" in change)


@pytest.mark.parametrize("term", TERMS)
def test_readme_and_docs_have_the_terms_that_people_search_for(term: str) -> None:
    readme, *docs = (page.read_text(encoding="utf-8").lower() for page in PAGES)
    assert term in readme
    assert any(term in text for text in docs)


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in PAGES[len(TOP) :]:
        name = page.relative_to(ROOT / "docs").as_posix()
        assert name == "index.md" or f"({name}" in index, name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text("utf-8")):
        linked = page.parent / target if target else page
        assert linked.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text("utf-8"), re.MULTILINE)
            names = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
            assert anchor in names, f"{page.name} links to {target}#{anchor}"


def test_every_command_is_in_the_documentation() -> None:
    python = ROOT / "docs" / "python.md"
    functions = python.read_text(encoding="utf-8")
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES if page != python)
    for name in main.list_commands(click.Context(main)):
        assert f"odt {name}" in text, f"odt {name} is nowhere in README.md or docs/"
        assert f"odt {name}" in functions, f"docs/python.md: name the function of odt {name}"


def test_blocks_are_read_as_documented() -> None:
    page = (
        "# A\n```sh\na\n# b\n```\n"
        "```console\n$ c \\\n  more\noutput\n$ d\n```\n"
        "## B\n```sh\ne\n```\n"
        "```\npicture\n```\n"
    )
    changes: list[dict[str, Any]] = [
        {"page": "p.md", "heading": "A", "block": 2, "first": "g\n"},
        {"page": "p.md", "heading": "B", "instead": "f\n"},
    ]
    scripts = [script_of("p.md", block, changes) for block in blocks_of(page)]
    assert scripts == ["a\n# b\n", "g\nc \\\n  more\nd\n", "f\n"]


def test_a_failing_command_fails_its_block(tmp_path: Path) -> None:
    assert run("false\ntrue\n", tmp_path).returncode == 1


@pytest.mark.skipif(not CPP_COMPILERS, reason="there is no C++ compiler")
def test_other_files_read_the_array_for_microcontrollers(tmp_path: Path) -> None:
    page = ROOT / "docs" / "microcontrollers.md"
    (script,) = (b.script for b in blocks_of(page.read_text("utf-8")) if "model.cc" in b.script)
    (tmp_path / "firmware.tflite").write_bytes(MODEL)
    result = run(script, tmp_path)
    assert result.returncode == 0, result.stderr
    (tmp_path / "main.cc").write_text(READS_MODEL)
    for compiler in CPP_COMPILERS:
        program = tmp_path / compiler
        command = [
            compiler,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-o",
            str(program),
            "main.cc",
            "model.cc",
        ]
        subprocess.run(command, cwd=tmp_path, check=True)
        assert subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout == MODEL
