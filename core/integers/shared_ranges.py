"""Quantized activations that share a range: those between which values only move."""

from collections.abc import Collection

import numpy as np

from odt.core.model.graph import Graph
from odt.core.model.integer_operators import LSTM, PRESCRIBED
from odt.core.model.model import Model
from odt.core.model.quantization_rules import is_quantized_activation, is_same_quantization
from odt.kernels.rows.quantized_index import QUANTIZED

# Operators whose outputs are values of their inputs, or 0.
KEEPING = frozenset(op for op, row in QUANTIZED.items() if row.values in ("moved", "kept"))
# Operators whose outputs have the quantization of their inputs.
SHARING = frozenset(op for op, row in QUANTIZED.items() if row.values != "computed")


def has_same_range(model: Model, graph: Graph, i: int, y: int) -> bool:
    """Whether two tensors have the same quantization."""
    a, b = (model.quantization.get(k) for k in (i, y))
    same_type = graph.tensors[i].spec.dtype == graph.tensors[y].spec.dtype
    return a is not None and same_type and is_same_quantization(a, b)


def shared_ranges(model: Model, graph: Graph, exact: Collection[int]) -> dict[int, tuple[int, ...]]:
    """Returns activation → the activations that share its range, in groups.

    The operators between them give their outputs the quantization of their inputs. Activations
    whose range must stay are left out.

    Args:
        model: the quantized file.
        graph: its graph.
        exact: activations that are not rounded.
    """
    groups: dict[int, list[int]] = {}
    fixed = {i for i, t in enumerate(graph.tensors) if t.data is not None or t.variable}
    fixed |= {*exact, *graph.inputs}
    for node in graph.nodes:
        bound = [i for i in (*node.inputs, *node.outputs) if i in model.quantization]
        if node.op in (*PRESCRIBED, LSTM):  # an LSTM's state has the range of its output
            fixed.update(node.outputs)
        for i in bound:
            groups.setdefault(i, [i])
        if node.op not in SHARING:
            continue
        for i in bound:
            y = bound[-1]
            if groups[i] is not groups[y] and has_same_range(model, graph, i, y):
                groups[y] += groups[i]
                groups |= dict.fromkeys(groups[i], groups[y])  # all members refer to one list
    stored = np.frombuffer(model.data, np.uint8)

    def can_move(i: int) -> bool:
        # A zero point of 0 may be left out of the file, and so has no place there.
        zero_point = model.quantization[i].zero_point
        return is_quantized_activation(graph, i) and np.may_share_memory(stored, zero_point)

    return {
        i: tuple(group)
        for i, group in groups.items()
        if not fixed.intersection(group) and all(map(can_move, group))
    }
