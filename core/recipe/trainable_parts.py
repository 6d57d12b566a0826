"""Parts of a model that odt could train alone, if it cannot compute all operators."""

from collections.abc import Collection

from odt.core.lowering.normalize.unread import without_unread
from odt.core.lowering.unsupported import UnsupportedNode
from odt.core.model.graph import ABSENT, Graph, Node
from odt.core.planning.trainable import trainable_tensors
from odt.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TrainablePart:
    """Operators without unsupported ones among them.

    Attributes:
        operators: number of operators.
        after: tensors that the part reads from other operators.
        before: tensors that others read or that are outputs of the model; empty if the part has
            all outputs of the model and no others.
        parameters: number of values that could train.
    """

    operators: int
    after: tuple[int, ...]
    before: tuple[int, ...]
    parameters: int


def trainable_parts(graph: Graph, unsupported: Collection[UnsupportedNode]) -> list[TrainablePart]:
    """Returns the parts that have parameters, from the largest to the smallest.

    With the unsupported nodes in order, a part follows the first k of them and precedes the others:
    it has the nodes on which none of the first k depends, and which depend on none of the others.
    """
    refused = sorted({r.node.origin for r in unsupported})
    sets = zip(_ancestors(graph, refused), _descendants(graph, refused), strict=True)
    parts = [_part(graph, needed | dependent) for needed, dependent in sets]
    candidates = [part for part in dict.fromkeys(parts) if part.parameters]
    return sorted(candidates, key=lambda part: (-part.parameters, -part.operators))


def _ancestors(graph: Graph, refused: list[int]) -> list[set[int]]:
    """Positions of the nodes that the first k refused ones need, these included, from k = 0 on."""
    makers = {i: node.origin for node in graph.nodes for i in node.outputs}
    inputs: dict[int, list[int]] = {}  # of all nodes of an origin
    for node in graph.nodes:
        inputs.setdefault(node.origin, []).extend(node.inputs)
    needed: set[int] = set()
    sets = [set(needed)]
    for k in refused:
        rest = [k]
        while rest:
            origin = rest.pop()
            if origin not in needed:
                needed.add(origin)
                rest += [makers[i] for i in inputs[origin] if i in makers]
        sets.append(set(needed))
    return sets


def _descendants(graph: Graph, refused: list[int]) -> list[set[int]]:
    """Positions of the nodes that depend on the refused ones after the first k, these included."""
    sets = []
    for k in range(len(refused) + 1):
        dependent, results = set[int](), set[int]()
        for node in graph.nodes:
            if node.origin in refused[k:] or not results.isdisjoint(node.inputs):
                dependent.add(node.origin)
                results.update(node.outputs)
        sets.append(dependent)
    return sets


def _part(graph: Graph, left_out: set[int]) -> TrainablePart:
    """Returns the part of all operators but those at some positions."""

    def has_integers(node: Node) -> bool:
        return all(graph.tensors[i].spec.dtype.kind != "f" for i in node.outputs)

    nodes = [n for n in graph.nodes if n.origin not in left_out]
    nodes = without_unread(nodes, (), has_integers)  # a loss needs real numbers
    results = {i for n in nodes for i in n.outputs}
    origins = {n.origin for n in nodes}
    others = {i for n in graph.nodes if n.origin not in origins for i in n.inputs}
    read = dict.fromkeys(i for n in nodes for i in n.inputs if i != ABSENT and i not in results)
    after = [i for i in read if graph.tensors[i].data is None and i not in graph.inputs]
    ends = [i for n in nodes for i in n.outputs if i in others or i in graph.outputs]
    weights = trainable_tensors(graph, origins)
    parameters = sum(graph.tensors[i].spec.size for i in weights)
    before = () if set(ends) == set(graph.outputs) else tuple(ends)
    return TrainablePart(len(nodes), tuple(after), before, parameters)
