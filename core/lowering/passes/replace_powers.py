"""Replaces POW with a constant exponent by products, SQRT or RSQRT.

NumPy's power of negative numbers takes 70 ns a value. Files have such powers for GELU (x³), for
normalizations (x²) and for roots.
"""

from dataclasses import replace

from odt.core.lowering.graph_builder import GraphBuilder
from odt.core.model.graph import Graph, LoweredGraph, Node

OPERATORS = {2.0: "SQUARE", 0.5: "SQRT", -0.5: "RSQRT"}
CUBE = 3.0


def replace_powers(graph: LoweredGraph, file: Graph) -> LoweredGraph:
    """Returns a graph without powers of real numbers by scalars in OPERATORS, or by 3.

    It is `graph` itself if there are none.
    """
    exponents = [_exponent(graph, node) for node in graph.nodes]
    if not any(exponent == CUBE or exponent in OPERATORS for exponent in exponents):
        return graph
    builder = GraphBuilder(graph)
    for node, exponent in zip(graph.nodes, exponents, strict=True):
        if exponent in OPERATORS:
            builder.nodes.append(_unary(node, OPERATORS[exponent], node.outputs[0]))
        elif exponent == CUBE:
            x, y = graph.tensors[node.inputs[0]], node.outputs[0]
            square = builder.tensor(f"{graph.tensors[y].name}/square", x.spec.shape, x.spec)
            builder.nodes.append(_unary(node, "SQUARE", square))
            builder.nodes.append(replace(node, op="MUL", inputs=(square, node.inputs[0])))
        else:
            builder.nodes.append(node)
    return builder.graph()


def _exponent(graph: LoweredGraph, node: Node) -> float | None:
    """Returns the exponent if it is a scalar and the base is real, with the result's shape."""
    if node.op != "POW":
        return None
    base, exponent, y = (graph.tensors[i] for i in (*node.inputs, *node.outputs))
    if exponent.scalar is None or base.spec.dtype.kind != "f" or base.spec != y.spec:
        return None
    return float(exponent.scalar)


def _unary(node: Node, op: str, output: int) -> Node:
    """Returns an operator on the base of a power."""
    return replace(node, op=op, inputs=node.inputs[:1], outputs=(output,))
