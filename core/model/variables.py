"""Variables of a model: VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE and their initial values.

A variable keeps its value from one run of the model to the next. Handles with the same container
and name refer to the same variable. CALL_ONCE runs the subgraph that assigns the initial values,
in the first run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from odt.core.model.graph import ABSENT, Graph, Node
from odt.dataclass import dataclass
from odt.kernels.opdef import Array

HANDLE, READ, ASSIGN, INITIALIZE = "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"
STATE = (HANDLE, READ, ASSIGN, INITIALIZE)
SVDF = "SVDF"  # keeps its state in a variable tensor
Key = tuple[str, str]  # container and name of a variable


@dataclass(frozen=True, slots=True)
class Variable:
    """The initial value of a variable.

    Attributes:
        value: the value, a read-only view of the file; None if it is not a constant.
        subgraph: number of the subgraph that assigns it.
        tensor: tensor of that subgraph that holds it.
        buffer: buffer of that tensor.
    """

    value: Array | None
    subgraph: int
    tensor: int
    buffer: int


def key_of(handle: Node) -> Key:
    """Returns container and name of the variable to which a VAR_HANDLE refers."""
    return str(handle.options["container"]), str(handle.options["shared_name"])


def handles(nodes: Sequence[Node]) -> dict[int, Key]:
    """Returns tensor with a handle → container and name of the variable."""
    return {i: key_of(node) for node in nodes if node.op == HANDLE for i in node.outputs}


def assigned_values(graph: Graph, subgraph: int) -> Mapping[Key, Variable]:
    """Returns the values that a subgraph assigns to variables; the last one of each."""
    keys = handles(graph.nodes)
    found: dict[Key, Variable] = {}
    for node in graph.nodes:
        if node.op == ASSIGN and len(node.inputs) == 2 and ABSENT not in node.inputs:
            handle, i = node.inputs
            tensor = graph.tensors[i]
            if handle in keys:
                found[keys[handle]] = Variable(tensor.data, subgraph, i, tensor.buffer)
    return found


def keeps_state(graph: Graph) -> bool:
    """Whether a run of a graph changes what the next run computes.

    It does not if no output depends on a variable that it assigns, such as the seed of a dropout
    that is only active while Keras trains.
    """
    if any(node.op == SVDF for node in graph.nodes):
        return True
    needed = _needed(graph)
    return any(node.op == ASSIGN and k in needed for k, node in enumerate(graph.nodes))


def without_unneeded(graph: Graph) -> Graph:
    """Returns a graph without the variables on which no output depends."""
    if not any(node.op in STATE for node in graph.nodes):
        return graph
    needed, gone, nodes = _needed(graph), set[int](), list[Node]()
    for k, node in enumerate(graph.nodes):
        of_state = node.op in STATE and node.op != INITIALIZE
        if k in needed or not (of_state or gone.intersection(node.inputs)):
            nodes.append(node)
        else:
            gone.update(node.outputs)
    if len(nodes) == len(graph.nodes):
        return graph
    if not any(node.op == HANDLE for node in nodes):
        nodes = [node for node in nodes if node.op != INITIALIZE]
    return replace(graph, nodes=tuple(nodes))


def _needed(graph: Graph) -> set[int]:
    """Returns the numbers of the nodes on which outputs depend, in this run or a later one.

    All count if it is unknown to which variable one of them refers.
    """
    keys, tensors, needed = handles(graph.nodes), set(graph.outputs), set[int]()
    if any(
        node.op in (READ, ASSIGN) and keys.keys().isdisjoint(node.inputs) for node in graph.nodes
    ):
        return {*range(len(graph.nodes))}
    while True:
        before = len(needed)
        used = {keys[i] for i in tensors if i in keys}
        for k in range(len(graph.nodes) - 1, -1, -1):
            node = graph.nodes[k]
            assigns = node.op == ASSIGN and keys.get(node.inputs[0]) in used
            if k not in needed and (assigns or not tensors.isdisjoint(node.outputs)):
                needed.add(k)
                tensors.update(node.inputs)
        if len(needed) == before:
            return needed
