"""The pages for developers say what is there: paths exist, printed structures are the code's."""

import re

import print_structures
import pytest
from support.paths import ROOT

from odt.kernels.native.library import instruction_sets

PAGES = ["CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md"]
FOLDERS = "cli|core|docs|examples|kernels|schemas|src|tests|tools|typings"
NAMED = re.compile(rf"`((?:{FOLDERS})(?:/[\w.\-]+)*/?)`")


@pytest.mark.parametrize("page", PAGES)
def test_paths_that_pages_name_exist(page: str) -> None:
    named = set(NAMED.findall((ROOT / page).read_text(encoding="utf-8")))
    paths = {name.partition("NAME")[0] for name in named}  # NAME is the reader's
    missing = sorted(path for path in paths if not (ROOT / path).exists())
    assert not missing, f"{page} names {', '.join(missing)}"


def test_every_folder_has_a_line_in_the_architecture_page() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    folders = {p.parent for top in ("core", "kernels") for p in (ROOT / top).glob("*/__init__.py")}
    missing = sorted(
        f"{p.relative_to(ROOT)}" for p in folders if f"`{p.relative_to(ROOT)}`" not in text
    )
    assert not missing, f"docs/architecture.md has no line on {', '.join(missing)}"


def test_pages_hold_no_marks_of_a_merge() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    marked = [p.name for p in pages if re.search(r"^(<{7}|>{7}) ", p.read_text("utf-8"), re.M)]
    assert not marked


@pytest.mark.skipif(not instruction_sets(), reason="no kernels were compiled")
def test_the_printed_structures_are_those_of_the_code() -> None:
    for path, text in print_structures.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}, run: make pages"


def test_excerpts_of_the_page_on_conv_2d_are_those_of_the_sources() -> None:
    """Each block of code follows the path of its file; every path on the page exists."""
    page = (ROOT / "docs/conv_2d.md").read_text(encoding="utf-8")
    excerpts = re.findall(r"From\s`([^`]+)`:\n\n```(?:python|c|text)\n(.*?)```", page, re.DOTALL)
    assert len(excerpts) == 5
    for path, excerpt in excerpts:
        assert excerpt in (ROOT / path).read_text(encoding="utf-8"), path
    for path in re.findall(r"`((?:core|kernels|tests|tools)/[\w/.]+)`", page):
        assert (ROOT / path).exists(), path
    sources = [p for p in (ROOT / "kernels").rglob("*") if p.suffix in (".c", ".h", ".py")]
    for name in re.findall(r"`(\w+\.[ch])`", page):
        assert any(p.name == name for p in sources), name


def test_the_table_of_tiles_is_that_of_the_sources() -> None:
    """LANES, MR and NR of the x86-64 instruction sets, and of 64-bit ARM."""
    source = (ROOT / "kernels/native/src/each_isa.h").read_text(encoding="utf-8")
    page = (ROOT / "docs/conv_2d.md").read_text(encoding="utf-8")
    for row, after in (("avx2", "name##_avx2\n"), ("avx512", "name##_avx512\n")):
        numbers = source.split(after, 1)[1]
        lanes, high, wide = (
            re.search(rf"#define {name} (\d+)", numbers)[1]  # type: ignore[index]  # it is there
            for name in ("LANES", "MR", "NR")
        )
        assert f"| {row} | {lanes} | {high} × {wide} |" in page


def test_the_docstring_of_each_folder_names_what_it_is_independent_of() -> None:
    rows = {"ops", "custom", "integer", "losses", "optimizers", "metrics"}  # lists
    for path in sorted((*ROOT.glob("core/**/__init__.py"), *ROOT.glob("kernels/**/__init__.py"))):
        text = path.read_text(encoding="utf-8")
        known = path.parent.name in rows or "Independent of" in text
        assert text.startswith('"""'), f"{path.parent} has no docstring"
        assert known, f"{path.parent}: the docstring must name what the folder must not import"
