"""Operators that run other subgraphs of the file, and the options that number these."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from odt.core.model.graph import Graph
from odt.core.model.variables import INITIALIZE
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


def same_values(
    graphs: Mapping[int, Graph], places: Iterable[tuple[int, int]]
) -> set[tuple[int, int]]:
    """Returns tensors, together with the tensors of other subgraphs that have their values.

    Args:
        graphs: the subgraphs, by number.
        places: tensors, each with the number of its subgraph.
    """
    group = set(places)
    pairs = [pair for number in graphs for pair in _passed(graphs, number)]
    size = -1
    while len(group) > size:
        size = len(group)
        for pair in pairs:
            if not group.isdisjoint(pair):
                group.update(pair)
    return group


def _passed(
    graphs: Mapping[int, Graph], number: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yields the tensors that operators of a subgraph pass to others, and their places there."""
    for node in graphs[number].nodes:
        arguments = node.inputs[1:] if node.op in BRANCHES else node.inputs
        names = LOOPS.get(node.op)
        for k in subgraphs_of(node.op, node.options):
            inner = graphs[k]
            # Numbers that differ are refused where the subgraph is inlined.
            pairs = list(zip(arguments, inner.inputs, strict=False))
            if names is None or k != node.options[names[0]]:  # not the condition of a loop
                pairs += zip(node.outputs, inner.outputs, strict=False)
            yield from (((number, i), (k, j)) for i, j in pairs)


def refuse_subgraphs(
    graph: Graph, positions: Collection[int], what: str, remedy: str, *, initial: bool = True
) -> None:
    """Checks that no operator at these positions runs a subgraph.

    Args:
        graph: the graph.
        positions: positions of operators in the file.
        what: the operators in messages, such as "the part".
        remedy: advice for the message.
        initial: whether CALL_ONCE counts, whose subgraph assigns initial values of variables.

    Raises:
        UnsupportedError: if one does.
    """
    for node in graph.nodes:
        refused = node.op in CONTROL_FLOW or (initial and node.op == INITIALIZE)
        if node.origin in positions and refused:
            raise UnsupportedError(
                f"{graph.name}: node {node.origin} ({node.op}): {what} must not contain control "
                f"flow. {remedy}"
            )
