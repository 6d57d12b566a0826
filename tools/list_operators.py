"""Writes docs/operators.md from the operators' rows: python tools/list_operators.py.

A test compares the file with the rows.
"""

import importlib
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from odt.kernels.registry import find_operator, operator_module, operator_names
from odt.kernels.rows.opdef import Kernel, OpDef, never

PAGE = Path(__file__).parents[1] / "docs" / "operators.md"
TOP = """# Operators

The table lists the operators of TFLite and Circle files that odt computes, with their gradients.
[ONNX files](onnx.md#supported-nodes) lists the nodes of ONNX files. To see whether odt can train a
file, run `odt check`. `tools/list_operators.py` generates the table from the rows in `kernels/ops`
and `kernels/custom`.

In the table, y is the output, and the other letters are inputs or options; `xs*` is a list of
inputs. dx is the gradient of the loss with respect to x, and dy the gradient with respect to y.
*The schema* is the schema of TFLite.

- *Gradient by* lists the inputs for which odt computes a gradient, and *no gradient by* lists other
  inputs. If an operator has no gradient at all, it can be part of a model, but no gradient
  passes through it.
- An input that *must be constant* is read once, before training. It is a constant in the file, or
  is computed from shapes.
- `CUSTOM:` precedes the name that a file gives to a custom operator. Its options are exported as
  they are.

Some operators need further explanation:

- A fused activation is one that is an option of another operator, such as the RELU of a CONV_2D. In
  training it becomes a separate operator, except in recurrent operators. Exported files keep it
  fused. The exception is TANH, which an export stores as an operator of its own, because
  [LiteRT](glossary.md), which runs these files, does not apply a fused TANH of ADD, DIV,
  CONV_2D and MAX_POOL_2D.
- The state of recurrent operators (h and c) is zero before each run, both in training and in
  inference. LiteRT, in contrast, keeps the state until the variables are reset.
- The weights of LSTM have two letters. The first is w for a weight, r for a recurrent weight, p for
  a peephole, b for a bias or n for layer normalization. The second is the gate: f forget, g cell,
  o output or i input. wp and bp are weight and bias of the projection.
- SVDF, VAR_HANDLE, READ_VARIABLE and ASSIGN_VARIABLE keep state from one run to the next. odt
  unrolls models with these operators over time steps ([Train a wake
  word](wake-words.md#train-a-wake-word)). An SVDF is computed as FULLY_CONNECTED and
  DEPTHWISE_CONV_2D; a quantized SVDF must have rank 1.
- QUANTIZE, DEQUANTIZE and DENSIFY have no row in the table. They convert values, and gradients pass
  through them.
- WHILE, IF, CALL and STABLEHLO_COMPOSITE have no row either: odt replaces them by the operators of
  their subgraphs ([Control flow](existing-models.md#control-flow)). Some
  [operators of TensorFlow](existing-models.md#operators-of-tensorflow) are replaced in the same
  way by operators of the table.

| operator | definition | gradient by | no gradient by | must be constant | source |
| --- | --- | --- | --- | --- | --- |
"""


def page() -> str:
    """Returns the text of docs/operators.md."""
    rows = [row for row in map(find_operator, operator_names()) if row is not None]
    return TOP + "\n".join(map(_line, rows)) + f"\n\n{len(rows)} operators.\n\n{_compiled(rows)}"


def _compiled(rows: Sequence[OpDef]) -> str:
    """Returns the paragraph on operators and gradients without a compiled form."""
    without = [r.name for r in rows if r.forward.compiled is None and r.forward.view is never]
    partly = []
    for row in rows:
        kernels = ((n, k) for n, k in row.grads.items() if isinstance(k, Kernel))
        names = [n for n, k in kernels if k.compiled is None and k.view is never]
        if names and row.name not in without:
            partly.append(f"{row.name} by {', '.join(names)}")
    text = (
        "[Programs in C](compile.md) contain compiled kernels only. Compiled kernels compute "
        "float32; those of comparisons, casts, selections, sums, products, minima and maxima also "
        "compute integers. These operators and gradients have no compiled kernel:"
    )
    wrap = textwrap.TextWrapper(100, break_long_words=False)
    items = textwrap.TextWrapper(100, subsequent_indent="  ", break_long_words=False)
    operators = items.fill("- operators: " + ", ".join(without))
    gradients = items.fill("- gradients: " + "; ".join(partly))
    return f"{wrap.fill(text)}\n\n{operators}\n{gradients}\n"


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
    match = re.search(r"Source: (.*?)(?:(?<! al)\.\s|\.$|\n\n)", text + "\n\n", re.DOTALL)
    return " ".join(match[1].split()) if match else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
