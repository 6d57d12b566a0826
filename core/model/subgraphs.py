"""Operators that run other subgraphs of the file, and the options that number these."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from odt.core.model.graph import Graph
from odt.errors import UnsupportedError

# Operator → option with a subgraph that runs once.
CALLS = {"CALL": "subgraph", "STABLEHLO_COMPOSITE": "decomposition_subgraph_index"}
# Operator → options with the subgraphs of condition and body.
LOOPS = {"WHILE": ("cond_subgraph_index", "body_subgraph_index")}
# Operator → options with the subgraphs for true and false.
BRANCHES = {"IF": ("then_subgraph_index", "else_subgraph_index")}
CONTROL_FLOW = frozenset((*CALLS, *LOOPS, *BRANCHES))


def subgraphs_of(op: str, options: Mapping[str, Any]) -> Iterator[int]:
    """Yields the numbers of the subgraphs that an operator runs."""
    names = LOOPS.get(op) or BRANCHES.get(op) or ((CALLS[op],) if op in CALLS else ())
    for name in names:
        yield int(options[name])


def refuse_subgraphs(graph: Graph, positions: Collection[int], what: str, remedy: str) -> None:
    """Checks that no operator at these positions runs a subgraph.

    Raises:
        UnsupportedError: if one does.
    """
    for node in graph.nodes:
        if node.origin in positions and (node.op in CONTROL_FLOW or node.op == "CALL_ONCE"):
            raise UnsupportedError(
                f"{graph.name}: node {node.origin} ({node.op}): {what} must not contain control "
                f"flow. {remedy}"
            )
