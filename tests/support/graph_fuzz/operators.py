"""The outputs of one node, by the references of tests/op_db."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from op_db import OP_DB

from odt.core.lowering.binding import bind, row_of
from odt.kernels.rows.opdef import Array


@dataclass(frozen=True)
class Node:
    """One use of an operator.

    Attributes:
        inputs: tensors by index; -1 for one that is left out.
        outputs: tensors by index.
        options: the schema's options in snake case, without the fused activation.
        activation: the operator that is fused; "" for none.
    """

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: dict[str, Any]
    activation: str = ""


def compute(node: Node, inputs: Sequence[Array | None]) -> list[Array]:
    """The outputs, of floats in float64 and of integers in int32.

    Args:
        inputs: in the file's order; None for one that is left out.
    """
    row = row_of(node.op)  # says how the operands are called, and nothing of what is computed
    named = {n: a for n, a in bind(row.inputs, inputs).items() if a is not None}
    statics = {n: named.pop(n) for n in row.static if n in named}
    found = OP_DB[node.op].reference({**node.options, **statics}, named)
    made = [np.asarray(found[n]) for n in bind(row.outputs, node.outputs)]
    if node.activation:
        made = [OP_DB[node.activation].reference({}, {"x": y})["y"] for y in made]
    return [y.astype(np.int32) if y.dtype.kind in "iu" else y for y in made]
