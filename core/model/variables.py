"""Variables of a model: VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE and their initial values.

A variable keeps its value from one run of the model to the next. Handles with the same container
and name refer to the same variable. CALL_ONCE runs the subgraph that assigns the initial values,
in the first run.
"""

from collections.abc import Mapping, Sequence

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
    """Whether a run of a graph changes what the next run computes."""
    return any(node.op in (ASSIGN, SVDF) for node in graph.nodes)
