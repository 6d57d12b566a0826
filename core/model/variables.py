"""Variables of a model: VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE and their initial values.

A variable keeps its value from one run of the model to the next. Handles with the same container
and name refer to the same variable. CALL_ONCE runs the subgraph that assigns the initial values,
in the first run.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from odt.core.model.graph import ABSENT, Graph, Node
from odt.dataclass import dataclass
from odt.kernels.geometry.quantize import Quantization, dequantize
from odt.kernels.rows.opdef import Array

HANDLE, READ, ASSIGN, INITIALIZE = "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"
STATE = (HANDLE, READ, ASSIGN, INITIALIZE)
DEQUANTIZE = "DEQUANTIZE"
SVDF = "SVDF"  # keeps its state in a variable tensor
Key = tuple[str, str]  # container and name of a variable


@dataclass(frozen=True, slots=True)
class Variable:
    """The initial value of a variable.

    Attributes:
        value: the value as stored; None if it is not a constant.
        subgraph: number of the subgraph that assigns it.
        tensor: tensor of that subgraph that holds it.
        buffer: buffer of that tensor.
        converted: whether a DEQUANTIZE makes float32 of it.
        quantization: scales of a value of integers that is converted.
        places: positions in the flat value that are not always 0, because each run multiplies the
            variable by a mask; None if all may differ from 0.
    """

    value: Array | None
    subgraph: int
    tensor: int
    buffer: int
    converted: bool = False
    quantization: Quantization | None = None
    places: Array | None = None

    @property
    def real(self) -> Array | None:
        """The value that operators read."""
        if self.value is None or not self.converted:
            return self.value
        return _converted(self.value, self.quantization)


def key_of(handle: Node) -> Key:
    """Returns container and name of the variable to which a VAR_HANDLE refers."""
    return str(handle.options["container"]), str(handle.options["shared_name"])


def handles(nodes: Sequence[Node]) -> dict[int, Key]:
    """Returns tensor with a handle → container and name of the variable."""
    return {i: key_of(node) for node in nodes if node.op == HANDLE for i in node.outputs}


def _converted(stored: Array, quantization: Quantization | None) -> Array:
    real = stored.astype(np.float32) if quantization is None else dequantize(stored, quantization)
    real.flags.writeable = False
    return real


def assigned_values(
    graph: Graph, subgraph: int, quantization: Mapping[int, Quantization]
) -> Mapping[Key, Variable]:
    """Returns the values that a subgraph assigns to variables; the last one of each.

    Args:
        graph: the subgraph.
        subgraph: its number.
        quantization: quantization of its tensors.
    """
    keys = handles(graph.nodes)
    constants = _dequantized(graph, quantization)
    variables: dict[Key, Variable] = {}
    for node in graph.nodes:
        if node.op == ASSIGN and len(node.inputs) == 2 and ABSENT not in node.inputs:
            handle, i = node.inputs
            if handle not in keys:
                continue
            stored = constants.get(i, i)
            tensor = graph.tensors[stored]
            scales = quantization.get(stored) if stored != i else None
            variables[keys[handle]] = Variable(
                tensor.data, subgraph, stored, tensor.buffer, stored != i, scales
            )
    return variables


def _dequantized(graph: Graph, quantization: Mapping[int, Quantization]) -> dict[int, int]:
    """Returns output of a DEQUANTIZE → the constant of float16 or integers that it reads."""
    constants: dict[int, int] = {}
    for node in graph.nodes:
        if node.op == DEQUANTIZE and len(node.inputs) == len(node.outputs) == 1:
            (x,), (y,) = node.inputs, node.outputs
            data = graph.tensors[x].data
            if data is not None and _is_stored(data, quantization.get(x)):
                constants[y] = x
    return constants


def _is_stored(data: Array, quantization: Quantization | None) -> bool:
    """Whether a DEQUANTIZE makes real numbers of a constant: of float16, or of integers."""
    if data.dtype == np.float16:
        return quantization is None
    if quantization is None or data.dtype.kind not in "iu":
        return False
    count, axis = quantization.scale.size, quantization.axis
    return count == 1 or data.shape[axis : axis + 1] == (count,)


def without_masks(
    graph: Graph, variables: Mapping[Key, Variable], quantization: Mapping[int, Quantization]
) -> tuple[Graph, Mapping[Key, Variable]]:
    """Returns a graph that multiplies no variable by a mask, and the variables as they then are.

    Pruning wrappers compute v ← v · mask in each run, with a constant of zeros and ones. From the
    first run on the variable is a constant, v · mask.

    Args:
        graph: the graph.
        variables: the initial values.
        quantization: quantization of the graph's tensors.
    """
    keys = handles(graph.nodes)
    nodes = list(graph.nodes)
    assigned: dict[Key, list[int]] = {}
    for k, node in enumerate(nodes):
        if node.op == ASSIGN and node.inputs:
            assigned.setdefault(keys.get(node.inputs[0], ("", "")), []).append(k)
    if not assigned:
        return graph, variables
    producers = {i: k for k, node in enumerate(nodes) for i in node.outputs}
    masks = _Masks(graph, variables, quantization, keys, assigned.keys())
    absorbed = set[int]()  # assignments that are no longer needed
    values = dict(variables)
    for key, (at, *others) in assigned.items():
        k = producers.get(nodes[at].inputs[-1], -1)
        variable = variables.get(key)
        value = None if variable is None else variable.real
        if others or k < 0 or variable is None or value is None:
            continue
        read, mask = masks.product(nodes[k], key)
        if mask is None or mask.shape != value.shape:
            continue
        ones: Array = mask != 0
        if not np.array_equal(ones, mask):
            continue
        is_read_again = any(
            n.op == READ and n.inputs and keys.get(n.inputs[0]) == key and read not in n.outputs
            for n in nodes[:at]
        )
        has_other_readers = any(read in n.inputs for j, n in enumerate(nodes) if j != k)
        if (is_read_again or has_other_readers) and value[~ones].any():
            continue  # in the first run, these nodes read the variable without the mask
        absorbed.add(at)
        nodes[k] = replace(nodes[k], op=READ, inputs=nodes[at].inputs[:1], options={})
        places = None if ones.all() else np.flatnonzero(ones).astype(np.int32)
        values[key] = replace(variable, value=_masked_value(variable, ones), places=places)
    if not absorbed:
        return graph, variables
    rest = [node for k, node in enumerate(nodes) if k not in absorbed]
    return replace(graph, nodes=_with_readers(rest, graph)), values


def _masked_value(variable: Variable, ones: Array) -> Array:
    """Returns the stored value with the integer or float of 0 where `ones` is false."""
    assert variable.value is not None
    if variable.quantization is None:
        zero = np.zeros((), variable.value.dtype)
    else:
        points = variable.quantization.along_axis(variable.value.ndim)[1]
        zero = np.asarray(points).astype(variable.value.dtype)
    masked = np.where(ones, variable.value, zero)
    masked.flags.writeable = False
    return masked


def _with_readers(nodes: Sequence[Node], graph: Graph) -> tuple[Node, ...]:
    """Drops nodes whose outputs were read in a graph, and are not read by `nodes`."""
    read_before = {i for node in graph.nodes for i in node.inputs}
    while True:
        read = {i for node in nodes for i in node.inputs} | set(graph.outputs)
        rest = [
            n
            for n in nodes
            if not n.outputs or not read.isdisjoint(n.outputs) or read_before.isdisjoint(n.outputs)
        ]
        if len(rest) == len(nodes):
            return tuple(nodes)
        nodes = rest


class _Masks:
    """Values of tensors that are constants, also behind a conversion or in a variable."""

    def __init__(
        self,
        graph: Graph,
        variables: Mapping[Key, Variable],
        quantization: Mapping[int, Quantization],
        keys: Mapping[int, Key],
        assigned: Collection[Key],
    ) -> None:
        self._graph, self._variables, self._quantization = graph, variables, quantization
        self._keys, self._assigned = keys, assigned
        self._producers = {i: node for node in graph.nodes for i in node.outputs}

    def variable(self, i: int) -> Key | None:
        """The variable that a READ_VARIABLE with this output reads."""
        node = self._producers.get(i)
        is_read = node is not None and node.op == READ and bool(node.inputs)
        return self._keys.get(node.inputs[0]) if node is not None and is_read else None

    def product(self, node: Node, key: Key) -> tuple[int, Array | None]:
        """Returns the operands of a MUL: the tensor of a variable, and the values of a constant.

        They are ABSENT and None if the node is no such product; the values alone are None if the
        other operand is no constant.
        """
        plain = node.op == "MUL" and not node.options.get("fused_activation_function", 0)
        read = [i for i in node.inputs if self.variable(i) == key]
        others = [i for i in node.inputs if i not in read and i != ABSENT]
        if not plain or len(read) != 1 or len(others) != 1 or len(node.outputs) != 1:
            return ABSENT, None
        return read[0], self.values(others[0])

    def values(self, i: int) -> Array | None:
        """The values of a constant; None for other tensors."""
        key, node = self.variable(i), self._producers.get(i)
        if key is not None:
            unassigned = key in self._variables and key not in self._assigned
            return self._variables[key].real if unassigned else None
        if node is None:
            return self._graph.tensors[i].data
        if node.op not in (DEQUANTIZE, "CAST") or len(node.inputs) != 1:
            return None
        stored, scales = self.values(node.inputs[0]), self._quantization.get(node.inputs[0])
        if stored is None:
            return None
        if node.op == DEQUANTIZE:
            return _converted(stored, scales) if _is_stored(stored, scales) else None
        dtype = self._graph.tensors[i].spec.dtype
        return stored.astype(dtype) if dtype.kind == "f" else None


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
    needed = _needed(graph)
    absent = set[int]()  # tensors that are no longer computed
    nodes: list[Node] = []
    for k, node in enumerate(graph.nodes):
        uses_variable = node.op in STATE and node.op != INITIALIZE
        if k in needed or not (uses_variable or absent.intersection(node.inputs)):
            nodes.append(node)
        else:
            absent.update(node.outputs)
    if len(nodes) == len(graph.nodes):
        return graph
    if not any(node.op == HANDLE for node in nodes):
        nodes = [node for node in nodes if node.op != INITIALIZE]
    return replace(graph, nodes=tuple(nodes))


def _needed(graph: Graph) -> set[int]:
    """Returns the numbers of the nodes on which outputs depend, in this run or a later one.

    They are all nodes if it is unknown to which variable one of them refers.
    """
    keys = handles(graph.nodes)
    tensors = set(graph.outputs)
    needed = set[int]()
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
