"""Writes docs/operators.md from the operators' rows: python tools/list_operators.py.

A test compares the file with the rows.
"""

import importlib
import re
from pathlib import Path

from odt.kernels.registry import find_operator, operator_module, operator_names
from odt.kernels.rows.opdef import OpDef

PAGE = Path(__file__).parents[1] / "docs" / "operators.md"
TOP = """# Operators

The table lists all operators that odt supports, in forward and backward passes.
`tools/list_operators.py` generates it from the rows in `kernels/ops` and `kernels/custom`.

- *Gradient by* lists the inputs for which odt computes a gradient. An operator without one can be
  part of a model, but no gradient passes through it.
- An input that *must be constant* is read once, before training: it is a constant in the file, or
  is computed from shapes.
- `CUSTOM:` precedes the code of a custom operator. Its options are exported as they are.
- A fused activation becomes a separate operator in training, except in recurrent operators.
  Exported files keep it fused, except a TANH: LiteRT leaves it out of ADD, DIV, CONV_2D and
  MAX_POOL_2D silently.
- The state of recurrent operators (h and c) is zero before each run, in training and inference.
  LiteRT keeps the state until the variables are reset.
- SVDF, VAR_HANDLE, READ_VARIABLE and ASSIGN_VARIABLE keep state from one run to the next. Models
  with them are unrolled over time steps ([Train a wake word](wake-words.md#train-a-wake-word)).
  An SVDF is computed as FULLY_CONNECTED and DEPTHWISE_CONV_2D; a quantized one must have rank 1.

| operator | definition | gradient by | no gradient by | must be constant | source |
| --- | --- | --- | --- | --- | --- |
"""


def page() -> str:
    """Returns the text of docs/operators.md."""
    rows = []
    for name in operator_names():
        row = find_operator(name)
        assert row is not None
        rows.append(_line(row))
    return TOP + "\n".join(rows) + f"\n\n{len(rows)} operators.\n"


def _line(row: OpDef) -> str:
    module = importlib.import_module(f"odt.kernels.{operator_module(row.name)}")
    text = (module.__doc__ or "").replace("|", r"\|")
    summary = " ".join(text.split("\n\n")[0].split())
    formula = summary.partition(": ")[2] or summary
    columns = (
        row.name,
        formula,
        *(", ".join(names) for names in (row.grads, (*row.stops, *row.zero_state), row.static)),
        source(text) or "the schema's definition",
    )
    return "| " + " | ".join(c or "–" for c in columns) + " |"


def source(text: str) -> str:
    """Returns the source that a docstring names for a formula, or an empty string."""
    match = re.search(r"Source: (.*?)(?:\.\s|\.$|\n\n)", text + "\n\n", re.DOTALL)
    return " ".join(match[1].split()) if match else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
