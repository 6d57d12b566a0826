"""The tables and lists in docs are generated from the rows."""

from pathlib import Path

import pytest
from list_operators import PAGE, page
from write_row_index import INDEX, QUANTIZED_INDEX, index, quantized_index
from write_tables import pages

TABLES = pages()


def test_the_list_of_operators_is_that_of_the_rows() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make pages"


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_tables_are_those_of_the_rows(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == TABLES[path], "run: make pages"


def test_the_index_of_rows_is_that_of_the_rows() -> None:
    assert INDEX.read_text(encoding="utf-8") == index(), "run: make pages"


def test_the_index_of_quantized_operators_is_that_of_the_rows() -> None:
    assert QUANTIZED_INDEX.read_text(encoding="utf-8") == quantized_index(), "run: make pages"
