"""Splits fused TANHs into operators of their own, in the tables of a model.

The schema allows a fused TANH everywhere, and odt computes it. LiteRT leaves it out of ADD, DIV,
CONV_2D and MAX_POOL_2D without an error and refuses other operators with it; onert refuses
FULLY_CONNECTED with it. So files that odt writes have a TANH after such an operator. Recurrent
operators compute it themselves.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from odt.core.formats.flatbuffer.operator_options import operator_name
from odt.core.formats.flatbuffer.operator_versions import builtin_code
from odt.core.formats.flatbuffer.schema_tables import code_of
from odt.core.model.graph import Graph

FUSED, TANH = "fused_activation_function", "TANH"
CODE = 4  # of a fused TANH
RECURRENT = frozenset(
    (
        "LSTM",
        "RNN",
        "SVDF",
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        "BIDIRECTIONAL_SEQUENCE_RNN",
    )
)


def has_fused_tanh(graphs: Sequence[Graph]) -> bool:
    """Whether operators on real numbers have a fused TANH that runtimes do not compute."""
    return any(
        node.options.get(FUSED) == CODE
        and node.op not in RECURRENT
        and len(node.outputs) == 1
        and graph.tensors[node.outputs[0]].spec.dtype.kind == "f"
        for graph in graphs
        for node in graph.nodes
    )


def split_fused_tanh(tables: Mapping[str, Any]) -> list[list[int]]:
    """Puts a TANH after each operator on real numbers that has a fused one.

    Tensors keep their numbers; new ones follow them.

    Returns:
        For each subgraph, the old positions of the operators that a TANH follows.
    """
    codes = tables.get("operator_codes") or []
    return [_split(graph, codes) for graph in tables.get("subgraphs") or ()]


def _split(graph: Mapping[str, Any], codes: list[dict[str, Any]]) -> list[int]:
    """Splits the fused TANHs of a subgraph; returns the old positions of their operators."""
    operators, tensors = graph.get("operators"), graph.get("tensors")
    if not operators or not tensors:
        return []
    positions = [k for k, operator in enumerate(operators) if _is_fused(operator, tensors, codes)]
    for k in reversed(positions):
        operator = operators[k]
        operator["builtin_options"][FUSED] = 0
        y = int(operator["outputs"][0])
        name = bytes(tensors[y].get("name") or b"") + b"/before activation"
        tensors.append({**tensors[y], "name": name, "buffer": 0})
        operator["outputs"] = [len(tensors) - 1]
        new = {"opcode_index": _code(codes), "inputs": [len(tensors) - 1], "outputs": [y]}
        operators.insert(k + 1, new)
    return positions


def _is_fused(
    operator: Mapping[str, Any], tensors: Sequence[Any], codes: Sequence[Mapping[str, Any]]
) -> bool:
    """Whether an operator on real numbers has a fused TANH that runtimes do not compute."""
    options = operator.get("builtin_options") or {}
    if options.get(FUSED) != CODE:
        return False
    op = operator_name(builtin_code(codes[operator.get("opcode_index") or 0]))
    outputs = operator.get("outputs")
    if op in RECURRENT or outputs is None or len(outputs) != 1:
        return False
    return not tensors[int(outputs[0])].get("type")  # FLOAT32 is 0


def _code(codes: list[dict[str, Any]]) -> int:
    """Returns the index of TANH in the operator codes; adds it if it is missing."""
    number = code_of("BuiltinOperator", TANH)
    for k, code in enumerate(codes):
        if builtin_code(code) == number:
            return k
    codes.append({"builtin_code": number, "deprecated_builtin_code": number})
    return len(codes) - 1
