"""Writes docs/operators.md from the operators' rows: python tools/list_operators.py.

A test compares the file with the rows, so it cannot go stale.
"""

import importlib
import re
from pathlib import Path

from odt.kernels.opdef import OpDef
from odt.kernels.registry import find_operator, operator_names

PAGE = Path(__file__).parents[1] / "docs" / "operators.md"
TOP = """# Operators

Every operator that odt computes, forward and backward; generated from the rows in `kernels/ops` by
`tools/list_operators.py`. A gradient is there for each input that trains or leads to something
that does. An input that must be constant is read once, before training: it may be a constant of
the file or follow from shapes. A fused activation becomes an operator of its own, but within a
recurrent operator it stays. What such an operator remembers (its variables h and c) is zero before
each run, in training and in inference; LiteRT keeps it until the variables are reset.

| operator | what it computes | gradient by | no gradient by | must be constant | source |
| --- | --- | --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    rows = []
    for name in operator_names():
        row = find_operator(name)
        assert row is not None
        rows.append(_line(row))
    return TOP + "\n".join(rows) + f"\n\n{len(rows)} operators.\n"


def _line(row: OpDef) -> str:
    module = importlib.import_module(f"odt.kernels.ops.{row.name.lower()}")
    text = (module.__doc__ or "").replace("|", r"\|")
    said = " ".join(text.split("\n\n")[0].split())
    formula = said.partition(": ")[2] or said
    columns = (
        row.name,
        formula,
        *(", ".join(names) for names in (row.grads, (*row.stops, *row.zero_state), row.static)),
        source(text) or "the schema's definition",
    )
    return "| " + " | ".join(c or "–" for c in columns) + " |"


def source(text: str) -> str:
    """What a docstring names as the source of a formula; empty for none."""
    found = re.search(r"Source: (.*?)(?:\.\s|\.$|\n\n)", text + "\n\n", re.DOTALL)
    return " ".join(found[1].split()) if found else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
