"""The pages for developers say what is there: paths exist, printed structures are the code's."""

import re
from pathlib import Path

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
    text = Path(print_structures.PAGE).read_text(encoding="utf-8")
    assert print_structures.page(text) == text, "run: make pages"


def test_the_docstring_of_each_folder_names_what_it_is_independent_of() -> None:
    rows = {"ops", "custom", "integer", "losses", "optimizers", "metrics"}  # lists
    for path in sorted((*ROOT.glob("core/**/__init__.py"), *ROOT.glob("kernels/**/__init__.py"))):
        text = path.read_text(encoding="utf-8")
        known = path.parent.name in rows or "Independent of" in text
        assert text.startswith('"""'), f"{path.parent} has no docstring"
        assert known, f"{path.parent}: the docstring must name what the folder must not import"
