"""docs/operators.md is generated from the rows of the operators."""

from list_operators import PAGE, page


def test_the_list_of_operators_is_that_of_the_rows() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python tools/list_operators.py"
